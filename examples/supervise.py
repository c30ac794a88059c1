"""A supervisor script: start two harnesses, watch one, pause it on a condition, resume it, and stop it.

    orchestrator run examples/supervise.py        or        python examples/supervise.py

It decides by what is recorded: killed and started again, it reads the same steps and makes the same decisions.
"""

import sys
from collections.abc import AsyncIterator

import trio

from harnesses import BaseHarness
from orchestrator import Orchestrator

HOT, DONE = 8, 14


class Boiler(BaseHarness[int, int, str]):
    async def execute(self) -> AsyncIterator[tuple[int, str]]:
        async for _ in self.every(0.05):  # seconds; no drift, and resumed where it was
            self.update_state(lambda degrees: degrees + 1)
            yield self.state - 1, f"{self.state} degrees"


class Inspection(BaseHarness[int, int, str]):
    def is_complete(self) -> bool:
        return self.state == 4

    async def execute(self) -> AsyncIterator[tuple[int, str]]:
        while True:
            await self.sleep(0.2)
            self.update_state(lambda checked: checked + 1)
            yield self.state, "in order"


async def supervise(orchestrator: Orchestrator) -> None:
    """Pause the boiler when it is hot until it has been inspected; stop it when it has done enough."""
    boiler = orchestrator.start(Boiler(0), name="boiler", restart="permanent")
    inspection = orchestrator.start(Inspection(0), name="inspection")
    async for step in boiler.steps():
        if step.step_number == HOT:
            await boiler.pause()
            print(f"boiler paused at step {boiler.current_step}: {step.output}", file=sys.stderr)
            print(f"inspection {(await inspection.wait()).kind}", file=sys.stderr)
            await boiler.resume()
        if step.step_number == DONE:
            outcome = await boiler.stop()
            print(f"boiler {outcome.kind} after step {outcome.step}", file=sys.stderr)


async def main() -> None:
    async with Orchestrator() as orchestrator:
        await supervise(orchestrator)


if __name__ == "__main__":
    trio.run(main)
