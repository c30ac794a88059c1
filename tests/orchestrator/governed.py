"""Harnesses for the tests of guardrails in run files."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from decimal import Decimal

from attrs import frozen

from harnesses import BaseHarness
from harnesses.governance import Guardrails


class Idle(BaseHarness[int, str, str]):
    """Does the same for ever."""

    async def execute(self) -> AsyncIterator[tuple[str, str]]:
        while True:
            yield "the same", "as ever"
            await self.sleep(1)


@frozen
class Count:
    count: int = 0


class Counting(BaseHarness[Count, str, str]):
    """Does the same for ever, and counts."""

    async def execute(self) -> AsyncIterator[tuple[str, str]]:
        while True:
            self.update_state(lambda state: Count(state.count + 1))
            yield "the same", "as ever"


class Falling(BaseHarness[int, str, str]):
    """Loses a tenth of what it began with at each step."""

    def figures(self, state: int) -> Mapping[str, Decimal]:
        return {"equity": Decimal(state)}

    async def execute(self) -> AsyncIterator[tuple[str, str]]:
        while True:
            self.update_state(lambda equity: equity - 10)
            yield "hold", "lost"
            await self.sleep(1)


class Killed(Falling):
    """Is worth 200 at its first step, and waits; taken up again it is worth 150."""

    async def execute(self) -> AsyncIterator[tuple[str, str]]:
        self.update_state(lambda equity: 150 if self.current_step else 200)
        yield "hold", str(self.state)
        await self.receive()


class Tasks(Idle):
    """Holds the guardrails of its tasks itself."""

    def __init__(self, guardrails: Guardrails) -> None:
        super().__init__(0)
        self.guardrails = guardrails
