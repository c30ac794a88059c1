"""The tables of the SQLite store, the views that are its public interface, and the migrations of older files.

records      everything that happened, in one order: steps, lifecycle events, messages. Append only, and without an index: an
             index over (harness, step) would be modified in as many places as there are harnesses at every commit
step_index   positions of steps. Filled in bulk, `INDEX_EVERY` records at a time, in the transaction of some commit;
             records newer than `meta.indexed_seq` are found by reading the tail of `records`
effect_index positions of intents and outcomes of effects; filled together with `step_index`
snapshots    positions of whole states, at steps so far apart that the deltas between them outweigh their size
harnesses    one row each: its owner and its lifecycle status
mailbox      messages, and the step that consumed each
approval_index    positions of the records of each approval: request, answers, use. Only for lookup; decisions are made from
                  `records`
approval_records, child_records, transcript_records, forked_records  partial indexes over records of one kind, so that no
             other record costs more to write
event_records     a partial index over all records but steps, effects, output and messages: lifecycle events, and rare ones
pools        one row each: limits, spent and reserved amounts, as JSON objects by field; a missing field has no limit, or
             nothing spent
open_reservations  reserved amounts; a row is deleted when it is settled or charged in full, and `records` keeps the result
state_versions     versions of a harness's states: each row's version applies after its `step`; 0 is the initial state. A row
             with a `seq` belongs to a migration: the migrated state is in that record, and the state after `step` itself is
             unchanged. Without a row the version is 1
seals        a chain of hashes: each covers the records from `first_seq` to `last_seq`, and changes to rows of other tables,
             in `notes`; `hash` covers all of it and the seal before. `marks` has four bytes for each record, which prove
             nothing, but show which record does not match
meta         one row of counters; `ownership` changes whenever a harness changes owner
"""

from __future__ import annotations

_STAMP_OF = "strftime('%Y-%m-%dT%H:%M:%S', {us} / 1000000, 'unixepoch') || printf('.%06dZ', {us} % 1000000)"
_STAMP = _STAMP_OF.format(us="r.time_us")
_ANSWER = """(SELECT {what} FROM approval_index j JOIN records a ON a.seq = j.seq
            WHERE j.id = i.id AND a.kind = 'approval_answered'
            ORDER BY a.body ->> '$.verdict' = 'denied' DESC, a.seq LIMIT 1)"""

_APPROVAL_TABLES = f"""
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
           {_STAMP} AS timestamp, i.id AS id, r.body ->> '$.key' AS key,
           r.body ->> '$.category' AS category, r.body ->> '$.summary' AS summary, r.body -> '$.arguments' AS arguments,
           i.digest AS digest, {_STAMP_OF.format(us="(r.body ->> '$.expires_us')")} AS expires,
           {_ANSWER.format(what="a.body ->> '$.verdict'")} AS verdict,
           {_ANSWER.format(what="a.body ->> '$.by'")} AS answered_by,
           {_ANSWER.format(what="a.body ->> '$.reason'")} AS reason,
           EXISTS (SELECT 1 FROM approval_index j JOIN records a ON a.seq = j.seq
                   WHERE j.id = i.id AND a.kind = 'approval_used') AS used
    FROM approval_index i JOIN records r ON r.seq = i.seq JOIN harnesses h ON h.id = r.harness
    WHERE r.kind = 'approval_requested';
"""


_BUDGET_TABLES = """
CREATE TABLE pools (
    pool TEXT PRIMARY KEY,
    limits TEXT NOT NULL,
    spent TEXT NOT NULL,
    reserved TEXT NOT NULL,
    time_us INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE open_reservations (
    id INTEGER PRIMARY KEY,
    harness INTEGER NOT NULL,
    epoch INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    step INTEGER NOT NULL,
    pools TEXT NOT NULL,
    amounts TEXT NOT NULL
);
CREATE INDEX open_reservations_of ON open_reservations (harness);
CREATE VIEW budgets AS
    SELECT pool, limits, spent, reserved FROM pools;
CREATE VIEW reservations AS
    SELECT o.id AS seq, h.name AS harness, o.attempt AS attempt, o.step AS step_number, o.pools AS pools, o.amounts AS amounts
    FROM open_reservations o JOIN harnesses h ON h.id = o.harness;
"""


