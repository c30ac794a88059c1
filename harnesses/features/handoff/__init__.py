"""The hand-off: where the work stands, written for people and agents who come next."""
