"""The table of approvals in the SQLite store, and the view that is its public interface.

approval_index   where the records of each request are: itself, its answers, its use. It is for finding them; what counts is
                 read from `records`
approval_records the records of approvals among all others: no other record is in it, so none costs more to write
"""

from __future__ import annotations

_STAMP = "strftime('%Y-%m-%dT%H:%M:%S', {us} / 1000000, 'unixepoch') || printf('.%06dZ', {us} % 1000000)"
_ANSWER = """(SELECT {what} FROM approval_index j JOIN records a ON a.seq = j.seq
            WHERE j.id = i.id AND a.kind = 'approval_answered'
            ORDER BY a.body ->> '$.verdict' = 'denied' DESC, a.seq LIMIT 1)"""

APPROVAL_TABLES = f"""
CREATE TABLE approval_index (
    seq INTEGER PRIMARY KEY,
    id TEXT NOT NULL,
    harness INTEGER NOT NULL,
    digest TEXT NOT NULL
);
CREATE INDEX approval_index_of ON approval_index (id);
CREATE INDEX approval_index_for ON approval_index (harness, digest);
CREATE INDEX approval_records ON records (seq)
    WHERE kind IN ('approval_requested', 'approval_answered', 'approval_used');
CREATE VIEW approvals AS
    SELECT r.seq AS seq, h.name AS harness, r.attempt AS attempt, r.step AS step_number,
           {_STAMP.format(us="r.time_us")} AS timestamp, i.id AS id, r.body ->> '$.key' AS key,
           r.body ->> '$.category' AS category, r.body ->> '$.summary' AS summary, r.body -> '$.arguments' AS arguments,
           i.digest AS digest, {_STAMP.format(us="(r.body ->> '$.expires_us')")} AS expires,
           {_ANSWER.format(what="a.body ->> '$.verdict'")} AS verdict,
           {_ANSWER.format(what="a.body ->> '$.by'")} AS answered_by,
           {_ANSWER.format(what="a.body ->> '$.reason'")} AS reason,
           EXISTS (SELECT 1 FROM approval_index j JOIN records a ON a.seq = j.seq
                   WHERE j.id = i.id AND a.kind = 'approval_used') AS used
    FROM approval_index i JOIN records r ON r.seq = i.seq JOIN harnesses h ON h.id = r.harness
    WHERE r.kind = 'approval_requested';
"""
"""A script for the migrations."""
