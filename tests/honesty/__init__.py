"""Agents that cheat, and agents that do not: the judge is to take the work of none of the first, and of all of the second."""
