"""One strategy over the same bars in this package, in backtesting.py and in NautilusTrader."""
