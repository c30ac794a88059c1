"""Recording: the single writer, the queue in front of it, and the budgets and approvals that wait for it."""
