"""The runtime: children, their attempts, their supervision, and failures around them."""
