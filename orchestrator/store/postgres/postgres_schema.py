"""The tables and functions of a store on PostgreSQL, all in one schema.

records      everything that happened, in one order. `seq` has no gaps and is in the order of commits: whoever numbers
             records holds the lock on the one row of `meta` until its transaction ends
harnesses    one row each: its owner and its lifecycle status
claims       which run had a harness, by epoch
runs         how many commits each run has made, and the `seq` of the last: settles a commit whose answer was lost
nodes        programs that share a fleet of harnesses; see `postgres_nodes`
leases       until when each living run owns its harnesses, by the server's clock. A table of its own, so that no commit,
             however long, blocks a renewal
mailbox, pools, open_reservations, approval_index, state_versions    as in `orchestrator.store.file.schema`
orders       orders and questions to harnesses that run; kept for a day, without what was said. See `postgres_order_table`
kill_switches  those that are on. Each change changes `meta.ownership`, so that the next commit of every run reads them anew
seals        a chain of hashes over the records, and over changes to rows of the other tables; see `postgres_seals`
unsealed     which rows were changed since the last seal
meta         one row; `ownership` changes whenever a harness changes owner; `store` is unlike that of any other store

Bodies are `text`, since `jsonb` refuses `\\u0000` and changes the order of keys.
"""

from __future__ import annotations

from collections.abc import Mapping

VERSION = 4
"""Version of the schema, in `meta.version`."""

FIND_META = "SELECT EXISTS (SELECT 1 FROM pg_tables WHERE schemaname = %s AND tablename = 'meta')"
"""Not by `to_regclass`, which may not notice what another session has just created."""

