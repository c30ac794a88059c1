"""The work that is measured: steps of about 200 bytes over a state of ten fields, of which four change each step."""

from __future__ import annotations

from collections.abc import AsyncIterator

from attrs import evolve, frozen

from harnesses import BaseHarness


@frozen
class Position:
    """A state of ten fields."""

    count: int = 0
    price: str = "100.00"
    cash: str = "10000.00"
    note: str = "nothing yet"
    symbol: str = "EURUSD"
    venue: str = "paper"
    lot: int = 1000
    limit: int = 100_000
    is_open: bool = False
    label: str = "a harness at work"


GIVEN = "g" * 80
MADE = "m" * 80


class Stepping(BaseHarness[Position, str, str]):
    """Makes `steps` steps of 90 characters in and 90 out."""

    def __init__(self, steps: int) -> None:
        super().__init__(Position())
        self.steps = steps

    async def execute(self) -> AsyncIterator[tuple[str, str]]:
        while (count := self.state.count + 1) <= self.steps:
            text = f"{count:010d}"
            self.update_state(lambda state: evolve(state, count=count, price=text, cash=text, note=text))
            yield GIVEN + text, MADE + text
