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
from typing import Any, Protocol, cast

import trio
from trio.lowlevel import cancel_shielded_checkpoint, checkpoint_if_cancelled

from harnesses.budgets.budget import FIELDS, NOTHING, UNLIMITED, Budget, Denied, Later, Spend
from harnesses.budgets.pools import Account, Pools, Reserved
from harnesses.budgets.usage import AGENTS, Charged, Usage, charge_usage
from harnesses.errors import BudgetExhausted, HarnessMisuse
from harnesses.timing.stopwatch import Stopwatch

_settled: ContextVar[frozenset[str]] = ContextVar("harnesses.budgets.spending.settled", default=frozenset())


class BudgetAccount(Protocol):
    """Budget account of one attempt: its spends are charged to every pool of its chain."""

    async def reserve(self, amounts: Spend, *, between_steps: bool = False, on_cutoff: Spend | None = None) -> int:
        """Reserve the amounts; return the reservation's id once it is on disk. May wait for others to release
        theirs: other harnesses, and blocks of the same harness that run at the same time.

        Args:
            on_cutoff: what is charged if it is never settled, because the program died; None for all of it.
            between_steps: whether the loop itself waits, which cancellation must not interrupt. An order to stop ends the
                wait; the id is then 0 and nothing is reserved.

        Raises:
            BudgetExhausted: a pool has too little left.
            Stopping: the harness is being stopped.
        """
        ...

    async def settle(self, id: int, actual: Spend) -> None:
        """Charge what was spent, and wait until that is on disk. The wait is shielded from cancellation."""
        ...

    def settle_soon(self, id: int, actual: Spend) -> None:
        """Charge what was spent without waiting, in the commit of the next record."""
        ...

    def accounts(self) -> Sequence[Account]:
        """Return the accounts of the chain, as of the last commit."""
        ...


def left(till: BudgetAccount) -> Budget:
    """Return what may still be reserved: for each field, the least left in any pool of the chain."""
    return reduce(Budget.min, (account.left for account in till.accounts()), UNLIMITED)


def unspent(till: BudgetAccount) -> Budget:
    """Return what is not spent yet, including reserved amounts."""
    return reduce(Budget.min, (account.budget.left(account.spent) for account in till.accounts()), UNLIMITED)


def limits(till: BudgetAccount) -> Budget:
    """Return the tightest limit of each field."""
    return reduce(Budget.min, (account.budget for account in till.accounts()), UNLIMITED)


def settled_here() -> frozenset[str]:
    """Return the budget fields reserved by the surrounding `spending` blocks: agent reports do not charge these again."""
    return _settled.get()


_OF_BLOCKS = ("turns", "tool_calls", "tokens", "money")
"""Fields that only `spending` blocks reserve."""


def after_siblings(denied: Denied) -> Later | None:
    """Return what to wait for if a spend is denied only since blocks beside it in the same harness hold what it needs.

    Called in the task of the spend. A block within another one is never told to wait: the outer one would wait for it.
    """
    limit, spent, asked = (cast(Decimal, amount) for amount in (denied.limit, denied.spent, denied.asked))
    if settled_here() or denied.field not in _OF_BLOCKS or spent + asked > limit:
        return None
    return Later(denied.field, denied.limit, denied.spent, denied.reserved, denied.asked, denied.pool)


class _Done:
    """An awaitable that returns at once."""

    def __await__(self) -> Generator[Any, Any, None]:
        yield from ()


