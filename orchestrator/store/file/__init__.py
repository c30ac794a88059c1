"""The file of a SQLite store: its tables, its locks, and the processes that have it open."""
