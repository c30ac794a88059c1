"""The work that is measured: steps over a state of ten fields, of which five change each step.

Words, numbers and names differ in every step of every harness, as agents and markets produce them: what is found in a cache is
not measured. They are made before the clock starts (`scripts`), so that making them is not measured either.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from functools import cache
from random import Random
from typing import Any, NamedTuple

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


class Turn(NamedTuple):
    """What one step takes in, puts out and writes into the state."""

    prompt: str
    text: str
    price: float
    id: str
    cash: str
    note: str


_PROSE = (
    "the a of to in market price higher lower because signal moves order filled waits until volume falls again test passes "
    "feature build failed with error line module expected value token count session access key point agent returns state "
    "position risk limit hedge spread account symbol window average return drawdown candle close open high low fee leverage"
)
WORDS = _PROSE.split()
_NAMES = ("EURUSD", "BTC/USDT", "ES=F", "risk_limit", "max_tokens", "test_orders", "src/app.py", "FAIL", "KeyError", "v2.1")
_LENGTHS = (12, 40, 60, 90, 90, 120, 150, 200, 300, 2000)
"""Characters of a text, each as often as the others; half as many at the least."""
TEXTS = ("words", "hex")


@cache
def _book(text: str) -> str:
    """Return a million characters, of which each step gets a piece: words with prices, names and ids between, or only hex."""
    random = Random(text)
    if text == "hex":
        return random.randbytes(500_000).hex()
    return " ".join(_pieces(random, 180_000))


def _pieces(random: Random, count: int) -> Iterator[str]:
    for _ in range(count):
        kind = random.random()
        if kind < 0.9:
            yield random.choice(WORDS)
        elif kind < 0.95:
            yield f"{random.random() * 10 ** random.randrange(6):.{random.randrange(6)}f}"
        elif kind < 0.98:
            yield random.choice(_NAMES)
        else:
            yield f"{random.getrandbits(64):x}"


def turn(number: int, count: int, text: str = "words") -> Turn:
    """Make what step `count` of harness `number` works on."""
    random, book = Random(number * 1_000_003 + count), _book(text)

    def passage() -> str:
        longest = random.choice(_LENGTHS)
        start = random.randrange(len(book) - longest)
        piece = book[start : start + random.randint(longest // 2, longest)]
        return piece.partition(" ")[2].rpartition(" ")[0] or piece

    price, cash = random.random(), f"{random.random() * 1e5:.2f}"
    return Turn(passage(), passage(), price, f"{random.getrandbits(128):032x}", cash, f"{price:.5f} {passage()[:30]}")


Script = list[Turn]


def scripts(harnesses: int, steps: int, text: str = "words") -> list[Script]:
    """Make what each of the harnesses works on in each of its steps."""
    return [[turn(number, count, text) for count in range(1, steps + 1)] for number in range(harnesses)]


class Stepping(BaseHarness[Position, dict[str, Any], dict[str, Any]]):
    """Makes `steps` steps, no two alike.

    Args:
        script: what it works on, made beforehand; without it each turn is made when its step is.
    """

    def __init__(self, steps: int, number: int = 0, script: Script | None = None) -> None:
        super().__init__(Position())
        self.steps = steps
        self.number = number
        self.script = script

    async def execute(self) -> AsyncIterator[tuple[dict[str, Any], dict[str, Any]]]:
        while (count := self.state.count + 1) <= self.steps:
            yield self.make(count)

    def make(self, count: int) -> tuple[dict[str, Any], dict[str, Any]]:
        """Change five of the ten fields; return what goes in and out."""
        prompt, text, price, id, cash, note = self.script[count - 1] if self.script else turn(self.number, count)
        bid = note[:7]
        self.update_state(
            lambda state: evolve(state, count=count, price=bid, cash=cash, note=note, tokens=state.tokens + count)
        )
        return {"prompt": prompt, "tokens": count * 17}, {"text": text, "price": price, "id": id}


class Acting(Stepping):
    """Does an effect in every step: an act that takes no time, so that what is measured is what recording it costs."""

    async def execute(self) -> AsyncIterator[tuple[dict[str, Any], dict[str, Any]]]:
        while (count := self.state.count + 1) <= self.steps:
            await self.once("act", _act, count)
            yield self.make(count)


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
