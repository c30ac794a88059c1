"""Child processes: run within a time limit, leaving no process behind."""
