"""What is to be done: stages and their artifacts, the tasks that cover them, and the checks and actions that they name."""
