"""The table of seals in the SQLite store: a chain of hashes over everything that is recorded.

seals    each covers the records from `first_seq` to `last_seq`, and what became of the rows of other tables, in `notes`;
         `hash` covers all of it and the seal before. `marks` has four bytes for each record: they prove nothing, and tell
         which of the records it is that does not fit
"""

from __future__ import annotations

SEAL_TABLES = """
CREATE TABLE seals (
    position INTEGER PRIMARY KEY,
    first_seq INTEGER NOT NULL,
    last_seq INTEGER NOT NULL,
    notes TEXT NOT NULL,
    hash TEXT NOT NULL,
    marks BLOB NOT NULL
);
"""
"""A script for the migrations."""
