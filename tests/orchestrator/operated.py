"""Harnesses for the tests of the operator's verbs: effects of every outcome, and mailboxes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import trio
from attrs import frozen

from harnesses import BaseHarness
from harnesses.errors import EffectFailed, Refused
from tests.orchestrator.commanded import HOSTILE


async def doubtful(text: str) -> int:
    """Break off in the middle."""
    raise ConnectionError(f"lost after {text}")


async def lasting(text: str) -> int:
    """Take for ever."""
    await trio.sleep_forever()
    return 1


async def fine(text: str) -> int:
    """Succeed."""
    return len(text)


async def unwanted(text: str) -> int:
    """Be told no."""
    raise Refused(f"no {text}")


class Unsure(BaseHarness[int, str, int]):
    """Does an effect that succeeds, one that is refused, then one whose outcome nobody knows."""

    async def execute(self) -> AsyncIterator[tuple[str, int]]:
        if self.current_step == 0:
            yield "fine", await self.once("fine", fine, "abc")
        with suppress(Refused):
            _: int = await self.once("unwanted", unwanted, "abc")
        yield "doubtful", await self.once("order/1", doubtful, HOSTILE)


class Keeping(BaseHarness[int, str, int]):
    """Keeps the errors of its effects: one has raised, the other is cut off."""

    async def execute(self) -> AsyncIterator[tuple[str, int]]:
        with suppress(EffectFailed):
            _: int = await self.once("raises", doubtful, "x", errors="keep")
        yield "kept", await self.once("cut off", lasting, "x", errors="keep")


class Lasting(BaseHarness[int, str, int]):
    """Is in the middle of an effect for ever."""

    async def execute(self) -> AsyncIterator[tuple[str, int]]:
        yield "lasting", await self.once("slow", lasting, "x")


class Acting(BaseHarness[int, str, int]):
    """Does an effect in each step."""

    async def execute(self) -> AsyncIterator[tuple[str, int]]:
        while True:
            yield "fine", await self.once("fine", fine, "abc")
            await self.sleep(0.02)


class Listening(BaseHarness[int, object, str]):
    """Makes a step of every message."""

    async def execute(self) -> AsyncIterator[tuple[object, str]]:
        while True:
            yield await self.receive(), "heard"


class Bounded(BaseHarness[int, object, str]):
    """Makes a step of every message once there is a file `open`; few may wait meanwhile."""

    mailbox_limit = 3

    async def execute(self) -> AsyncIterator[tuple[object, str]]:
        Path("waiting").touch()  # noqa: ASYNC240
        while not Path("open").exists():  # noqa: ASYNC240
            await self.sleep(0.01)
        while True:
            yield await self.receive(), "heard"


@frozen
class Order:
    shares: int
    symbol: str = "AAPL"


@frozen
class Cancel:
    id: int


class Choosy(BaseHarness[int, object, str]):
    """Takes messages of two types."""

    accepts = (Order, Cancel)

    async def execute(self) -> AsyncIterator[tuple[object, str]]:
        yield None, "ready"
        while True:
            yield await self.receive(), "heard"


class Ended(BaseHarness[int, int, str]):
    """Is completed after a step."""

    def is_complete(self) -> bool:
        return True

    async def execute(self) -> AsyncIterator[tuple[int, str]]:
        yield 1, "done"
