"""Harnesses that start harnesses: at the top of a module, for another start of the program has to find them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from decimal import Decimal
from typing import Any

from attrs import evolve, frozen

from harnesses import BaseHarness, Budget
from harnesses.agent import Agent, AgentRun
from harnesses.budgets.usage import Usage


@frozen
class Book:
    symbol: str = ""
    limit: Decimal = Decimal(0)
    steps: int = 0


class Hedger(BaseHarness[Book, int, str]):
    """Makes a step each second, until there are so many."""

    def __init__(self, symbol: str, limit: Decimal = Decimal("1.5"), *, until: int | None = None) -> None:
        super().__init__(Book(symbol, limit))
        self.until = until

    def is_complete(self) -> bool:
        return self.until is not None and self.current_step >= self.until

    async def execute(self) -> AsyncIterator[tuple[int, str]]:
        while True:
            self.update_state(lambda book: evolve(book, steps=book.steps + 1))
            yield self.current_step + 1, self.state.symbol
            await self.sleep(1)


class Returning(Hedger):
    """Returns after two steps."""

    async def execute(self) -> AsyncIterator[tuple[int, str]]:
        while self.current_step < 2:
            yield self.current_step + 1, ""
            await self.sleep(1)


class Reopening(Hedger):
    """Has one step more to do whenever it is started again."""

    def reopens(self) -> bool:
        self.until = self.current_step + 1
        return True


class Buying(Hedger):
    """Needs what its parent's rule says before each step."""

    async def execute(self) -> AsyncIterator[tuple[int, str]]:
        while True:
            await self.once("buy", self.buy)
            yield self.current_step + 1, ""

    async def buy(self) -> None:
        return None


class Parent(BaseHarness[int, int, str]):
    """Starts a child with its first step, and makes a step each second, until there are so many.

    Args:
        child: what is passed on to `start_child`, by name; `factory` and `args` too.
    """

    def __init__(self, child: dict[str, Any], until: int | None = None) -> None:
        super().__init__(0)
        self.child = child
        self.until = until
        self.started: list[str] = []

    def is_complete(self) -> bool:
        return self.until is not None and self.current_step >= self.until

    async def execute(self) -> AsyncIterator[tuple[int, str]]:
        while True:
            child = {"factory": Hedger, "args": ("EURUSD",), "name": f"{self.name}.hedger", **self.child}
            args = child.pop("args")
            self.started.append(self.start_child(child.pop("factory"), *args, **child))
            self.update_state(lambda steps: steps + 1)
            yield self.current_step + 1, self.started[-1]
            await self.sleep(1)


class Unsaid(Hedger):
    """Does not say what it takes."""

    def __init__(self, value) -> None:  # type: ignore[no-untyped-def]
        super().__init__(str(value))


class Mid(Hedger):
    """A child that starts a child of its own, and is done after two steps."""

    async def execute(self) -> AsyncIterator[tuple[int, str]]:
        self.start_child(Hedger, self.state.symbol, name=f"{self.name}.leaf")
        yield 1, ""
        await self.sleep(1)
        yield 2, ""


class Recursive(BaseHarness[int, int, str]):
    """Starts itself, ever deeper."""

    def __init__(self, level: int) -> None:
        super().__init__(level)

    async def execute(self) -> AsyncIterator[tuple[int, str]]:
        self.start_child(Recursive, self.state + 1, name=f"level{self.state + 1}")
        yield self.state, ""
        await self.sleep(1000)


def make_spending(symbol: str, budget: Budget) -> Hedger:
    """Make a harness from an attrs class."""
    return Hedger(symbol, Decimal(budget.steps or 0))


def make_nothing() -> None:
    """Make no harness."""


class Quick(BaseHarness[int, int, str]):
    """Steps every 20 ms, for ever."""

    async def execute(self) -> AsyncIterator[tuple[int, str]]:
        async for _ in self.every(0.02):
            yield self.current_step + 1, ""


class Quicker(Quick):
    """Starts a child with its third step."""

    async def execute(self) -> AsyncIterator[tuple[int, str]]:
        async for _ in self.every(0.02):
            if self.current_step == 2:
                self.start_child(Quick, 0, name=f"{self.name}.child")
            yield self.current_step + 1, ""


class Inheriting(BaseHarness[Book, int, str]):
    """Takes its state as its base class does."""

    async def execute(self) -> AsyncIterator[tuple[int, str]]:
        yield 1, f"{type(self.state).__name__} {self.state.limit}"


def make_unsaid():  # type: ignore[no-untyped-def]
    """Make a harness, and do not say so."""
    return Hedger("X")


def make_wrong() -> Hedger:
    """Make no harness, and say that it does."""
    return None  # type: ignore[return-value]


async def _spend(run: AgentRun[int, str]) -> str:
    run.charge(Usage(tokens=500))
    return ""


class Asking(BaseHarness[int, int, str]):
    """Asks an agent that uses 500 tokens, and reports them if it is told to."""

    def __init__(self, reports: list[str]) -> None:
        super().__init__(0)
        self.agent: Agent[int, str, str] = Agent(_spend, name="asked", reports=reports)

    def asked_agents(self) -> tuple[Agent[int, str, str], ...]:
        return (self.agent,)

    async def execute(self) -> AsyncIterator[tuple[int, str]]:
        yield 1, await self.run_agent(self.agent, "")


class Settling(BaseHarness[int, int, str]):
    """Starts a child that asks an agent, while it has reserved tokens itself."""

    def __init__(self) -> None:
        super().__init__(0)

    async def execute(self) -> AsyncIterator[tuple[int, str]]:
        async with self.spending(tokens=10) as spend:
            self.start_child(Asking, ["tokens"], name=f"{self.name}.asking")
            yield 1, ""
            spend.settle(tokens=10)
        await self.sleep(1)
        yield 2, ""
