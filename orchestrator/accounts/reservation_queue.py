"""Standing in line for what others have reserved in a pool and may give back.

There is a line for each field of each pool. Whoever is first in one is told when something comes back to that pool, asks the
store again, and the next is told when the first has been served: so a thousand who wait are not a thousand questions.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator

import trio
from attrs import define

from harnesses.budgets.budget import Later
from orchestrator.recording.condition import Condition

_LOOK_S = 0.5
"""Between two looks at what another program over the same store has given back; nobody tells us of that."""


@define(eq=False)
class Place:
    """A place in a line."""

    line: tuple[str, str]
    """Of which pool and field."""
    wake: Callable[[], None]
    is_due: bool = False
    """Whether it is time to ask again."""

    def call(self) -> None:
        """Say that it is time to ask again."""
        self.is_due = True
        self.wake()


class Lines:
    """The lines of one program."""

    def __init__(self) -> None:
        self._lines: dict[str, dict[tuple[str, str], deque[Place]]] = {}
        self._returns: dict[str, int] = {}
        self._bell = Condition()

    def returns(self, pools: Iterable[str]) -> dict[str, int]:
        """Return how often something has come back to these pools; take it before asking the store."""
        return {pool: self._returns.get(pool, 0) for pool in pools}

    def join(self, later: Later, wake: Callable[[], None], seen: dict[str, int], place: Place | None = None) -> Place:
        """Return a place in line: the one that the asker has, if it still waits for the same; else the last.

        Args:
            seen: what `returns` gave before the store was asked: what has come back since is not in its answer.
        """
        key = (later.pool, later.field)
        if place is not None and place.line != key:
            self.leave(place)
            place = None
        line = self._lines.setdefault(later.pool, {}).setdefault(key, deque())
        if place is None:
            place = Place(key, wake)
            line.append(place)
        place.is_due = line[0] is place and self._returns.get(later.pool, 0) != seen.get(later.pool, 0)
        self._bell.ring()
        return place

    def leave(self, place: Place) -> None:
        """Give up a place; who is first now is told."""
        lines = self._lines[place.line[0]]
        line = lines[place.line]
        was_first = line[0] is place
        line.remove(place)
        if not line:
            del lines[place.line]
            if not lines:
                del self._lines[place.line[0]]
        elif was_first:
            line[0].call()

    def ring(self, pools: Iterable[str]) -> None:
        """Say that something has come back to these pools."""
        for pool in pools:
            self._returns[pool] = self._returns.get(pool, 0) + 1
            for line in self._lines.get(pool, {}).values():
                line[0].call()

    def forget(self, pool: str) -> None:
        """Forget a pool that nobody here spends from any more."""
        self._returns.pop(pool, None)

    async def watch(self) -> None:
        """Have the first of each line ask every now and then, for what other programs give back. Runs beside all."""
        while True:
            await self._bell.until(lambda: self._lines)
            await trio.sleep(_LOOK_S)
            for place in list(self._first()):
                place.call()

    def _first(self) -> Iterator[Place]:
        for lines in self._lines.values():
            for line in lines.values():
                yield line[0]
