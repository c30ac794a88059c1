"""Waiting for a condition: whoever changes something rings, whoever waits looks again.

One bell serves all the conditions of one object, and costs nothing until somebody waits: there are ten thousand of them.
"""

from __future__ import annotations

from collections.abc import Callable

import trio


class Condition:
    """Rung at every change of what it belongs to."""

    __slots__ = ("_lot",)

    def __init__(self) -> None:
        self._lot: trio.lowlevel.ParkingLot | None = None

    def ring(self) -> None:
        """Have everyone who waits look at their condition again."""
        if self._lot is not None:
            self._lot.unpark_all()

    async def until(self, condition: Callable[[], object]) -> None:
        """Return when `condition()` is true. A checkpoint in any case."""
        if condition():
            await trio.lowlevel.checkpoint()
            return
        if self._lot is None:
            self._lot = trio.lowlevel.ParkingLot()
        while not condition():
            await self._lot.park()
