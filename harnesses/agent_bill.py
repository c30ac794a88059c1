"""The bill of one agent call: usage reports are charged as they arrive, and the agent is stopped at a limit.

    agent ──charge()──► bill ──one report at a time──► charger ──► the books, on disk ──over a limit──► cancel scope
    tool ──count_call()─┘

Invariants: what was charged is on disk before the call returns. An agent that is over a limit returns no answer, even if it
has caught its cancellation. At most one report is in flight; reports that arrive meanwhile are added up. A counted call is
charged without delay, so that its charge can join the commit of its intent. Tool calls that are both counted and reported are
charged once, as the larger of the two numbers; those within the total of a conversation are charged in addition.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager, nullcontext
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
_counter: ContextVar[Callable[[str], object] | None] = ContextVar("harnesses.agent_bill.counter", default=None)
_MOST_THREADS = 64
"""Conversations per call whose totals may wait to be charged at the same time; totals of further ones are charged in full."""


class Charger(Protocol):
    """Charges the usage reports of agents to every budget pool of a harness's chain, and to the agent's own account."""

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
        """Charge a report without waiting; return an awaitable that completes when it is on disk.

        Args:
            then: called with what was charged, before the awaitable completes.
            turns: agent calls to charge with it.
        """
        ...

    def watch(self, stop: Callable[[str], None]) -> Callable[[], None]:
        """Call `stop` with the reason when another spender exhausts a pool of the chain; return a function to end this."""
        ...


class Bill:
    """Collects and charges the usage of one agent call.

    Args:
        settled: fields that the harness settles itself, through `spending`.
        why_no_call: returns why no tool call is left beyond a number of admitted ones, empty if one is; None if tool calls are
            not limited. When it is set, each counted call waits until it is charged.
    """

    def __init__(
        self,
        charger: Charger,
        agent: str,
        settled: Collection[str] = (),
        *,
        why_no_call: Callable[[int], str] | None = None,
    ) -> None:
        self.scope = trio.CancelScope()
        """The scope around the agent call; cancelled when a limit is reached."""
        self.usage = UNUSED
        """Total usage charged so far."""
        self.recalled = UNUSED
        """Usage that was charged in an earlier attempt at the step."""
        self.over = ""
        """Why the agent was stopped; empty while it may go on."""
        self.has_reported = False
        """Whether the agent itself has reported anything."""
        self._why_no_call = why_no_call
        self._calls_counted = self._calls_told = self._admitted = 0
        self._charging: dict[object, Awaitable[object]] = {}
        """Charges of counted calls that are not on disk yet."""
        self._charger = charger
        self._agent = agent
        self._settled = frozenset(settled)
        self._pending: dict[tuple[str, frozenset[str]], Usage] = {}
        """Reports by conversation, and by the fields that are reserved where they were made."""
        self._under_way: Awaitable[object] | None = None
        self._turns = 1
        self._more_turns = 0

    @property
    def total(self) -> Usage:
        """Usage charged for the call, now and in earlier attempts at the step."""
        if not self.recalled:
            return self.usage
        return evolve(self.usage + self.recalled, turns=1 + self._more_turns)

    @property
    def is_told(self) -> bool:
        """Whether the agent's usage is known: it has reported, or its tool calls are counted."""
        return self.has_reported or self._calls_counted > 0

    def charge(self, usage: Usage, *, thread: str = "") -> None:
        """Charge usage since the last report; with a `thread`, the total of that conversation.

        Fields that a surrounding `spending` block has reserved are not charged to the pools again.
        """
        self.has_reported = True
        self._more_turns += usage.turns
        if not thread:
            usage = evolve(usage, tool_calls=self._new_calls(told=usage.tool_calls))
        self._add(usage, thread)

    def recall(self, usage: Usage) -> None:
        """Add usage that was charged in an earlier attempt."""
        self.has_reported = True
        self.recalled += usage
        self._more_turns += usage.turns
        # Its turn was charged with its first report.
        self._turns = 0

    async def count_call(self) -> None:
        """Charge a tool call that is about to be made, or refuse it uncharged if none is left.

        Raises:
            BudgetExhausted: a limit is reached; the call must not be made.
        """
        async with self.call() as call:
            call.charge()
            if call.is_limited:
                await self.settle()
            call.check()

    @asynccontextmanager
    async def call(self) -> AsyncGenerator[CallCharge]:
        """Admit a tool call, which is charged within the block if it begins; refuse it uncharged if none is left.

        Raises:
            BudgetExhausted: a limit is reached; the call must not be made.
        """
        if self._why_no_call is not None:
            await self.settle()
            is_new = self._calls_counted + self._admitted >= self._calls_told
            if not self.over and is_new and (why := self._why_no_call(self._admitted)):
                self.stop(why)
        self.check()
        self._admitted += 1
        call = CallCharge(self, is_limited=self._why_no_call is not None)
        try:
            yield call
        finally:
            if not call.is_made:
                self._admitted -= 1

    def charge_call(self) -> None:
        """Charge an admitted tool call without waiting, whatever else is being charged: it joins the next commit."""
        self._admitted -= 1
        if calls := self._new_calls(counted=1):
            place = object()
            charging = self._submit(Usage(tool_calls=calls), lambda: self._charging.pop(place, None))
            if charging is not None:
                self._charging[place] = charging

    def check(self) -> None:
        """Check that the agent may go on.

        Raises:
            BudgetExhausted: a limit is reached.
        """
        if self.over:
            raise BudgetExhausted(self.over)

    def _new_calls(self, *, counted: int = 0, told: int = 0) -> int:
        """Add counted and reported tool calls; return by how many the larger of the two totals has grown."""
        before = max(self._calls_counted, self._calls_told)
        self._calls_counted += counted
        self._calls_told += told
        return max(self._calls_counted, self._calls_told) - before

    def _add(self, usage: Usage, thread: str = "") -> None:
        settled = self._settled | settled_here()
        if (thread, settled) not in self._pending and len(self._pending) >= _MOST_THREADS:
            thread = ""
        earlier = self._pending.get((thread, settled), UNUSED)
        self._pending[thread, settled] = earlier.max(usage) if thread else earlier + usage
        if self._under_way is None:
            self._send()

    def stop(self, why: str) -> None:
        """Stop the agent because a limit is reached."""
        self.over = self.over or why
        self.scope.cancel()

    def watch(self) -> Callable[[], None]:
        """Stop the agent when another spender exhausts a shared pool; return a function that ends the watch."""
        return self._charger.watch(self.stop)

    async def settle(self) -> None:
        """Wait until all reports are on disk. The wait is shielded from cancellation.

        Raises:
            OrchestratorError: a report could not be recorded.
        """
        if self._under_way is None and not self._charging:
            return
        with trio.CancelScope(shield=True):
            while self._under_way is not None or self._charging:
                await (self._under_way or next(iter(self._charging.values())))

    def _send(self) -> None:
        (thread, reserved), usage = next(iter(self._pending.items()))
        del self._pending[thread, reserved]
        if (under_way := self._submit(usage, self._go_on, thread, reserved)) is not None:
            self._under_way = under_way

    def _go_on(self) -> None:
        self._under_way = None
        if self._pending:
            self._send()

    def _submit(
        self, usage: Usage, then: Callable[[], object], thread: str = "", reserved: Collection[str] | None = None
    ) -> Awaitable[object] | None:
        """Submit a charge; return what to wait for, None if it is on disk already. `then` is called when it is."""
        turns, self._turns = self._turns, 0
        is_charged = False

        def charged(result: Charged) -> None:
            nonlocal is_charged
            is_charged = True
            self.usage += result.usage
            if result.over:
                self.stop(result.over)
            then()

        settled = self._settled | settled_here() if reserved is None else reserved
        submitted = self._charger.charge_soon(usage, charged, agent=self._agent, turns=turns, thread=thread, settled=settled)
        return None if is_charged else submitted


