"""Accounts: budgets of running harnesses, kept in the store."""
