"""A coding loop written out by hand: a finite queue, an end of its own, and a state that changes in `execute()`.

    python examples/feature_queue.py

`harnesses.features.FeatureHarness` is the whole of it, with policies, verdicts and hand-off; this is the pattern.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import trio
from attrs import evolve, frozen

from harnesses import Agent, AgentRun, BaseHarness
from orchestrator import Orchestrator

TESTS = {"double": "double(4) == 8", "square": "square(4) == 16", "negate": "negate(4) == -4"}


@frozen
class Work:
    queue: tuple[str, ...] = tuple(TESTS)
    done: tuple[str, ...] = ()
    tries: int = 0


async def write(run: AgentRun[Work, str]) -> str:
    """Hand in the source of a function; that of `square` is wrong until a try has failed."""
    await trio.lowlevel.checkpoint()
    wrong = run.input == "square" and not any(step.output == "square failed" for step in run.step_history)
    body = {"double": "n + n", "square": "n + n" if wrong else "n * n", "negate": "-n"}[run.input]
    return f"{run.input} = lambda n: {body}"


CODER = Agent(write, name="coder")


class FeatureQueue(BaseHarness[Work, str, str]):
    """Works one feature after the other; one whose test fails goes to the end of the queue."""

    def is_complete(self) -> bool:
        return not self.state.queue  # asked after each recorded step

    async def execute(self) -> AsyncIterator[tuple[str, str]]:
        while self.state.queue:
            feature, *rest = self.state.queue
            source = await self.run_agent(CODER, feature)
            scope: dict[str, object] = {}
            exec(source, scope)  # for the example alone: real code is judged in a process of its own
            passed = bool(eval(TESTS[feature], scope))
            queue = tuple(rest) if passed else (*rest, feature)
            done = (*self.state.done, feature) if passed else self.state.done
            self.update_state(lambda work, queue=queue, done=done: evolve(work, queue=queue, done=done, tries=work.tries + 1))
            yield feature, f"{feature} {'passed' if passed else 'failed'}"


async def main() -> None:
    """Work until the queue is empty."""
    async with Orchestrator() as orchestrator:
        handle = orchestrator.start(FeatureQueue(Work()), name="queue")
        async for step in handle.steps():
            print(step.step_number, step.output)
        print(await handle.wait())


if __name__ == "__main__":
    trio.run(main)
