"""The plan of a pipeline: stages and their artifacts, the tasks that cover them, and their checks and actions."""
