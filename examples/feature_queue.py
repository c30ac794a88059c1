"""Work a finite queue until `is_complete()` is true: the coding pattern, written out by hand.

    python examples/feature_queue.py

`harnesses.features.FeatureHarness` is the ready-made form, with policies, validators and a hand-off.
"""

from collections.abc import AsyncIterator

import trio
from attrs import frozen

from harnesses import Agent, AgentRun, BaseHarness
from orchestrator import Orchestrator

TESTS = {"double": "double(4) == 8", "square": "square(4) == 16", "negate": "negate(4) == -4"}


@frozen
class Work:
    queue: tuple[str, ...] = tuple(TESTS)
    done: tuple[str, ...] = ()


def move(work: Work, passed: bool) -> Work:
    """Move the first feature to `done` if its test passed, otherwise to the end of the queue."""
    first, rest = work.queue[0], work.queue[1:]
    return Work(rest, (*work.done, first)) if passed else Work((*rest, first), work.done)


async def write(run: AgentRun[Work, str]) -> str:  # the first version of `square` is wrong
    await trio.lowlevel.checkpoint()
    has_failed = "square failed" in [step.output for step in run.step_history]
    return {"double": "n + n", "square": "n * n" if has_failed else "n + n", "negate": "-n"}[run.input]


class FeatureQueue(BaseHarness[Work, str, str]):
    def is_complete(self) -> bool:  # asked after each recorded step
        return not self.state.queue

    async def execute(self) -> AsyncIterator[tuple[str, str]]:
        while True:
            feature = self.state.queue[0]
            source = await self.run_agent(Agent(write, name="coder"), feature)
            passed: bool = eval(TESTS[feature], {feature: eval(f"lambda n: {source}")})  # real code runs in a sandbox
            self.update_state(lambda work: move(work, passed))  # noqa: B023  (called at once)
            yield feature, f"{feature} {'passed' if passed else 'failed'}"


async def main() -> None:
    async with Orchestrator() as orchestrator:
        queue = orchestrator.start(FeatureQueue(Work()), name="queue")
        async for step in queue.steps():
            print(step.step_number, step.output)
        print(await queue.wait())


if __name__ == "__main__":
    trio.run(main)
