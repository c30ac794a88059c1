"""Decisions about a feature list: what is next, and what becomes of the state. Pure."""
