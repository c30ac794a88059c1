"""Recording: the one writer, the queue in front of it, and what waits for a commit."""
