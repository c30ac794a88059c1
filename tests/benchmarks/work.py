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
            self.advance(count)
            yield self.pair(count)

    def advance(self, count: int) -> None:
        """Change four of the ten fields."""
        text = f"{count:010d}"
        self.update_state(lambda state: evolve(state, count=count, price=text, cash=text, note=text))

    def pair(self, count: int) -> tuple[str, str]:
        """Return 90 characters in and 90 out."""
        text = f"{count:010d}"
        return GIVEN + text, MADE + text


class Acting(Stepping):
    """Does an effect in every step: an act that takes no time, so that what is measured is what recording it costs."""

    async def execute(self) -> AsyncIterator[tuple[str, str]]:
        while (count := self.state.count + 1) <= self.steps:
            await self.once("act", _act, count)
            self.advance(count)
            yield self.pair(count)


async def _act(count: int) -> int:
    return count


@frozen
class Items:
    """A state that grows, or does not."""

    count: int = 0
    items: tuple[str, ...] = ()
    last: str = ""


class Appending(BaseHarness[Items, int, int]):
    """Appends one 100-byte item to a list in each step."""

    def __init__(self, steps: int) -> None:
        super().__init__(Items())
        self.steps = steps

    async def execute(self) -> AsyncIterator[tuple[int, int]]:
        while (count := self.state.count + 1) <= self.steps:
            self.update_state(lambda state: evolve(state, count=state.count + 1, items=(*state.items, _item(state))))
            yield count, count


class Replacing(Appending):
    """Replaces one 100-byte field in each step."""

    async def execute(self) -> AsyncIterator[tuple[int, int]]:
        while (count := self.state.count + 1) <= self.steps:
            self.update_state(lambda state: evolve(state, count=state.count + 1, last=_item(state)))
            yield count, count


def _item(state: Items) -> str:
    return f"{state.count:0100d}"
