"""Eight harnesses of eight kinds. The state of each after step n is a function of n, so that anyone can compute it."""

from __future__ import annotations

import os
import sys
from abc import abstractmethod
from collections.abc import AsyncIterator, Callable, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, ClassVar, TypeAlias

from attrs import evolve, frozen

from harnesses import BaseHarness
from harnesses.step import StateT
from orchestrator.codec import encode

Acknowledge: TypeAlias = Callable[[int], None]

WRONG_STATE = 70
"""Exit code of a program that was not given back the state it had."""


class Known(BaseHarness[StateT, int, str]):
    """Makes steps up to a last one, and tells of each as soon as `execute()` is resumed after it."""

    def __init__(self, last: int, acknowledge: Acknowledge, pace_s: float = 0.0) -> None:
        super().__init__(self.after(0))
        self.last = last
        self.acknowledge = acknowledge
        self.pace_s = pace_s

    @staticmethod
    @abstractmethod
    def after(step: int) -> Any:
        """Return the state after a step, from nothing but its number."""

    @abstractmethod
    def change(self, state: StateT, step: int) -> StateT:
        """Return the state after a step, from the one before it."""

    @staticmethod
    def say(step: int) -> str:
        """Return the output of a step."""
        return f"step {step}"

    async def prepare(self, step: int) -> None:
        """Do what comes before a step."""

    def is_complete(self) -> bool:
        return self.current_step == self.last

    async def execute(self) -> AsyncIterator[tuple[int, str]]:
        self.check()
        while True:
            step = self.current_step + 1
            if self.pace_s:
                await self.sleep(self.pace_s)
            await self.prepare(step)
            self.update_state(lambda state: self.change(state, step))  # noqa: B023  (called at once)
            yield step, self.say(step)
            self.acknowledge(step)

    def check(self) -> None:
        """End the program, at once and past every restart, if the state is not what it was."""
        found, wanted = encode(self.state), encode(self.after(self.current_step))
        if found != wanted:
            print(f"{type(self).__name__} after step {self.current_step}: expected {wanted}, was {found}", file=sys.stderr)
            sys.stderr.flush()
            os._exit(WRONG_STATE)


@frozen
class Account:
    trades: int
    cash: Decimal
    last: datetime
    note: str | None = None


class Fields(Known[Account]):
    """A few fields, each set anew."""

    @staticmethod
    def after(step: int) -> Account:
        cash = Decimal("0.10") * step * (step + 1) / 2
        return Account(
            step, cash, datetime(2024, 1, 1, tzinfo=UTC) + timedelta(minutes=step), "even" if step % 2 == 0 else None
        )

    def change(self, state: Account, step: int) -> Account:
        note = "even" if state.note is None else None
        return evolve(
            state,
            trades=state.trades + 1,
            cash=state.cash + Decimal("0.10") * step,
            last=state.last + timedelta(minutes=1),
            note=note,
        )


class Tree(Known[dict[str, Any]]):
    """Dicts within dicts. One branch grows, one keeps its latest leaves only, one changes deep inside."""

    @staticmethod
    def after(step: int) -> dict[str, Any]:
        return {
            "grown": {str(n): {"square": n * n} for n in range(3, step + 1, 3)},
            "latest": {str(n): [n] for n in range(max(1, step - 9), step + 1)},
            "deep": {"er": {"still": {"step": step, "same": "as ever"}}},
        }

    def change(self, state: dict[str, Any], step: int) -> dict[str, Any]:
        if step % 3 == 0:
            state["grown"][str(step)] = {"square": step * step}
        state["latest"][str(step)] = [step]
        state["latest"].pop(str(step - 10), None)
        state["deep"]["er"]["still"]["step"] += 1
        return state


@frozen
class Entry:
    number: int
    text: str


@frozen
class Diary:
    entries: list[Entry]
    pages: int = 0


class Growing(Known[Diary]):
    """A list that grows with every step."""

    @staticmethod
    def after(step: int) -> Diary:
        return Diary([Entry(n, f"on day {n}") for n in range(1, step + 1)], step // 30)

    def change(self, state: Diary, step: int) -> Diary:
        return Diary([*state.entries, Entry(step, f"on day {step}")], step // 30)


class Window(Known[dict[str, Any]]):
    """The latest sixteen readings."""

    @staticmethod
    def after(step: int) -> dict[str, Any]:
        return {"readings": [n / 8 for n in range(max(1, step - 15), step + 1)], "best": max(0, step) / 8}

    def change(self, state: dict[str, Any], step: int) -> dict[str, Any]:
        readings = [*state["readings"], step / 8][-16:]
        return {"readings": readings, "best": max(readings)}


class Sending(Known[int]):
    """Sends the number of each step to `hearing`; again, if it is killed between the two."""

    @staticmethod
    def after(step: int) -> int:
        return step

    def change(self, state: int, step: int) -> int:
        return state + 1

    async def prepare(self, step: int) -> None:
        await self.send("hearing", {"number": step})


@frozen
class Heard:
    last: int = 0
    total: int = 0


class Hearing(Known[Heard]):
    """Makes a step for each number it is sent, the first time it comes."""

    @staticmethod
    def after(step: int) -> Heard:
        return Heard(step, step * (step + 1) // 2)

    def change(self, state: Heard, step: int) -> Heard:
        return Heard(step, state.total + step)

    async def prepare(self, step: int) -> None:
        while (number := (await self.receive())["number"]) < step:
            pass
        if number != step:
            print(f"hearing: expected message {step}, was {number}", file=sys.stderr, flush=True)
            os._exit(WRONG_STATE)


class Heavy(Known[dict[str, Any]]):
    """A state of 8,000 characters, all new every fourth step, and outputs of 20,000."""

    @staticmethod
    def after(step: int) -> dict[str, Any]:
        return {"text": chr(ord("a") + step // 4 % 26) * 8_000, "step": step}

    def change(self, state: dict[str, Any], step: int) -> dict[str, Any]:
        return {"text": self.after(step)["text"] if step % 4 == 0 else state["text"], "step": step}

    @staticmethod
    def say(step: int) -> str:
        return f"{step} ü " * 2_500


class Crashing(Known[list[int]]):
    """Crashes after every seventh step, once in each life of the program, with a change that must not be kept."""

    survived: ClassVar[set[int]] = set()

    @staticmethod
    def after(step: int) -> list[int]:
        return [n * n for n in range(1, step + 1)]

    def change(self, state: list[int], step: int) -> list[int]:
        return [*state, step * step]

    async def prepare(self, step: int) -> None:
        if step % 7 == 0 and step not in self.survived:
            self.survived.add(step)
            self.update_state(lambda state: [*state, -1])
            raise ConnectionError(f"on purpose, before step {step}")


KINDS: Mapping[str, type[Known[Any]]] = {
    "hearing": Hearing,
    "sending": Sending,
    "fields": Fields,
    "tree": Tree,
    "growing": Growing,
    "window": Window,
    "heavy": Heavy,
    "crashing": Crashing,
}
"""In the order they are started: who is sent to is known before who sends."""
