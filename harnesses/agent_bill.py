"""What one call of an agent costs: its reports are charged as they come, and at a limit it is stopped.

    agent ──charge()──► bill ──one report at a time──► charger ──► the books, on disk ──over a limit──► cancel scope
    tool ──count_call()─┘

The laws: what was charged is on disk before the call returns; an agent that is over a limit does not answer, also if it has
caught its cancellation; at most one report is under way, those that come meanwhile are added up; and tool calls that are both
counted and reported are charged once: the larger number of the two. Those in the total of a conversation are charged besides.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from contextvars import ContextVar
from functools import lru_cache
from inspect import Parameter, signature
from typing import Any, Protocol, TypeVar

import trio
from attrs import evolve

from harnesses.agent import Agent, unheld
from harnesses.budgets.spending import BudgetAccount, limits, settled_here
from harnesses.budgets.usage import UNUSED, Charged, Usage, spent_up, used_in, with_usage
from harnesses.errors import BudgetExhausted, HarnessMisuse

AnswerT = TypeVar("AnswerT")
_current: ContextVar[Bill | None] = ContextVar("harnesses.agent_bill", default=None)
_MOST_THREADS = 64
"""Conversations of one call whose totals wait to be charged at the same time; a total of any beyond is charged in full."""


class Charger(Protocol):
    """Where the reports of agents are charged: in every pool of a harness's chain, and to its agents' own."""

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
        """Charge a report, without waiting; return what to await until it is on disk.

        Args:
            then: is called with what was charged, before anyone who awaits goes on.
            turns: calls of the agent that are counted with it.
        """
        ...

    def watch(self, stop: Callable[[str], None]) -> Callable[[], None]:
        """Have `stop` called with the reason when a pool of the chain is spent by another; return what ends that."""
        ...


class Bill:
    """The bill of one call of an agent.

    Args:
        settled: fields that the harness settles itself, by `spending`.
        why_no_call: says why no tool call is left, empty if one is; None if they are not limited. Where they are, each that
            is counted waits until it is charged.
    """

    def __init__(
        self,
        charger: Charger,
        agent: str,
        settled: Collection[str] = (),
        *,
        why_no_call: Callable[[], str] | None = None,
    ) -> None:
        self.scope = trio.CancelScope()
        """The call of the agent; cancelled when a limit is reached."""
        self.usage = UNUSED
        """What was charged."""
        self.over = ""
        """Why the agent was stopped."""
        self.has_reported = False
        """Whether the agent itself has reported anything."""
        self._why_no_call = why_no_call
        self._calls_counted = self._calls_told = 0
        self._charger = charger
        self._agent = agent
        self._settled = settled
        self._pending: dict[str, Usage] = {}
        self._under_way: Awaitable[object] | None = None
        self._turns = 1

    @property
    def is_charged(self) -> bool:
        """Whether anything was charged."""
        return not self._turns

    @property
    def is_told(self) -> bool:
        """Whether anything is known of what the agent used: it has reported, or its tools are counted."""
        return self.has_reported or self._calls_counted > 0

    def charge(self, usage: Usage, *, thread: str = "") -> None:
        """Charge what was used since the last report; with a `thread`, the total of that conversation."""
        self.has_reported = True
        if not thread:
            usage = evolve(usage, tool_calls=self._new_calls(told=usage.tool_calls))
        self._add(usage, thread)

    async def count_call(self) -> None:
        """Charge a tool call that is about to be made; where none is left, it is refused and not charged.

        Raises:
            BudgetExhausted: a limit is reached; the call must not be made.
        """
        if self._why_no_call is not None:
            await self.settle()
            is_new = self._calls_counted >= self._calls_told
            if not self.over and is_new and (why := self._why_no_call()):
                self.stop(why)
        if not self.over and (calls := self._new_calls(counted=1)):
            self._add(Usage(tool_calls=calls))
            if self._why_no_call is not None:
                await self.settle()
        if self.over:
            raise BudgetExhausted(self.over)

    def _new_calls(self, *, counted: int = 0, told: int = 0) -> int:
        """Return how many tool calls are new, of those that were counted and those that the agent tells of."""
        before = max(self._calls_counted, self._calls_told)
        self._calls_counted += counted
        self._calls_told += told
        return max(self._calls_counted, self._calls_told) - before

    def _add(self, usage: Usage, thread: str = "") -> None:
        if thread not in self._pending and len(self._pending) >= _MOST_THREADS:
            thread = ""
        earlier = self._pending.get(thread, UNUSED)
        self._pending[thread] = earlier.max(usage) if thread else earlier + usage
        if self._under_way is None:
            self._send()

    def stop(self, why: str) -> None:
        """Stop the agent: a limit is reached."""
        self.over = self.over or why
        self.scope.cancel()

    def watch(self) -> Callable[[], None]:
        """Have the agent stopped too when another spends what is left; return what ends that."""
        return self._charger.watch(self.stop)

    async def settle(self) -> None:
        """Return when all that was reported is on disk. No cancellation ends the wait.

        Raises:
            OrchestratorError: it could not be recorded.
        """
        with trio.CancelScope(shield=True):
            while self._under_way is not None:
                await self._under_way

    def _send(self) -> None:
        thread, usage = next(iter(self._pending.items()))
        del self._pending[thread]
        turns, self._turns = self._turns, 0
        settled = False

        def then(charged: Charged) -> None:
            nonlocal settled
            settled = True
            self._charged(charged)

        under_way = self._charger.charge_soon(
            usage, then, agent=self._agent, turns=turns, thread=thread, settled=self._settled
        )
        if not settled:
            self._under_way = under_way

    def _charged(self, charged: Charged) -> None:
        self._under_way = None
        self.usage += charged.usage
        if charged.over:
            self.stop(charged.over)
        if self._pending:
            self._send()


async def billed(bill: Bill, ask: Callable[[], Awaitable[AnswerT]], *, is_shared: bool = True) -> AnswerT:
    """Return what `ask` returns, when all that was reported meanwhile is charged.

    Args:
        ask: calls the agent, with `bill.charge` for its reports.
        is_shared: whether others spend from the same pools, and may bring them to their limits.

    Raises:
        BudgetExhausted: a limit was reached; the agent was stopped.
    """
    leave = bill.watch() if is_shared else None
    answers: list[AnswerT] = []
    before = _current.set(bill)
    try:
        with bill.scope:
            answers.append(await ask())
    except Exception as error:
        await bill.settle()
        if bill.over:
            raise BudgetExhausted(bill.over) from error
        raise
    finally:
        _current.reset(before)
        if leave is not None:
            leave()
        await bill.settle()
    answer = answers[0] if answers else None
    reported = used_in(answer)
    if reported and not bill.has_reported:
        bill.charge(reported)
        await bill.settle()
    if bill.over:
        raise BudgetExhausted(bill.over)
    assert answers
    return with_usage(answer, bill.usage) if reported is not None and bill.is_charged else answers[0]


def current_bill() -> Bill | None:
    """Return the bill of the agent that is being asked; None if nobody charges."""
    return _current.get()


def check_held(till: BudgetAccount, agent: Agent[Any, Any, Any], *, has_answered: bool = False) -> None:
    """Make sure that every limit which an agent could exceed can be held for it, or is reserved around this, by `spending`.

    Args:
        has_answered: whether it has answered without a report. Before that, an agent that declares none may yet report.

    Raises:
        HarnessMisuse: one cannot be.
    """
    if getattr(agent, "reports", None) or has_answered:
        reserved = dict.fromkeys(settled_here())
        if why := unheld([agent], evolve(limits(till), **reserved) if reserved else limits(till)):
            raise HarnessMisuse(why)


def check_left(till: BudgetAccount, agent: Agent[Any, Any, Any]) -> None:
    """Make sure that something is left of all that an agent is going to report.

    Raises:
        BudgetExhausted: nothing is.
    """
    wanted = getattr(agent, "reports", frozenset[str]()) - settled_here()
    if wanted and (why := spent_up(till.accounts(), wanted)):
        raise BudgetExhausted(why)


def calls_limit(till: BudgetAccount | None) -> Callable[[], str] | None:
    """Return what says why no tool call is left, empty while one is; None if they are not limited, or are reserved."""
    if till is None or "tool_calls" in settled_here() or limits(till).tool_calls is None:
        return None
    return lambda: spent_up(till.accounts(), ("tool_calls",))


def takes_charge(agent: Agent[Any, Any, Any]) -> bool:
    """Return whether an agent can be told where to report what it uses: a `run` of its own may not take that."""
    run: Any = getattr(type(agent), "run", None)
    return run is vars(Agent)["run"] or _takes_charge(run or getattr(agent, "run", None))


@lru_cache(maxsize=256)
def _takes_charge(run: Any) -> bool:
    try:
        takes = signature(run).parameters
    except (TypeError, ValueError):
        return False
    return "charge" in takes or any(one.kind is Parameter.VAR_KEYWORD for one in takes.values())
