"""Rules that every store applies in the same way."""
