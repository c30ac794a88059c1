"""The table of the versions of state classes in the SQLite store.

state_versions   where the states of a harness begin to have a version: after `step`; the initial state is at 0. A row with a
                 `seq` is of a migration: what the harness went on with from there is with that record, and the state after
                 `step` itself stays what it was. Without a row the version is 1
"""

from __future__ import annotations

VERSION_TABLES = """
CREATE TABLE state_versions (
    harness INTEGER NOT NULL,
    step INTEGER NOT NULL,
    version INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    PRIMARY KEY (harness, step, version)
) WITHOUT ROWID;
"""
"""A script for the migrations of the schema."""

ADD_VERSION = "INSERT INTO state_versions (harness, step, version, seq) VALUES (?, ?, ?, ?)"

VERSIONS_OF = "SELECT step, version, seq FROM state_versions WHERE harness = ? ORDER BY step, version"

GOES_ON_WITH = """
SELECT v.step, v.version, r.state FROM state_versions v LEFT JOIN records r ON r.seq = v.seq
WHERE v.harness = ? ORDER BY v.step DESC, v.version DESC LIMIT 1
"""
"""The newest row of a harness; a migrated state, if it is after the last step, is what the harness goes on with."""
