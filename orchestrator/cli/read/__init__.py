"""Verbs that read a store: status, steps, history, budgets, verify, watch."""