class CallCharge:
    """The charge of one tool call, for `AgentRun.once`: it joins the commit of the call's intent."""

    def __init__(self, bill: Bill, *, is_limited: bool) -> None:
        self._bill = bill
        self.is_limited = is_limited
        """Whether tool calls are limited, so that the call waits for its charge."""
        self.is_made = False
        """Whether it was charged."""

    def charge(self) -> None:
        """Charge the call without waiting; once."""
        self.is_made = True
        self._bill.charge_call()

    def check(self) -> None:
        """Check that the call may be made.

        Raises:
            BudgetExhausted: a limit is reached.
        """
        self._bill.check()


async def billed(bill: Bill, ask: Callable[[], Awaitable[AnswerT]], *, is_shared: bool = True) -> AnswerT:
    """Call the agent through `ask` and return its answer once all its reports are charged.

    Args:
        ask: calls the agent, with `bill.charge` for its reports.
        is_shared: whether others spend from the same pools, and may exhaust them.

    Raises:
        BudgetExhausted: a limit was reached; the agent was stopped.
    """
    leave = bill.watch() if is_shared else None
    answers: list[AnswerT] = []
    before = _current.set(bill)
    try:
        # Without a budget no limit can be reached, and a scope takes as long as the rest of a call.
        with bill.scope if is_shared else nullcontext():
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
    if reported is None and not bill.over:
        assert answers
        return answers[0]
    if reported and not bill.has_reported:
        bill.charge(reported)
        await bill.settle()
    if bill.over:
        raise BudgetExhausted(bill.over)
    assert answers
    total = bill.total
    return with_usage(answer, total) if reported is not None and total else answers[0]


