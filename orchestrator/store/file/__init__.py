"""The file of a SQLite store: its tables, its locks, and who has it open."""
