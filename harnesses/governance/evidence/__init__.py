"""Evidence: observations about a task, their grades, and the verdict that follows."""
