"""Faults of nodes on PostgreSQL, each beside the same fault without the protection against it."""
