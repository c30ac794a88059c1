"""The market: bars, orders, instruments, and the protocols of a feed and a broker."""