current_counter = _counter.get
"""Returns the function that counts the tool calls of the agent in progress, by the name of the tool; None if nothing does."""
enter_counter, leave_counter = _counter.set, _counter.reset


def current_bill() -> Bill | None:
    """Return the bill of the agent call in progress; None if usage is not charged."""
    return _current.get()


def check_held(till: BudgetAccount, agent: Agent[Any, Any, Any], *, has_answered: bool = False) -> None:
    """Check that every limit an agent could exceed is enforceable for it, or covered by a surrounding `spending` block.

    Args:
        has_answered: whether it has answered without a report. Before that, an agent that declares no `reports` may still
            report.

    Raises:
        HarnessMisuse: a limit is not enforceable.
    """
    if getattr(agent, "reports", None) or has_answered:
        reserved = dict.fromkeys(settled_here())
        if why := unheld([agent], evolve(limits(till), **reserved) if reserved else limits(till)):
            raise HarnessMisuse(why)


def check_left(till: BudgetAccount, agent: Agent[Any, Any, Any]) -> None:
    """Check that some of everything the agent reports is left in the budget.

    Raises:
        BudgetExhausted: one limit is used up.
    """
    wanted = getattr(agent, "reports", frozenset[str]()) - settled_here()
    if wanted and (why := spent_up(till.accounts(), wanted)):
        raise BudgetExhausted(why)


def calls_limit(till: BudgetAccount | None) -> Callable[[int], str] | None:
    """Return a function that tells why no tool call is left beyond a number of them; None if unlimited or reserved."""
    if till is None or "tool_calls" in settled_here() or limits(till).tool_calls is None:
        return None
    return lambda admitted: spent_up(till.accounts(), ("tool_calls",), ahead=admitted)


def takes_charge(agent: Agent[Any, Any, Any]) -> bool:
    """Return whether an agent accepts the `charge` argument: an overridden `run` may not take it."""
    run: Any = getattr(type(agent), "run", None)
    return run is vars(Agent)["run"] or _takes_charge(run or getattr(agent, "run", None))


@lru_cache(maxsize=256)
def _takes_charge(run: Any) -> bool:
    try:
        takes = signature(run).parameters
    except (TypeError, ValueError):
        return False
    return "charge" in takes or any(one.kind is Parameter.VAR_KEYWORD for one in takes.values())
