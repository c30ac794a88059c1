"""Paper trading: a simulated venue with its books."""
