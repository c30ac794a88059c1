"""An agent decides within a step: it sees state, recent steps and constraints, and what it reports is charged to a budget.

    python examples/agent.py

This agent follows a rule. One that calls a model, or runs a program, is passed to `run_agent` in the same way.
"""

from collections.abc import AsyncIterator

import trio

from harnesses import Agent, AgentRun, BaseHarness, Budget, Usage
from orchestrator import Orchestrator


async def summarise(run: AgentRun[int, str]) -> str:
    await trio.lowlevel.checkpoint()
    words = run.input.split()[: int(str(run.constraints["max_words"]))]
    run.log(f"step {run.step_number}: {len(run.step_history)} earlier steps in view")
    run.charge(Usage(input_tokens=len(run.input), output_tokens=len(words)))  # on disk before run_agent returns
    return " ".join(words)


SUMMARISER = Agent(summarise, name="summariser", reports=["tokens"])


class Reading(BaseHarness[int, str, str]):
    async def execute(self) -> AsyncIterator[tuple[str, str]]:
        while True:
            text = f"Page {self.current_step + 1} says that a harness records every step before the next one begins."
            yield text, await self.run_agent(SUMMARISER, text)


async def main() -> None:
    async with Orchestrator() as orchestrator:
        reading = Reading(0, max_context_steps=2, constraints={"max_words": 4})
        handle = orchestrator.start(reading, name="reading", budget=Budget(tokens=300))
        async for step in handle.steps():
            print(step.step_number, step.output)
        print(await handle.wait())


if __name__ == "__main__":
    trio.run(main)
