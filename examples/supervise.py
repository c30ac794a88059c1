"""A supervisor script: starts two harnesses, watches one, holds it on a condition, lets it go on, and stops it.

    orchestrator run examples/supervise.py        or        python examples/supervise.py

A supervisor decides by what is recorded. Killed and started again, it reads the same steps and comes to the same decisions.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator

import trio

from harnesses import BaseHarness
from orchestrator import Orchestrator

HOT, SPENT = 8, 14


class Boiler(BaseHarness[int, int, str]):
    """Gets a degree warmer every twentieth of a second, for ever."""

    async def execute(self) -> AsyncIterator[tuple[int, str]]:
        async for _ in self.every(0.05):
            before = self.state
            self.update_state(lambda degrees: degrees + 1)
            yield before, f"{self.state} degrees"


class Inspection(BaseHarness[int, int, str]):
    """Looks at four things, one a fifth of a second."""

    def is_complete(self) -> bool:
        return self.state == 4

    async def execute(self) -> AsyncIterator[tuple[int, str]]:
        while True:
            await self.sleep(0.2)
            self.update_state(lambda seen: seen + 1)
            yield self.state, "in order"


async def supervise(orchestrator: Orchestrator) -> None:
    """Hold the boiler when it is hot, until it has been inspected; stop it when it has done enough."""
    boiler = orchestrator.start(Boiler(0), name="boiler", restart="permanent")
    inspection = orchestrator.start(Inspection(0), name="inspection")
    async for step in boiler.steps():
        if step.step_number == HOT:
            await boiler.pause()
            say(f"boiler held at step {boiler.current_step}: {step.output}")
            say(f"inspection {(await inspection.wait()).kind}")
            await boiler.resume()
        if step.step_number == SPENT:
            await boiler.stop()
            break
    outcome = await boiler.wait()
    say(f"boiler {outcome.kind} after step {outcome.step}")


def say(text: str) -> None:
    print(text, file=sys.stderr)


async def main() -> None:
    """Run the script on a store in memory."""
    async with Orchestrator() as orchestrator:
        await supervise(orchestrator)


if __name__ == "__main__":
    trio.run(main)
