"""The tables of a memory, a SQLite file of its own. Pure.

    episodes     what was done, signed          episode_words   its words, for FTS5
    facts        what was learned, signed       vectors         its meaning, if there is an embedder
    retractions  what is not to be believed     uses            how often it was recalled, and when
    retrievals   who was told something         retrieved       which episodes that were
    compactions  what was thrown away

A row is read only if its signature is that of all that is in it. What changes with every recall is apart from it.
"""

from __future__ import annotations

APPLICATION_ID = 0x48726D6D
"""Says that a SQLite file is a memory."""
VERSION = 1

TABLES = (
    "CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT",
    "CREATE TABLE episodes (number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, run_id TEXT NOT NULL, task_id TEXT NOT NULL, "
    "created_us INTEGER NOT NULL, trusted INTEGER NOT NULL, retracted INTEGER NOT NULL DEFAULT 0, body TEXT NOT NULL, "
    "content TEXT NOT NULL, key_id TEXT NOT NULL, signature TEXT NOT NULL) STRICT",
    "CREATE INDEX episodes_of_tasks ON episodes (run_id, task_id)",
    "CREATE VIRTUAL TABLE episode_words USING fts5 (words, tokenize = \"unicode61 remove_diacritics 0 tokenchars '-_.'\")",
    "CREATE VIRTUAL TABLE episode_terms USING fts5vocab (episode_words, row)",
    "CREATE TABLE facts (number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, retracted INTEGER NOT NULL DEFAULT 0, "
    "body TEXT NOT NULL, key_id TEXT NOT NULL, signature TEXT NOT NULL) STRICT",
    "CREATE TABLE derivations (source TEXT NOT NULL, fact TEXT NOT NULL, PRIMARY KEY (source, fact)) STRICT, WITHOUT ROWID",
    "CREATE TABLE retractions (id TEXT PRIMARY KEY, reason TEXT NOT NULL, by TEXT NOT NULL, at_us INTEGER NOT NULL, "
    "because_of TEXT NOT NULL, key_id TEXT NOT NULL, signature TEXT NOT NULL) STRICT",
    "CREATE TABLE uses (id TEXT PRIMARY KEY, count INTEGER NOT NULL, last_us INTEGER NOT NULL) STRICT",
    "CREATE TABLE retrievals (id INTEGER PRIMARY KEY, at_us INTEGER NOT NULL, harness TEXT NOT NULL, run_id TEXT NOT NULL, "
    "task_id TEXT NOT NULL, agents TEXT NOT NULL, stages TEXT NOT NULL, results INTEGER NOT NULL) STRICT",
    "CREATE TABLE retrieved (episode TEXT NOT NULL, retrieval INTEGER NOT NULL, PRIMARY KEY (episode, retrieval)) "
    "STRICT, WITHOUT ROWID",
    "CREATE TABLE vectors (number INTEGER PRIMARY KEY, embedder TEXT NOT NULL, vector BLOB NOT NULL) STRICT",
    "CREATE TABLE compactions (number INTEGER PRIMARY KEY, at_us INTEGER NOT NULL, kept INTEGER NOT NULL, "
    "dropped INTEGER NOT NULL) STRICT",
)
NAMES = tuple(table.split(" ", 4)[3 if " VIRTUAL " in table else 2] for table in TABLES)
