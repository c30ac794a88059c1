"""What the SQLite store has of the harnesses that harnesses have started: an index, and the view that is its public interface.

child_records    their records among all others: no other record is in it, so none costs more to write
children         one row for each: who has started it, at which step, from what, and where it is in its life
"""

from __future__ import annotations

_STAMP = "strftime('%Y-%m-%dT%H:%M:%S', r.time_us / 1000000, 'unixepoch') || printf('.%06dZ', r.time_us % 1000000)"

CHILD_TABLES = f"""
CREATE INDEX child_records ON records (harness, seq) WHERE kind = 'child';
CREATE VIEW children AS
    SELECT r.seq AS seq, h.name AS harness, r.attempt AS attempt, r.step AS step_number, {_STAMP} AS timestamp,
           r.body ->> '$.child' AS child, r.body ->> '$.factory' AS factory, c.status AS status
    FROM records r JOIN harnesses h ON h.id = r.harness LEFT JOIN harnesses c ON c.name = r.body ->> '$.child'
    WHERE r.kind = 'child';
"""
"""A script for the migrations."""

CHILDREN = """
SELECT h.name, r.step, r.seq, r.body, c.name, c.status, c.class
FROM records r INDEXED BY child_records JOIN harnesses h ON h.id = r.harness
LEFT JOIN harnesses c ON c.name = CASE WHEN json_valid(r.body) THEN r.body ->> '$.child' END
WHERE r.kind = 'child' ORDER BY r.seq
"""
CHILDREN_OF = CHILDREN.replace("ORDER BY", "AND r.harness = ? ORDER BY")
"""Those that one harness has started, by its number."""
