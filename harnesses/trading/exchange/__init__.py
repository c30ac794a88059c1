"""Real exchanges, reached through ccxt."""
