"""Backtests beside a simulation that shares no code with them."""
