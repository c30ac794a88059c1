"""Programs whose loop is held up, or which stand still themselves, for the tests of who is named: MODE STORE.

endless     a harness never gives the loop back
stopped     harnesses that compute a little at a time; it says "on" when they do, and ends after 3 s
"""

from __future__ import annotations

import sys
import time

import trio

from orchestrator import Orchestrator
from tests.orchestrator.scripted import Scripted, Steps


async def endless(harness: Scripted) -> Steps:
    """Never give the loop back."""
    yield 1, None
    while True:
        pass


async def little(harness: Scripted) -> Steps:
    """Block the loop again and again, each time for less than is told of."""
    until = time.monotonic() + 3
    while time.monotonic() < until:
        time.sleep(0.3)  # noqa: ASYNC251
        yield 1, None
        print("on", flush=True)


async def main(mode: str, store: str) -> None:
    """Run one harness."""
    async with Orchestrator(store) as orchestrator:
        orchestrator.start(Scripted(endless if mode == "endless" else little), name="eurusd")


if __name__ == "__main__":
    trio.run(main, sys.argv[1], sys.argv[2])
