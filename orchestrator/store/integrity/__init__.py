"""Integrity: seals over records, and verification that a store is unchanged."""
