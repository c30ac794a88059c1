"""Whether text from agents and markets stays text on every surface: `python -m tests.inert`."""