_SEAL_TABLES = """
CREATE TABLE seals (
    position INTEGER PRIMARY KEY,
    first_seq INTEGER NOT NULL,
    last_seq INTEGER NOT NULL,
    notes TEXT NOT NULL,
    hash TEXT NOT NULL,
    marks BLOB NOT NULL
);
"""


_CHILD_TABLES = f"""
CREATE INDEX child_records ON records (harness, seq) WHERE kind = 'child';
CREATE VIEW children AS
    SELECT r.seq AS seq, h.name AS harness, r.attempt AS attempt, r.step AS step_number, {_STAMP} AS timestamp,
           r.body ->> '$.child' AS child, r.body ->> '$.factory' AS factory, c.status AS status
    FROM records r JOIN harnesses h ON h.id = r.harness LEFT JOIN harnesses c ON c.name = r.body ->> '$.child'
    WHERE r.kind = 'child';
"""

CHILDREN = """
SELECT h.name, r.step, r.seq, r.body, c.name, c.status, c.class
FROM records r INDEXED BY child_records JOIN harnesses h ON h.id = r.harness
LEFT JOIN harnesses c ON c.name = CASE WHEN json_valid(r.body) THEN r.body ->> '$.child' END
WHERE r.kind = 'child' ORDER BY r.seq
"""
CHILDREN_OF = CHILDREN.replace("ORDER BY", "AND r.harness = ? ORDER BY")
"""The children of one harness, by its number."""


_VERSION_TABLES = """
CREATE TABLE state_versions (
    harness INTEGER NOT NULL,
    step INTEGER NOT NULL,
    version INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    PRIMARY KEY (harness, step, version)
) WITHOUT ROWID;
"""

ADD_VERSION = "INSERT INTO state_versions (harness, step, version, seq) VALUES (?, ?, ?, ?)"

VERSIONS_OF = "SELECT step, version, seq FROM state_versions WHERE harness = ? ORDER BY step, version"

GOES_ON_WITH = """
SELECT v.step, v.version, r.state FROM state_versions v LEFT JOIN records r ON r.seq = v.seq
WHERE v.harness = ? ORDER BY v.step DESC, v.version DESC LIMIT 1
"""
"""The newest row of a harness. The harness continues with a migrated state if that is newer than its last step."""


APPLICATION_ID = 0x4861726E
"""`PRAGMA application_id` of a store's file: "Harn"."""

INDEX_EVERY = 4096
"""Records between two runs of the bulk index: 4,096 cost about 6 ms, once, and reading such a tail takes 2 ms."""

_TABLES = """
CREATE TABLE records (
    seq INTEGER PRIMARY KEY,
    harness INTEGER NOT NULL,
    epoch INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    step INTEGER NOT NULL,
    time_us INTEGER NOT NULL,
    body TEXT NOT NULL,
    kind TEXT NOT NULL DEFAULT 'step',
    state TEXT
);
CREATE TABLE step_index (
    harness INTEGER NOT NULL,
    step INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    PRIMARY KEY (harness, step)
) WITHOUT ROWID;
CREATE TABLE snapshots (
    harness INTEGER NOT NULL,
    step INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    PRIMARY KEY (harness, step)
) WITHOUT ROWID;
CREATE TABLE harnesses (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    class TEXT NOT NULL,
    initial_state TEXT NOT NULL,
    owner TEXT,
    epoch INTEGER NOT NULL,
    status TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    supervision TEXT NOT NULL DEFAULT '{}',
    event TEXT NOT NULL DEFAULT '{}',
    time_us INTEGER NOT NULL
);
CREATE TABLE claims (
    harness INTEGER NOT NULL,
    epoch INTEGER NOT NULL,
    run TEXT NOT NULL,
    PRIMARY KEY (harness, epoch)
) WITHOUT ROWID;
CREATE TABLE mailbox (
    seq INTEGER PRIMARY KEY,
    harness INTEGER NOT NULL,
    sender TEXT NOT NULL,
    body TEXT NOT NULL,
    consumed_step INTEGER
);
CREATE INDEX mailbox_waiting ON mailbox (harness, seq) WHERE consumed_step IS NULL;
CREATE TABLE meta (
    only INTEGER PRIMARY KEY CHECK (only = 1),
    indexed_seq INTEGER NOT NULL,
    ownership INTEGER NOT NULL
);
INSERT INTO meta VALUES (1, 0, 0);
"""

