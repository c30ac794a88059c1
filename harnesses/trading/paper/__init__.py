"""Paper trading: a simulated venue and its books."""
