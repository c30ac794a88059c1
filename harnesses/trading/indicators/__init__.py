"""Indicators: numbers computed from the prices of one symbol."""