SCHEMA = """
CREATE TABLE meta (
    only_row integer PRIMARY KEY CHECK (only_row = 1),
    version integer NOT NULL,
    ownership bigint NOT NULL
) WITH (fillfactor = 10);
INSERT INTO meta VALUES (1, 1, 0);
CREATE TABLE runs (
    run text PRIMARY KEY,
    commits bigint NOT NULL,
    last_seq bigint NOT NULL
) WITH (fillfactor = 50);
CREATE TABLE leases (
    run text PRIMARY KEY,
    until timestamptz NOT NULL
) WITH (fillfactor = 50);
CREATE TABLE harnesses (
    id integer PRIMARY KEY,
    name text NOT NULL UNIQUE,
    class text NOT NULL,
    initial_state text NOT NULL,
    owner text,
    epoch integer NOT NULL,
    status text NOT NULL,
    attempt integer NOT NULL,
    supervision text NOT NULL DEFAULT '{}',
    event text NOT NULL DEFAULT '{}',
    time_us bigint NOT NULL,
    mailbox_limit bigint
) WITH (fillfactor = 70);
CREATE TABLE claims (
    harness integer NOT NULL,
    epoch integer NOT NULL,
    run text NOT NULL,
    PRIMARY KEY (harness, epoch)
);
CREATE TABLE records (
    seq bigint PRIMARY KEY,
    harness integer NOT NULL,
    epoch integer NOT NULL,
    attempt integer NOT NULL,
    step bigint NOT NULL,
    time_us bigint NOT NULL,
    body text NOT NULL,
    kind text NOT NULL,
    state text
);
CREATE UNIQUE INDEX steps_of ON records (harness, step) WHERE kind = 'step';
CREATE INDEX snapshots_of ON records (harness, step) WHERE kind = 'step' AND state IS NOT NULL;
CREATE INDEX marks_of ON records (harness, step, seq) WHERE kind IN ('intent', 'outcome');
CREATE INDEX events_of ON records (harness, kind, seq) WHERE kind NOT IN ('step', 'intent', 'outcome', 'output', 'message');
CREATE TABLE mailbox (
    seq bigint PRIMARY KEY,
    harness integer NOT NULL,
    sender text NOT NULL,
    body text NOT NULL,
    id text,
    kind text NOT NULL,
    type text,
    deadline_us bigint,
    consumed_step bigint
);
CREATE UNIQUE INDEX mailbox_ids ON mailbox (harness, id) WHERE id IS NOT NULL;
CREATE INDEX mailbox_waiting ON mailbox (harness, seq) WHERE consumed_step IS NULL;
CREATE TABLE approval_index (
    seq bigint PRIMARY KEY,
    id text NOT NULL,
    harness integer NOT NULL,
    digest text NOT NULL
);
CREATE INDEX approval_index_of ON approval_index (id);
CREATE INDEX approval_index_for ON approval_index (harness, digest);
CREATE TABLE pools (
    pool text PRIMARY KEY,
    limits text NOT NULL,
    spent text NOT NULL,
    reserved text NOT NULL,
    time_us bigint NOT NULL
);
CREATE TABLE open_reservations (
    id bigint PRIMARY KEY,
    harness integer NOT NULL,
    epoch integer NOT NULL,
    attempt integer NOT NULL,
    step bigint NOT NULL,
    pools text NOT NULL,
    amounts text NOT NULL
);
CREATE INDEX open_reservations_of ON open_reservations (harness);
CREATE TABLE state_versions (
    harness integer NOT NULL,
    step bigint NOT NULL,
    version integer NOT NULL,
    seq bigint NOT NULL,
    PRIMARY KEY (harness, step, version)
);

CREATE FUNCTION is_alive(text) RETURNS boolean LANGUAGE sql AS $$
    SELECT EXISTS (SELECT 1 FROM leases WHERE run = $1 AND until > clock_timestamp())
$$;

CREATE FUNCTION begin_commit(for_run text, OUT ownership bigint, OUT commits bigint, OUT last_seq bigint, OUT newest bigint)
LANGUAGE plpgsql AS $$
BEGIN
    SELECT m.ownership INTO begin_commit.ownership FROM meta m FOR UPDATE;
    SELECT r.commits, r.last_seq INTO begin_commit.commits, begin_commit.last_seq FROM runs r WHERE r.run = for_run;
    SELECT coalesce(max(seq), 0) INTO newest FROM records;
END $$;

CREATE FUNCTION append_rows(
    harness integer[], epoch integer[], attempt integer[], step bigint[], time_us bigint[], body text[], kind text[],
    state text[], newest bigint
) RETURNS void LANGUAGE sql AS $$
    INSERT INTO records (seq, harness, epoch, attempt, step, time_us, body, kind, state)
    SELECT $9 + r.number, r.harness, r.epoch, r.attempt, r.step, r.time_us, r.body, r.kind, r.state
    FROM unnest($1, $2, $3, $4, $5, $6, $7, $8)
    WITH ORDINALITY AS r (harness, epoch, attempt, step, time_us, body, kind, state, number)
$$;

CREATE FUNCTION commit_rows(
    for_run text, number bigint, as_of bigint, harness integer[], epoch integer[], attempt integer[], step bigint[],
    time_us bigint[], body text[], kind text[], state text[]
) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    found record;
BEGIN
    SELECT * INTO found FROM begin_commit(for_run);
    IF found.commits = number THEN
        RETURN found.last_seq;
    END IF;
    IF found.commits <> number - 1 OR found.ownership <> as_of THEN
        RETURN 0;
    END IF;
    PERFORM append_rows(harness, epoch, attempt, step, time_us, body, kind, state, found.newest);
    found.newest := found.newest + cardinality(harness);
    UPDATE runs SET commits = number, last_seq = found.newest WHERE run = for_run;
    RETURN found.newest;
END $$;
"""
"""The schema of version 1. `commit_rows` is one commit in one round trip: it returns the `seq` of the last row; 0, and nothing
is written, if a harness has changed owner, or a kill switch has changed, since `as_of`. Called again with the same `number`,
it returns what the first call returned.
"""

AS_JSON = r"""
CREATE FUNCTION as_json(text) RETURNS json LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN strpos($1, '\u') = 0 THEN $1::json ELSE
        regexp_replace($1, '(?<!\\)((?:\\\\)*)\\u(?:0000|[dD][89a-fA-F][0-9a-fA-F]{2})', '\1?', 'g')::json END
$$;
"""
"""Makes a body readable for PostgreSQL, which refuses a NUL and a lone surrogate anywhere in it, also where neither is asked
for: they become question marks.
"""

