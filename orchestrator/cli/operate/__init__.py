"""Verbs of an operator: approvals, effects, messages, the kill switch, control of a running program."""
