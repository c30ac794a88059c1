"""What harnesses did, noted by themselves outside of the store: a file for each, which a killed process cannot take back."""

from __future__ import annotations

import os
import time
from pathlib import Path

from attrs import frozen

FOLDER = "FAULTS_LEDGER"
"""Environment variable with the folder of the ledgers."""


@frozen
class Line:
    """Something that a harness did."""

    kind: str
    """`want` before it asks for an effect, `act` for the effect, `ack` after a step, `beat` while it runs."""
    number: int
    """Number of the step; tokens of a `spend`."""
    pid: int
    at_s: float
    """On the machine's monotonic clock, which all processes share."""


def note(name: str, kind: str, number: int) -> None:
    """Add a line to the ledger of a harness, in one write."""
    file = os.open(Path(os.environ[FOLDER], name), os.O_APPEND | os.O_CREAT | os.O_WRONLY, 0o600)
    try:
        os.write(file, f"{kind} {number} {os.getpid()} {time.monotonic():.6f}\n".encode())
    finally:
        os.close(file)


def read(folder: Path, name: str) -> list[Line]:
    """Return what a harness did, in order."""
    path = folder / name
    lines = path.read_text("ascii").splitlines() if path.exists() else []
    return [Line(kind, int(number), int(pid), float(at_s)) for kind, number, pid, at_s in map(str.split, lines)]
