"""What the command `orchestrator` is made of: its verbs, run files, and what it shows."""
