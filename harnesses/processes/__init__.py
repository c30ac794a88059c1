"""Child processes: run within a time limit, with nothing left behind."""
