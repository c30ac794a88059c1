"""The tables of budgets in the SQLite store, and the views that are its public interface.

pools               one row each: limits, what was spent and what is reserved, as JSON objects by field; a field that is
                    not there has no limit, or nothing spent
open_reservations   what is reserved; a row goes when it is settled or charged in full, and `records` keeps what became of it
"""

from __future__ import annotations

BUDGET_TABLES = """
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
"""A script for the migrations."""
