"""Write a golden store with the code of some commit: `python make.py OUT.db` from the root of a checkout of it.

Each file here was made so, by the last commit whose schema had that version, and packed with `gzip -9n`: see README.md. What
a layout does not have yet is left out: effects, lines of output and budgets are tried one by one.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import Any

import trio
from attrs import evolve, field, frozen

from harnesses import BaseHarness
from orchestrator import Orchestrator


@frozen
class Leg:
    price: int
    note: str = ""


@frozen
class Book:
    total: int = 0
    legs: list[Leg] = field(factory=list)


class Trading(BaseHarness[Book, int, dict]):
    """Makes six steps, each with what the layout has."""

    async def execute(self):
        for number in range(self.current_step + 1, 7):
            if hasattr(self, "once"):

                async def act(number: int = number) -> int:
                    return number

                await self.once(f"act-{number}", act)
            if hasattr(self, "log"):
                self.log(f"line {number}")
            self.update_state(
                lambda book, number=number: evolve(book, total=book.total + number, legs=[*book.legs, Leg(number)]),
                summary=f"step {number}",
            )
            if number == 4:
                with suppress(Exception):  # No attachments, or none of that kind.
                    said = [{"role": "user", "text": "which leg?"}, {"role": "assistant", "text": "the fourth"}]
                    self.attach("transcript", {"agent": "asked", "model": "local:small", "session": "s", "messages": said})
            if number == 3:
                with suppress(trio.TooSlowError):
                    await self.send("other", {"hello": number})
            yield number, {"number": number}


class Quiet(BaseHarness[int, int, int]):
    """Receives one message, and fails once."""

    async def execute(self):
        message = await self.receive()
        self.update_state(lambda count: count + 1)
        yield self.current_step, message["hello"]
        await trio.sleep(0.2)


async def main(path: str) -> None:
    options: dict[str, Any] = {}
    with suppress(ImportError):
        from harnesses import Budget

        options["budget"] = Budget(steps=1000)
    async with Orchestrator(path) as orchestrator:
        orchestrator.start(Quiet(0), name="other")
        orchestrator.start(Trading(Book()), name="one", **options)


trio.run(main, sys.argv[1])
