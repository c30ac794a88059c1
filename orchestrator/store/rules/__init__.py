"""Rules that every store applies the same way: pure functions of records and values."""