_STEP_COLUMNS = f"""
    r.seq AS seq, h.name AS harness, r.attempt AS attempt, r.step AS step_number, {_STAMP} AS timestamp,
    r.body -> '$.input' AS input, r.body -> '$.output' AS output, r.body -> '$.delta' AS delta,
    r.body ->> '$.summary' AS summary
"""

_VIEWS = f"""
CREATE VIEW steps AS
    SELECT {_STEP_COLUMNS}
    FROM harnesses h JOIN step_index i ON i.harness = h.id JOIN records r ON r.seq = i.seq
    UNION ALL
    SELECT {_STEP_COLUMNS}
    FROM records r JOIN harnesses h ON h.id = r.harness
    WHERE r.seq > (SELECT indexed_seq FROM meta) AND r.kind = 'step';
CREATE VIEW events AS
    SELECT r.seq AS seq, h.name AS harness, r.attempt AS attempt, r.step AS step_number, {_STAMP} AS timestamp,
           r.kind AS kind, c.run AS run, r.body AS body
    FROM records r JOIN harnesses h ON h.id = r.harness
    LEFT JOIN claims c ON c.harness = r.harness AND c.epoch = r.epoch
    WHERE r.kind <> 'step';
CREATE VIEW harness_status AS
    SELECT h.name AS harness, h.status AS status, h.attempt AS attempt,
           max(coalesce((SELECT max(i.step) FROM step_index i WHERE i.harness = h.id), 0),
               coalesce(t.step, 0)) AS current_step,
           h.class AS class, h.event AS last_event
    FROM harnesses h LEFT JOIN (
        SELECT r.harness AS harness, max(r.step) AS step FROM records r
        WHERE r.seq > (SELECT indexed_seq FROM meta) AND r.kind = 'step' GROUP BY r.harness
    ) t ON t.harness = h.id;
CREATE VIEW messages AS
    SELECT m.seq AS seq, h.name AS harness, m.sender AS sender, m.body AS body, m.consumed_step AS consumed_step
    FROM mailbox m JOIN harnesses h ON h.id = m.harness;
"""

_EFFECTS = f"""
CREATE TABLE effect_index (
    harness INTEGER NOT NULL,
    step INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    PRIMARY KEY (harness, step, seq)
) WITHOUT ROWID;
CREATE VIEW effects AS
    WITH marks AS (
        SELECT r.* FROM effect_index i JOIN records r ON r.seq = i.seq
        UNION ALL
        SELECT * FROM records WHERE seq > (SELECT indexed_seq FROM meta) AND kind IN ('intent', 'outcome')
    ), intents AS (
        SELECT harness, step, body ->> '$.key' AS key, max(seq) AS seq, attempt, time_us, body
        FROM marks WHERE kind = 'intent' GROUP BY harness, step, key
    ), outcomes AS (
        SELECT harness, step, body ->> '$.key' AS key, max(seq) AS seq, body
        FROM marks WHERE kind = 'outcome' GROUP BY harness, step, key
    )
    SELECT r.seq AS seq, h.name AS harness, r.attempt AS attempt, r.step AS step_number, {_STAMP} AS timestamp, r.key AS key,
           CASE WHEN o.seq > r.seq THEN o.body ->> '$.outcome' ELSE 'begun' END AS outcome,
           r.body -> '$.arguments' AS arguments,
           CASE WHEN o.seq > r.seq THEN o.body -> '$.result' END AS result,
           CASE WHEN o.seq > r.seq THEN coalesce(o.body ->> '$.reason', '') ELSE '' END AS reason,
           coalesce(r.body ->> '$.idempotent', 0) AS idempotent,
           CASE WHEN o.seq > r.seq THEN coalesce(o.body ->> '$.by', '') ELSE '' END AS settled_by
    FROM intents r JOIN harnesses h ON h.id = r.harness
    LEFT JOIN outcomes o ON o.harness = r.harness AND o.step = r.step AND o.key = r.key;
DROP VIEW events;
CREATE VIEW events AS
    SELECT r.seq AS seq, coalesce(h.name, '') AS harness, r.attempt AS attempt, r.step AS step_number, {_STAMP} AS timestamp,
           r.kind AS kind, c.run AS run, r.body AS body
    FROM records r LEFT JOIN harnesses h ON h.id = r.harness
    LEFT JOIN claims c ON c.harness = r.harness AND c.epoch = r.epoch
    WHERE r.kind NOT IN ('step', 'intent', 'outcome');
"""

