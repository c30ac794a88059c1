"""The program that is latched: harnesses that do effects as fast as they can, each a line at the end of a file.

python -m tests.kill.latched STORE LINES --harnesses 4

A harness that a latch has blocked is started again at once, so that it tries again and again to begin an effect. When there
is a file `wedge` beside the store, one more harness blocks the loop, from `wedged` until there is a file `loosen`.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import AsyncIterator
from pathlib import Path

import trio

from harnesses import BaseHarness
from orchestrator import Orchestrator, OutcomeKind

LONGEST_S = 60.0


class Appending(BaseHarness[int, int, int]):
    """Appends a line in each step. What it appends is whole, whoever else writes to the file."""

    def __init__(self, lines: Path) -> None:
        super().__init__(0)
        self._lines = os.open(lines, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC)

    async def execute(self) -> AsyncIterator[tuple[int, int]]:
        while True:
            number = self.current_step + 1
            yield number, await self.once("append", self.append, number)

    async def append(self, number: int) -> int:
        """Do the effect: begun and done in one go."""
        return os.write(self._lines, f"{self.name} {number}\n".encode())


class Wedging(BaseHarness[int, int, str]):
    """Blocks the loop, once, when it is told to."""

    def __init__(self, folder: Path) -> None:
        super().__init__(0)
        self._folder = folder

    async def execute(self) -> AsyncIterator[tuple[int, str]]:
        while not (self._folder / "wedge").exists():
            await self.sleep(0.005)
        (self._folder / "wedged").touch()
        until = time.monotonic() + LONGEST_S
        while not (self._folder / "loosen").exists() and time.monotonic() < until:
            time.sleep(0.005)  # noqa: ASYNC251  (what it is for)
        (self._folder / "loose").touch()
        yield 1, "loose again"


async def run_all(options: argparse.Namespace) -> None:
    """Run until killed."""
    async with Orchestrator(options.store) as orchestrator, trio.open_nursery() as nursery:
        orchestrator.start(Wedging(options.store.parent), name="wedging")
        for number in range(options.harnesses):
            nursery.start_soon(keep_going, orchestrator, f"appending-{number}", options.lines)


async def keep_going(orchestrator: Orchestrator, name: str, lines: Path) -> None:
    """Start a harness again whenever a latch has blocked it."""
    harness, outcome = Appending(lines), None
    while outcome is None or outcome.kind is OutcomeKind.BLOCKED:
        outcome = await orchestrator.start(harness, name=name).wait()
        await trio.sleep(0.01)


def parse() -> argparse.Namespace:
    """Return the options."""
    parser = argparse.ArgumentParser()
    parser.add_argument("store", type=Path)
    parser.add_argument("lines", type=Path)
    parser.add_argument("--harnesses", type=int, default=4)
    return parser.parse_args()


if __name__ == "__main__":
    trio.run(run_all, parse())
