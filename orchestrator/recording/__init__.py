"""Recording: the one writer, the queue in front of it, and budgets and approvals, which wait for it."""
