"""The page for operators and the API behind it: one store, read by a process of its own, and orders to the program on it."""