_MESSAGES = """
ALTER TABLE mailbox ADD COLUMN id TEXT;
ALTER TABLE mailbox ADD COLUMN kind TEXT NOT NULL DEFAULT 'plain';
ALTER TABLE mailbox ADD COLUMN type TEXT;
ALTER TABLE mailbox ADD COLUMN deadline_us INTEGER;
ALTER TABLE harnesses ADD COLUMN mailbox_limit INTEGER;
CREATE UNIQUE INDEX mailbox_ids ON mailbox (harness, id) WHERE id IS NOT NULL;
CREATE INDEX mailbox_replies ON mailbox (harness, seq) WHERE consumed_step IS NULL AND kind = 'reply';
DROP VIEW messages;
CREATE VIEW messages AS
    SELECT m.seq AS seq, h.name AS harness, m.sender AS sender, m.body AS body, m.consumed_step AS consumed_step,
           m.kind AS kind, m.id AS id, m.type AS type, m.deadline_us AS deadline_us
    FROM mailbox m JOIN harnesses h ON h.id = m.harness;
"""

# Records of earlier versions keep the kind `exhausted`, which seals cover; the view shows them with the current word.
_FINISHED = f"""
UPDATE harnesses SET status = 'finished' WHERE status = 'exhausted';
DROP VIEW events;
CREATE VIEW events AS
    SELECT r.seq AS seq, coalesce(h.name, '') AS harness, r.attempt AS attempt, r.step AS step_number, {_STAMP} AS timestamp,
           CASE r.kind WHEN 'exhausted' THEN 'finished' ELSE r.kind END AS kind, c.run AS run, r.body AS body
    FROM records r LEFT JOIN harnesses h ON h.id = r.harness
    LEFT JOIN claims c ON c.harness = r.harness AND c.epoch = r.epoch
    WHERE r.kind NOT IN ('step', 'intent', 'outcome');
"""
_TRANSCRIPTS = f"""
CREATE INDEX transcript_records ON records (harness, step, seq) WHERE kind = 'transcript';
CREATE INDEX forked_records ON records (harness) WHERE kind = 'forked';
CREATE VIEW transcripts AS
    SELECT r.seq AS seq, h.name AS harness, r.attempt AS attempt, r.step AS step_number, {_STAMP} AS timestamp,
           r.body ->> '$.agent' AS agent, coalesce(r.body ->> '$.session', '') AS session, r.body ->> '$.turn' AS turn,
           r.body ->> '$.model' AS model, coalesce(r.body ->> '$.stop_reason', '') AS stop_reason,
           coalesce(r.body ->> '$.error', '') AS error, r.body ->> '$.message_count' AS messages,
           r.body ->> '$.model_calls' AS model_calls, r.body ->> '$.tool_calls' AS tool_calls,
           r.body ->> '$.tool_errors' AS tool_errors, coalesce(r.body ->> '$.input_tokens', 0) AS input_tokens,
           coalesce(r.body ->> '$.output_tokens', 0) AS output_tokens, r.body ->> '$.cost' AS cost,
           r.body ->> '$.file.sha256' AS file
    FROM records r JOIN harnesses h ON h.id = r.harness
    WHERE r.kind = 'transcript';
"""
NOT_EVENTS = ("step", "intent", "outcome", "output", "message")
"""Kinds of records that are not in the index `event_records`. The most frequent kind comes first."""
# Comparisons, since SQLite stops at the first one for a step. A list alone costs a third of what inserting the step does.
IS_EVENT = " AND ".join(f"kind <> '{kind}'" for kind in NOT_EVENTS)
"""Condition for the records in the index `event_records`; a query without it does not use the index."""

_EVENT_INDEX = f"""
CREATE INDEX event_records ON records (harness, kind) WHERE {IS_EVENT};
DROP INDEX approval_records;
CREATE INDEX approval_records ON records (seq)
    WHERE kind <> 'step' AND kind IN ('approval_requested', 'approval_answered', 'approval_used');
"""
MIGRATIONS: tuple[str, ...] = (
    _TABLES,
    _VIEWS,
    _EFFECTS,
    _BUDGET_TABLES,
    _SEAL_TABLES,
    _APPROVAL_TABLES,
    _VERSION_TABLES,
    _CHILD_TABLES,
    _MESSAGES,
    _FINISHED,
    _TRANSCRIPTS,
    _EVENT_INDEX,
)
"""Script n migrates a file from schema version n to n + 1. A released script is never changed."""


