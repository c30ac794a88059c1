"""Harnesses for the tests of the command: each does one thing that a run must bear."""

from __future__ import annotations

import ctypes
import signal
import sys
import time
from collections.abc import AsyncIterator
from datetime import date
from decimal import Decimal
from enum import StrEnum
from pathlib import Path
from typing import Generic, TypeVar

import trio
from attrs import field, frozen

from harnesses import BaseHarness, Request, query

HOSTILE = "[bold red]x[/] \x1b[31mred\x1b]0;owned\x07\r\x9b2J \u202egnp.exe\u2028=1+1"
MoodT = TypeVar("MoodT")


def large_orders(key: str, arguments: tuple[Decimal, ...]) -> str | None:
    """Have a person approve what costs more than a hundred."""
    return "order" if arguments[0] > 100 else None


class Ticking(BaseHarness[int, int, str]):
    """Steps every 20 ms, for ever."""

    async def execute(self) -> AsyncIterator[tuple[int, str]]:
        async for _ in self.every(0.02):
            self.update_state(lambda count: count + 1)
            yield self.state, f"tick {self.state}"


class Answering(BaseHarness[int, int, str]):
    """Makes a step, and doubles what it is asked; never replies to 0, and ends after 99."""

    async def execute(self) -> AsyncIterator[tuple[int, str]]:
        yield 0, "ready"
        while self.state != 99:
            request = await self.receive(Request)
            if request.message:
                await self.reply(request, request.message * 2)
            self.update_state(lambda _, last=int(request.message): last)  # type: ignore[misc]
            yield request.message, request.sender

    @query
    def times(self, factor: int, plus: int = 0) -> dict[str, int]:
        return {"value": self.state * factor + plus}


class Three(BaseHarness[int, int, str]):
    """Makes three steps."""

    def is_complete(self) -> bool:
        return self.state == 3

    async def execute(self) -> AsyncIterator[tuple[int, str]]:
        while True:
            self.update_state(lambda count: count + 1, summary=f"step {self.state + 1} made")
            yield self.state, "one of three"


class Hostile(BaseHarness[int, str, str]):
    """Writes what a terminal, rich and a spreadsheet would act upon."""

    async def execute(self) -> AsyncIterator[tuple[str, str]]:
        self.update_state(lambda count: count + 1, summary=f"=HYPERLINK({HOSTILE})")
        yield HOSTILE, HOSTILE
        await self.sleep(1.0)
        raise ValueError(HOSTILE)


class Failing(BaseHarness[int, int, str]):
    """Crashes after its first step, each time."""

    async def execute(self) -> AsyncIterator[tuple[int, str]]:
        yield 1, "one"
        raise ValueError("it is broken")


class Blocking(BaseHarness[int, int, str]):
    """Blocks the loop."""

    async def execute(self) -> AsyncIterator[tuple[int, str]]:
        yield 1, "about to block"
        time.sleep(1000)  # noqa: ASYNC251
        yield 2, "never"


class Deadlocked(BaseHarness[int, int, str]):
    """Blocks the loop in a call that signals do not interrupt: no handler of theirs ever runs."""

    async def execute(self) -> AsyncIterator[tuple[int, str]]:
        yield 1, "about to block"
        library, mutex = ctypes.CDLL(None), ctypes.create_string_buffer(256)
        library.pthread_mutex_lock(mutex)
        library.pthread_mutex_lock(mutex)
        yield 2, "never"


class Holding(BaseHarness[int, int, str]):
    """Calls C that never lets go of the interpreter: no thread runs."""

    async def execute(self) -> AsyncIterator[tuple[int, str]]:
        yield 1, "about to hold"
        library, mutex = ctypes.PyDLL(None), ctypes.create_string_buffer(256)
        library.pthread_mutex_lock(mutex)
        library.pthread_mutex_lock(mutex)
        yield 2, "never"


class Deaf(BaseHarness[int, int, str]):
    """Has the kernel ignore SIGTERM and SIGINT, then blocks both in its thread, and goes on."""

    async def execute(self) -> AsyncIterator[tuple[int, str]]:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
        yield 1, "about to go on"
        await self.sleep(1000)


class Swallowing(BaseHarness[int, int, str]):
    """Does not let itself be cancelled."""

    async def execute(self) -> AsyncIterator[tuple[int, str]]:
        yield 1, "about to swallow"
        while True:
            with trio.CancelScope(shield=True):
                await trio.sleep(1000)


class Talking(BaseHarness[int, int, str]):
    """Prints, to both streams."""

    async def execute(self) -> AsyncIterator[tuple[int, str]]:
        async for _ in self.every(0.02):
            print("talk", file=sys.stderr, flush=True)
            yield 1, "talked"


class Mood(StrEnum):
    CALM = "calm"
    WILD = "wild"


@frozen
class Limit:
    most: Decimal = Decimal(1)


@frozen
class Account:
    """A state of types that TOML does not have."""

    cash: Decimal
    opened: date | None = None
    mood: Mood = Mood.CALM
    limits: tuple[Limit, ...] = field(default=())


class Saving(BaseHarness[Account, int, str]):
    """Takes all that a table may give."""

    async def execute(self) -> AsyncIterator[tuple[int, str]]:
        yield 1, str(self.state.cash)


class Moody(BaseHarness[MoodT, int, str], Generic[MoodT]):
    """Leaves its state open."""

    async def execute(self) -> AsyncIterator[tuple[int, str]]:
        yield 1, str(self.state)


class Calm(Moody[Mood]):
    """Says what `Moody` left open."""


class Quoted(BaseHarness["Later", int, str]):
    """Names its state before it is there."""

    async def execute(self) -> AsyncIterator[tuple[int, str]]:
        yield 1, str(self.state)


@frozen
class Later:
    count: int = 0


class Needy(BaseHarness[int, int, str]):
    """Cannot be made from a table."""

    def __init__(self, feed: list[int]) -> None:
        super().__init__(0)
        self.feed = feed

    async def execute(self) -> AsyncIterator[tuple[int, str]]:
        for number in self.feed:
            yield number, "fed"


def make_needy() -> Needy:
    """Return what a table cannot make."""
    return Needy([1, 2])


def make_placed(cash: str, tags: list[str], beside: Path) -> Saving:
    return Saving(Account(Decimal(cash)), constraints={"beside": beside, "tags": tags})


def make_saving(initial_state: Account, max_context_steps: int = 3) -> Saving:
    """Return a harness; the state has the type that is declared here."""
    return Saving(initial_state, max_context_steps=max_context_steps)


def make_nothing() -> int:
    """Return no harness."""
    return 7


def make_badly() -> Needy:
    """Fail."""
    raise RuntimeError("no feed today")


async def make_later() -> Needy:
    """Return a coroutine, which is no harness."""
    return make_needy()


not_callable = 7
