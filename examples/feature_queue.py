"""A coding loop written out by hand: a finite queue, an end of its own, and a state that changes in `execute()`.

`FeatureHarness` is the whole of it, with policies, verdicts and hand-off.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial

import trio
from attrs import evolve, frozen

from harnesses import Agent, AgentRun, BaseHarness
from orchestrator import Orchestrator

TESTS = {"double": "double(4) == 8", "square": "square(4) == 16", "negate": "negate(4) == -4"}


@frozen
class Work:
    queue: tuple[str, ...] = tuple(TESTS)
    done: tuple[str, ...] = ()


def move(work: Work, *, passed: bool) -> Work:
    """Take a feature from the front of the queue; put it to what is done, or to the end."""
    first, *rest = work.queue
    return evolve(work, queue=tuple(rest), done=(*work.done, first)) if passed else evolve(work, queue=(*rest, first))


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
            feature = self.state.queue[0]
            source = await self.run_agent(CODER, feature)
            scope: dict[str, object] = {}
            exec(source, scope)  # for the example alone: real code is judged in a process of its own
            passed = bool(eval(TESTS[feature], scope))
            self.update_state(partial(move, passed=passed))
            yield feature, f"{feature} {'passed' if passed else 'failed'}"


async def main() -> None:
    async with Orchestrator() as orchestrator:
        handle = orchestrator.start(FeatureQueue(Work()), name="queue")
        async for step in handle.steps():
            print(step.step_number, step.output)
        print(await handle.wait())


if __name__ == "__main__":
    trio.run(main)
