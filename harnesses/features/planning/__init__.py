"""Decisions about a feature list: the next move, and the changes of the state. No I/O."""