class LocalBudgetAccount:
    """Budget account of a harness that runs alone. It waits only for other `spending` blocks of its own.

    Also the `Charger` of its agents.
    """

    def __init__(self, name: str, budget: Budget) -> None:
        self._name = name
        self._pools = Pools()
        self._pools.fund(name, budget)
        self._settled = trio.Event()

    async def reserve(self, amounts: Spend, *, between_steps: bool = False, on_cutoff: Spend | None = None) -> int:
        await cancel_shielded_checkpoint()
        while not isinstance(result := self._pools.reserve((self._name,), self._name, amounts, on_cutoff), Reserved):
            if between_steps or not isinstance(result, Denied) or after_siblings(result) is None:
                raise BudgetExhausted(str(result))
            await self._settled.wait()
        return result.id

    async def settle(self, id: int, actual: Spend) -> None:
        await cancel_shielded_checkpoint()
        self.settle_soon(id, actual)

    def settle_soon(self, id: int, actual: Spend) -> None:
        self._pools.settle(id, actual)
        self._settled.set()
        self._settled = trio.Event()

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
        """Charge an agent's usage report; see `harnesses.agent_bill.Charger`."""
        pools, teller = self._pools, f"{AGENTS}/{self._name}"
        books = (pools.account, pools.keep)
        then(charge_usage(*books, (self._name,), teller, usage, turns=turns, thread=thread, settled=settled))
        return _Done()

    def watch(self, stop: Callable[[str], None]) -> Callable[[], None]:
        """Do nothing: there is no other spender."""
        return lambda: None

    def fund(self, budget: Budget) -> None:
        """Set other limits. Spent amounts are kept."""
        self._pools.fund(self._name, budget)

    def end_attempt(self) -> None:
        """Charge open reservations, since it is unknown how much was spent."""
        self._pools.forfeit(self._name)


class Spending:
    """Async context manager of a spend: reserves on entering, charges on leaving.

    Args:
        till: the budget account; None if there is no budget, and nothing is recorded.
        most: the amount to reserve.
        watch: called with how long the reservation was waited for.
        on_cutoff: what is charged if the block ends without `settle`, or the program dies in it; None for all of `most`.

    Raises:
        HarnessMisuse: `on_cutoff` is more than `most`.
    """

    __slots__ = ("_actual", "_before", "_id", "_on_cutoff", "_till", "_waits", "_watch", "most")

    def __init__(
        self,
        till: BudgetAccount | None,
        most: Spend,
        watch: Stopwatch | None = None,
        *,
        on_cutoff: Spend | None = None,
    ) -> None:
        if on_cutoff is not None and (name := on_cutoff.exceeds(most)) is not None:
            raise HarnessMisuse(
                f"spending: on_cutoff: expected at most the {getattr(most, name)} {name} reserved, "
                f"got {getattr(on_cutoff, name)}; reserve the most that can be spent"
            )
        self.most = most
        self._on_cutoff = on_cutoff
        self._watch = watch or Stopwatch()
        self._till = till if most else None
        self._id = 0
        self._before: frozenset[str] = frozenset()
        self._actual: Spend | None = None
        self._waits = True

    def settle(
        self,
        *,
        turns: int = 0,
        tool_calls: int = 0,
        tokens: int = 0,
        money: Decimal = NOTHING.money,
        steps: int = 0,
        wait: bool = True,
    ) -> None:
        """Set the amount actually spent; the rest of the reservation is released on leaving.

        What was spent beyond the reservation is charged as well. If that is past a limit, the next reservation, and the next
        effect of an agent, raise `BudgetExhausted`. Without this call the whole reservation is charged, or `on_cutoff`.

        Args:
            wait: whether leaving waits until the charge is on disk. Otherwise it joins the next commit, such as that of the
                outcome of the effect that was paid for, so that no crash comes between the two.

        Raises:
            HarnessMisuse: it was called before.
        """
        if self._actual is not None:
            raise HarnessMisuse(f"spending: settled already with {self._actual.plain()}: expected one call")
        self._actual = Spend(turns=turns, tool_calls=tool_calls, tokens=tokens, money=money, steps=steps)
        self._waits = wait

    async def __aenter__(self) -> Spending:
        await checkpoint_if_cancelled()
        if self._till is None:
            await cancel_shielded_checkpoint()
            return self
        since = self._watch.begin()
        try:
            how: dict[str, Any] = {} if self._on_cutoff is None else {"on_cutoff": self._on_cutoff}
            self._id = await self._till.reserve(self.most, **how)
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
        unknown = self.most if self._on_cutoff is None else self._on_cutoff
        actual = unknown if self._actual is None else self._actual
        if self._waits:
            await self._till.settle(self._id, actual)
        else:
            self._till.settle_soon(self._id, actual)
