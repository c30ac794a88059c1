"""A world that harnesses act on, surroundings that keep what is written down, and a harness made of one function."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from typing import Any

from harnesses import BaseHarness, LocalRuntime
from harnesses.effects.effect import Confirmed, Effect, NotDone, Undecided
from harnesses.errors import Latched


class World:
    """What was done to it, in order, and what is known of that."""

    def __init__(self) -> None:
        self.done: list[Any] = []
        self.asked: list[tuple[Any, ...]] = []
        self.answer: Any = Undecided()
        """What whoever asks is told; an error is raised."""

    async def act(self, amount: int) -> int:
        """Do something that must not be done twice."""
        self.done.append(amount)
        return amount * 10

    async def ask(self, key: str, *args: Any) -> Any:
        """Say what became of it."""
        self.asked.append((key, *args))
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer


class Notes(LocalRuntime):
    """Surroundings that keep what is written down, as a store does, and have a latch."""

    def __init__(self, marks: tuple[tuple[str, str], ...] = ()) -> None:
        super().__init__("noted")
        self.marks = list(marks)
        self.latched = False
        self.effects.restore(marks)

    async def note(self, kind: str, body: str) -> None:
        self.marks.append((kind, body))
        await super().note(kind, body)

    def note_soon(self, kind: str, body: str) -> None:
        self.marks.append((kind, body))

    def check_latch(self) -> None:
        if self.latched:
            raise Latched("the latch is on")

    def said(self) -> list[Any]:
        """Return what was written down: of an intent its arguments, of an outcome its name."""
        bodies = [(kind, json.loads(body)) for kind, body in self.marks]
        return [body["arguments"] if kind == "intent" else body["outcome"] for kind, body in bodies]

    def next_life(self) -> Notes:
        """Return the surroundings of a program that is started after this one was killed."""
        return Notes(tuple(self.marks))


class Scripted(BaseHarness[Any, Any, Any]):
    """Runs `script(harness)`."""

    def __init__(self, script: Callable[[Scripted], AsyncIterator[Any]], state: Any = None) -> None:
        super().__init__(state)
        self.script = script

    def execute(self) -> AsyncIterator[Any]:
        return self.script(self)


INTENT = ("intent", '{"key":"buy","arguments":[7]}')
MARKS: dict[str, tuple[tuple[str, str], ...]] = {
    "nothing": (),
    "not_done": (INTENT, ("outcome", '{"key":"buy","outcome":"not_done"}')),
    "confirmed": (INTENT, ("outcome", '{"key":"buy","outcome":"confirmed","result":70}')),
    "refused": (INTENT, ("outcome", '{"key":"buy","outcome":"refused","reason":"no money"}')),
    "begun": (INTENT,),
    "unknown": (INTENT, ("outcome", '{"key":"buy","outcome":"unknown","reason":"OSError: cut"}')),
}
"""What may be on record of the effect `buy` of 7."""

ANSWERS: dict[str, Any] = {
    "nobody to ask": None,
    "confirmed": Confirmed(70),
    "not done": NotDone(),
    "undecided": Undecided("the venue is down"),
}


def only(effects: tuple[Effect, ...]) -> Effect:
    """Return the only effect there is."""
    (effect,) = effects
    return effect