NOTED: Mapping[str, tuple[Mapping[str, str], str]] = {
    "approval_index": ({"seq": "bigint"}, "seq, id, harness, digest"),
    "claims": ({"harness": "integer", "epoch": "integer"}, "harness, epoch, run"),
    "harnesses": (
        {"id": "integer"},
        "id, name, class, initial_state, owner, epoch, status, attempt, supervision, event, time_us, mailbox_limit",
    ),
    "mailbox": ({"seq": "bigint"}, "seq, harness, sender, body, consumed_step, id, kind, type, deadline_us"),
    "open_reservations": ({"id": "bigint"}, "id, harness, epoch, attempt, step, pools, amounts"),
    "pools": ({"pool": "text"}, "pool, limits, spent, reserved, time_us"),
    "state_versions": (
        {"harness": "integer", "step": "bigint", "version": "integer"},
        "harness, step, version, seq",
    ),
}
"""Tables whose rows seals note: the types of the key's columns, and all columns, in the order that they have in a file."""

TELL_NEWS = "SELECT pg_notify('orchestrator', current_schema())"
"""Wakes the programs that wait for news of this store, when the transaction is committed."""
HEAR_NEWS = "LISTEN orchestrator"
WRITES = "orchestrator.writes"
"""The setting with which connections of this package have their changes noted."""

_NOTE = """
CREATE FUNCTION note_{table}() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF current_setting('{setting}', true) = 'on' THEN
        INSERT INTO unsealed SELECT TG_TABLE_NAME, json_build_array({key})::text FROM changed;
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER note_insert AFTER INSERT ON {table} REFERENCING NEW TABLE AS changed FOR EACH STATEMENT
EXECUTE FUNCTION note_{table}();
CREATE TRIGGER note_update AFTER UPDATE ON {table} REFERENCING NEW TABLE AS changed FOR EACH STATEMENT
EXECUTE FUNCTION note_{table}();
CREATE TRIGGER note_delete AFTER DELETE ON {table} REFERENCING OLD TABLE AS changed FOR EACH STATEMENT
EXECUTE FUNCTION note_{table}();
"""
_SEALS = """
CREATE TABLE seals (
    position bigint PRIMARY KEY,
    first_seq bigint NOT NULL,
    last_seq bigint NOT NULL,
    notes text NOT NULL,
    hash text NOT NULL,
    marks bytea NOT NULL
);
CREATE INDEX prunings ON seals (position) WHERE substr(notes, 1, 15) = '[["",["pruned",';
CREATE TABLE unsealed (
    of_table text NOT NULL,
    key text NOT NULL
);
UPDATE meta SET version = 3;
""" + "".join(_NOTE.format(table=table, setting=WRITES, key=", ".join(key)) for table, (key, _) in NOTED.items())

MIGRATIONS = {
    1: """
ALTER TABLE meta ADD COLUMN store text NOT NULL DEFAULT gen_random_uuid()::text;
CREATE TABLE kill_switches (
    name text PRIMARY KEY,
    said text NOT NULL
);
CREATE TABLE nodes (
    fleet text NOT NULL,
    name text NOT NULL,
    run text NOT NULL,
    labels text NOT NULL,
    cpus double precision NOT NULL,
    digest text NOT NULL,
    draining boolean NOT NULL DEFAULT false,
    unplaced text NOT NULL DEFAULT '{}',
    time_us bigint NOT NULL,
    PRIMARY KEY (fleet, name)
);
UPDATE meta SET version = 2;
""",
    2: _SEALS,
    3: """
CREATE TABLE orders (
    id text PRIMARY KEY,
    harness text NOT NULL,
    verb text NOT NULL,
    options text NOT NULL,
    body text NOT NULL,
    given_by text NOT NULL,
    given timestamptz NOT NULL DEFAULT clock_timestamp(),
    until timestamptz NOT NULL,
    run text,
    status integer,
    answer text
);
CREATE INDEX orders_open ON orders (harness) WHERE status IS NULL;
ALTER TABLE leases ADD COLUMN renewed timestamptz NOT NULL DEFAULT clock_timestamp();
UPDATE meta SET version = 4;
""",
}
"""What makes the next version of each; a new schema goes through all of them."""

CREATE = "SELECT pg_advisory_xact_lock(hashtext('orchestrator'), hashtext(%s))"
"""Keeps two programs from creating or upgrading the same schema at once."""
