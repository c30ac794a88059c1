"""Budgets: limits, the pools that share them, and what is charged to them."""