def statements(script: str) -> list[str]:
    """Return the statements of a script one by one; all of them belong in one transaction."""
    return [statement for statement in script.split(";\n") if statement.strip()]


VERSION = len(MIGRATIONS)
"""The schema version that this program writes: `PRAGMA user_version`."""

OLDEST_READABLE = 11
"""The oldest schema version that has the same tables and views, and is read without an upgrade; it lacks `event_records`."""

INDEXES = {
    "step_index": "kind = 'step'",
    "effect_index": "kind IN ('intent', 'outcome')",
    "snapshots": "kind = 'step' AND state IS NOT NULL",
}
"""Condition for the records in each table of the bulk index."""

INDEX_NEW = tuple(
    f"INSERT INTO {index} (harness, step, seq) SELECT harness, step, seq FROM records "
    f"WHERE seq > (SELECT indexed_seq FROM meta) AND {which} ORDER BY harness, step, seq"
    for index, which in INDEXES.items()
)
"""Statements that add the records newer than `meta.indexed_seq` to the bulk index."""

HEAD = """
SELECT max(coalesce((SELECT max(step) FROM step_index WHERE harness = :harness), 0),
           coalesce((SELECT max(step) FROM records
                     WHERE seq > (SELECT indexed_seq FROM meta) AND harness = :harness AND kind = 'step'), 0))
"""
"""Number of the last step of one harness, 0 if there is none."""

MARKS = """
SELECT kind, body FROM (
    SELECT r.seq, r.kind, r.body FROM effect_index i JOIN records r ON r.seq = i.seq
    WHERE i.harness = :harness AND i.step = :step
    UNION ALL
    SELECT seq, kind, body FROM records
    WHERE seq > (SELECT indexed_seq FROM meta) AND harness = :harness AND step = :step AND kind IN ('intent', 'outcome')
) ORDER BY seq
"""
"""Intents and outcomes of one step of one harness, oldest first."""

LAST_SNAPSHOT = """
SELECT s.step, r.state FROM snapshots s JOIN records r ON r.seq = s.seq
WHERE s.harness = :harness AND s.step = (SELECT max(step) FROM snapshots WHERE harness = :harness AND step <= :step)
UNION ALL
SELECT 0, initial_state FROM harnesses WHERE id = :harness
LIMIT 1
"""
"""Step and state of the last indexed snapshot up to a step; the initial state if there is none."""

TRANSCRIPTS = """
SELECT r.seq, h.name, r.attempt, r.step, r.time_us, r.kind, r.body, coalesce(c.run, '')
FROM records r INDEXED BY transcript_records JOIN harnesses h ON h.id = r.harness
LEFT JOIN claims c ON c.harness = r.harness AND c.epoch = r.epoch
WHERE r.kind = 'transcript' AND r.harness = :harness AND (:step IS NULL OR r.step = :step)
  AND (:session IS NULL OR CASE WHEN json_valid(r.body) THEN r.body ->> '$.session' END = :session)
ORDER BY r.step DESC, r.seq DESC LIMIT :limit OFFSET :skipped
"""
"""Transcripts of one harness, newest first: all, those of one step, or those of one session."""

MODEL_OF = """
SELECT CASE WHEN json_valid(body) THEN body ->> '$.model' END FROM records INDEXED BY forked_records
WHERE kind = 'forked' AND harness = ?
"""
"""The model that the model agents of a fork ask instead of their own."""

EFFECTS_OF_STEP = """
SELECT r.seq, h.name, r.attempt, r.step, r.time_us, r.kind, r.body FROM (
    SELECT r.* FROM effect_index i JOIN records r ON r.seq = i.seq WHERE i.harness = :harness AND i.step = :step
    UNION ALL
    SELECT * FROM records
    WHERE seq > (SELECT indexed_seq FROM meta) AND harness = :harness AND step = :step AND kind IN ('intent', 'outcome')
) r JOIN harnesses h ON h.id = r.harness ORDER BY r.seq
"""
"""Intents and outcomes of one step of one harness as records, oldest first."""
