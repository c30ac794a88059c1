"""A world outside of the store: a file to which every act adds a line, which is there once it is written, whoever dies.

A line is `TICKET PID`: what was done, and by which process. What was done twice has two lines.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import trio

from harnesses.effects.effect import Confirmed, NotDone


class World:
    """The file, open for acts.

    Args:
        pace_s: how long a request takes to arrive, and how long its answer; with 0 it is done as soon as it is asked for.
        die: kills this process right before, or right after, the given act, counted from 1.
    """

    def __init__(self, path: Path, *, pace_s: float = 0.0, die: str | None = None) -> None:
        self.path = path
        self.pace_s = pace_s
        self._moment, self._number = ("", 0) if die is None else (die.split(":")[0], int(die.split(":")[1]))
        self._acts = 0
        self._file = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)

    async def act(self, ticket: str) -> str:
        """Do what must not be done twice; return the receipt."""
        if self.pace_s:
            await trio.sleep(self.pace_s)
        self._acts += 1
        self._die("before")
        os.write(self._file, f"{ticket} {os.getpid()}\n".encode())
        self._die("after")
        if self.pace_s:
            await trio.sleep(self.pace_s)
        return f"{ticket} by {os.getpid()}"

    async def ask(self, key: str, ticket: str) -> Confirmed | NotDone:
        """Say what became of a ticket."""
        receipt = receipts(self.path).get(ticket)
        return NotDone() if receipt is None else Confirmed(receipt)

    def _die(self, moment: str) -> None:
        if (moment, self._acts) == (self._moment, self._number):
            os.kill(os.getpid(), 9)


def lines(path: Path) -> Iterator[tuple[str, str]]:
    """Yield ticket and process number of every act, in order."""
    for line in path.read_text().splitlines() if path.exists() else ():
        ticket, _, pid = line.rpartition(" ")
        yield ticket, pid


def acts(path: Path) -> Counter[str]:
    """Return how often each ticket was acted on."""
    return Counter(ticket for ticket, _ in lines(path))


def receipts(path: Path) -> dict[str, str]:
    """Return the receipt of each ticket."""
    return {ticket: f"{ticket} by {pid}" for ticket, pid in lines(path)}


class Memory:
    """A file in which is remembered, durably, what was done: what one would do without effects."""

    def __init__(self, path: Path) -> None:
        self._known = dict(line.split(" = ") for line in path.read_text().splitlines()) if path.exists() else {}
        self._file = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)

    def get(self, ticket: str) -> str | None:
        return self._known.get(ticket)

    def note(self, ticket: str, receipt: str) -> None:
        """Return when it is on disk."""
        os.write(self._file, f"{ticket} = {receipt}\n".encode())
        os.fsync(self._file)
        self._known[ticket] = receipt
