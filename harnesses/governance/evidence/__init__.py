"""Evidence: what was found about a task, how much it is worth, and the verdict that follows."""
