"""Spending within a budget: reserve, spend, settle.

async with self.spending(tokens=2000) as spend:
    answer = await ask_a_model(max_tokens=2000)
    spend.settle(tokens=answer.tokens_used)
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Generator, Sequence
from contextvars import ContextVar
from decimal import Decimal
from functools import reduce
from types import TracebackType
from typing import Any, Protocol

from trio.lowlevel import cancel_shielded_checkpoint, checkpoint_if_cancelled

from harnesses.budgets.budget import FIELDS, NOTHING, UNLIMITED, Budget, Spend
from harnesses.budgets.pools import Account, Pools, Reserved
from harnesses.budgets.usage import AGENTS, Charged, Usage, charge_usage
from harnesses.errors import BudgetExhausted, HarnessMisuse
from harnesses.timing.stopwatch import Stopwatch

_settled: ContextVar[frozenset[str]] = ContextVar("harnesses.budgets.spending.settled", default=frozenset())


class BudgetAccount(Protocol):
    """Where the spends of one attempt of a harness are kept: in every pool of its chain."""

    async def reserve(self, amounts: Spend, *, between_steps: bool = False) -> int:
        """Return the number of a reservation when it is on disk. May wait for what other harnesses give back.

        Args:
            between_steps: whether the wait is the loop's own, which no cancellation may end. An order to stop does, and then
                the number is 0: nothing is reserved.

        Raises:
            BudgetExhausted: a pool has no room for it.
            Stopping: the harness is to stop.
        """
        ...

    async def settle(self, id: int, actual: Spend) -> None:
        """Charge what was spent, and return when that is on disk. No cancellation ends the wait.

        Raises:
            HarnessMisuse: more was spent than reserved; it was charged in full.
        """
        ...

    def settle_soon(self, id: int, actual: Spend) -> None:
        """Charge what was spent, without waiting: together with whatever is recorded next."""
        ...

    def accounts(self) -> Sequence[Account]:
        """Return where the pools of the chain stand, as of the last commit."""
        ...


def left(till: BudgetAccount) -> Budget:
    """Return what may still be reserved: of each field, the least that a pool of the chain has left."""
    return reduce(Budget.min, (account.left for account in till.accounts()), UNLIMITED)


def unspent(till: BudgetAccount) -> Budget:
    """Return what is not spent yet, though it may be reserved."""
    return reduce(Budget.min, (account.budget.left(account.spent) for account in till.accounts()), UNLIMITED)


def limits(till: BudgetAccount) -> Budget:
    """Return the tightest limit on each field."""
    return reduce(Budget.min, (account.budget for account in till.accounts()), UNLIMITED)


def settled_here() -> frozenset[str]:
    """Return the fields of a budget that are reserved around this, by `spending`: what an agent reports of them is not charged
    a second time."""
    return _settled.get()


class _Done:
    """Awaited, it returns at once."""

    def __await__(self) -> Generator[Any, Any, None]:
        yield from ()


class LocalBudgetAccount:
    """The budget account of a harness that runs alone. All that is reserved in its pools is its own, so it never waits.

    It is the `Charger` of its agents, too.
    """

    def __init__(self, name: str, budget: Budget) -> None:
        self._name = name
        self._pools = Pools()
        self._pools.fund(name, budget)

    async def reserve(self, amounts: Spend, *, between_steps: bool = False) -> int:
        await cancel_shielded_checkpoint()
        result = self._pools.reserve((self._name,), self._name, amounts)
        if isinstance(result, Reserved):
            return result.id
        raise BudgetExhausted(str(result))

    async def settle(self, id: int, actual: Spend) -> None:
        await cancel_shielded_checkpoint()
        self._pools.settle(id, actual)

    def settle_soon(self, id: int, actual: Spend) -> None:
        self._pools.settle(id, actual)

    def accounts(self) -> Sequence[Account]:
        return (self._pools.account(self._name),)

    def charge_soon(
        self,
        usage: Usage,
        then: Callable[[Charged], None],
        *,
        agent: str,
        turns: int = 0,
        thread: str = "",
        settled: Collection[str] = (),
    ) -> Awaitable[object]:
        """Charge what an agent reports; see `harnesses.agent_bill.Charger`."""
        pools, teller = self._pools, f"{AGENTS}/{self._name}"
        books = (pools.account, pools.keep)
        then(charge_usage(*books, (self._name,), teller, usage, turns=turns, thread=thread, settled=settled))
        return _Done()

    def watch(self, stop: Callable[[str], None]) -> Callable[[], None]:
        """Return: nobody else spends from its pools."""
        return lambda: None

    def fund(self, budget: Budget) -> None:
        """Set other limits. What was spent stays spent."""
        self._pools.fund(self._name, budget)

    def end_attempt(self) -> None:
        """Charge in full what is left open: what became of it nobody knows."""
        self._pools.forfeit(self._name)


class Spending:
    """A spend under way. An async context manager: it is reserved on entering, and charged on leaving.

    Args:
        till: None where there is no budget: then nothing is kept.
        most: what it is reserved for; more cannot be spent.
        watch: is told how long it was waited for.
    """

    __slots__ = ("_actual", "_before", "_id", "_till", "_watch", "most")

    def __init__(self, till: BudgetAccount | None, most: Spend, watch: Stopwatch | None = None) -> None:
        self.most = most
        self._watch = watch or Stopwatch()
        self._till = till if most else None
        self._id = 0
        self._before: frozenset[str] = frozenset()
        self._actual: Spend | None = None

    def settle(
        self, *, turns: int = 0, tool_calls: int = 0, tokens: int = 0, money: Decimal = NOTHING.money, steps: int = 0
    ) -> None:
        """Say what was really spent; what was reserved beyond it comes back on leaving.

        Without it, all that was reserved is charged.

        Raises:
            HarnessMisuse: that is more than was reserved: all of it is charged, but more was spent.
        """
        if self._actual is not None:
            raise HarnessMisuse(f"spending: settled already with {self._actual.plain()}: expected one call")
        actual = Spend(turns=turns, tool_calls=tool_calls, tokens=tokens, money=money, steps=steps)
        self._actual = actual
        if (name := actual.exceeds(self.most)) is not None:
            raise HarnessMisuse(
                f"spending: more {name} spent than reserved: expected at most {getattr(self.most, name)}, "
                f"was {getattr(actual, name)}; reserve the most that can be spent"
            )

    async def __aenter__(self) -> Spending:
        await checkpoint_if_cancelled()
        if self._till is None:
            await cancel_shielded_checkpoint()
            return self
        since = self._watch.begin()
        try:
            self._id = await self._till.reserve(self.most)
        finally:
            self._watch.end("waiting", since)
        try:
            await checkpoint_if_cancelled()
        except BaseException:
            self._till.settle_soon(self._id, NOTHING)
            raise
        self._before = _settled.get()
        _settled.set(self._before | {name for name in FIELDS if getattr(self.most, name)})
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._till is None:
            await cancel_shielded_checkpoint()
            return
        _settled.set(self._before)
        try:
            await self._till.settle(self._id, self.most if self._actual is None else self._actual)
        except HarnessMisuse:
            # Of an overspend `settle` has told already.
            if error is None:
                raise
