# The smallest harness: three steps. Everything it needs is in its state and its step number, so it can be resumed.
from collections.abc import AsyncIterator

import trio
from attrs import evolve, frozen

from harnesses import BaseHarness


@frozen
class Count:
    total: int = 0


class Counting(BaseHarness[Count, int, int]):
    async def execute(self) -> AsyncIterator[tuple[int, int]]:
        for number in range(self.current_step + 1, 4):
            self.update_state(lambda count: evolve(count, total=count.total + number))  # noqa: B023  (called at once)
            yield number, number * 2


if __name__ == "__main__":
    harness = Counting(Count())
    print(trio.run(harness.run), harness.state, *harness.step_history, sep="\n")
