"""Integrity: seals over records, and the proof that a store is unchanged."""
