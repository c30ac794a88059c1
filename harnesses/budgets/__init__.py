"""Budgets: limits, the pools that share them, and the accounting of spends."""
