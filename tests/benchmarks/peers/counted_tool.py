"""The tool of all agents that are compared: it appends a line, and once kills its own program half-way."""

import os
import signal
from pathlib import Path

NOTES = Path("notes.txt")


def add_line(line: str) -> str:
    """Append a line to the notes; at the line `KILL_AT`, kill this program after that, once."""
    with NOTES.open("a") as notes:
        notes.write(f"{line}\n")
    if line == os.environ.get("KILL_AT"):
        os.kill(os.getpid(), signal.SIGKILL)
    return "written"
