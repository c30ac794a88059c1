"""The in-memory store."""
