"""The work that is measured: steps of about 400 bytes over a state of ten fields, of which five change each step.

Words and numbers differ in every step, as agents and markets produce them: what is found in a cache is not measured.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from random import Random
from typing import Any

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
    tokens: int = 1000
    limit: int = 100_000
    is_open: bool = False
    label: str = "a harness at work"


_PROSE = (
    "market price higher lower because signal moves order filled waits until volume falls again test passes feature build "
    "failed with error line in module expected value token count session access key point"
)
WORDS = _PROSE.split()


class Stepping(BaseHarness[Position, dict[str, Any], dict[str, Any]]):
    """Makes `steps` steps of about 100 characters in and 150 out, no two alike: words, and an id of random hex."""

    def __init__(self, steps: int) -> None:
        super().__init__(Position())
        self.steps = steps
        self.random = Random(steps)

    async def execute(self) -> AsyncIterator[tuple[dict[str, Any], dict[str, Any]]]:
        while (count := self.state.count + 1) <= self.steps:
            self.advance(count)
            yield self.pair(count)

    def advance(self, count: int) -> None:
        """Change five of the ten fields."""
        price, cash = f"{self.random.random():.5f}", f"{self.random.random() * 1e5:.2f}"
        self.update_state(
            lambda state: evolve(state, count=count, price=price, cash=cash, note=price, tokens=state.tokens + count)
        )

    def pair(self, count: int) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return what goes in and out."""
        draw = self.random
        given = {"prompt": " ".join(draw.choices(WORDS, k=14)), "tokens": count * 17}
        return given, {
            "text": " ".join(draw.choices(WORDS, k=14)),
            "price": draw.random(),
            "id": f"{draw.getrandbits(128):032x}",
        }


class Acting(Stepping):
    """Does an effect in every step: an act that takes no time, so that what is measured is what recording it costs."""

    async def execute(self) -> AsyncIterator[tuple[dict[str, Any], dict[str, Any]]]:
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
