"""One turn of a trading harness: processes what has arrived since the last step, and becomes a step or nothing.

Operators send commands as messages `{"do": …, "reason": …}`:

    do                what happens                                                                ends with
    stop              open orders are cancelled, positions kept; a last step, then the end       starting it again
    stop entries      only orders that reduce a position; open purchases are cancelled            resume entries
    flatten           open orders are cancelled, everything is sold, halted                       reset
    resume entries    ends `stop entries`
    reset             ends a halt; the high-water mark becomes the current equity
    adopt             the venue's account replaces the book

Anything else is recorded as refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from itertools import takewhile
from typing import Any, cast

from attrs import define, evolve, field

from harnesses.step import StepYield
from harnesses.trading.account import exposures, take_fills, with_report
from harnesses.trading.account_model import (
    Cancelled,
    Command,
    Decision,
    Execution,
    OpenOrder,
    Price,
    TradingOutput,
    TradingState,
    equity_of,
)
from harnesses.trading.exposure import Exposure
from harnesses.trading.market.bars import MarketSlice
from harnesses.trading.market.broker import VenueAccount
from harnesses.trading.market.buying_power import held_against
from harnesses.trading.market.instruments import Instrument
from harnesses.trading.market.orders import ZERO, Cancel, Fill, OrderKind, OrderReport, PlacedOrder, Side, Source
from harnesses.trading.order_screening import Refusal, stop_loss_reason
from harnesses.trading.position_book import Book
from harnesses.trading.risk import Concern, Limits, Risk, RiskState, flatten, reset, resume_entries, stop_entries


class Verb(StrEnum):
    """A command of an operator."""

    STOP = "stop"
    STOP_ENTRIES = "stop entries"
    FLATTEN = "flatten"
    RESUME_ENTRIES = "resume entries"
    RESET = "reset"
    ADOPT = "adopt"


_LONGEST = 500
"""Maximum characters of a message that are recorded."""


def command_from(message: object) -> Command:
    """Return the command in a message; an invalid message gives a refused command."""
    if not isinstance(message, Mapping):
        return Command(repr(message)[:_LONGEST], refused='expected {"do": …, "reason": …}')
    fields = cast(Mapping[str, Any], message)
    do, reason = str(fields.get("do", ""))[:_LONGEST], str(fields.get("reason", ""))[:_LONGEST]
    if do not in tuple(Verb):
        return Command(do, reason, refused=f"expected one of {', '.join(Verb)}")
    return Command(do, reason)


def obey(risk: Risk, command: Command, time: datetime) -> tuple[Risk, Command]:
    """Return the risk after a command, and the command, refused if it had nothing to change."""
    why = command.reason or "requested by an operator"
    after = risk
    match command.do:
        case Verb.STOP_ENTRIES:
            after = stop_entries(risk, why, time)
        case Verb.FLATTEN:
            return flatten(risk, why, time), command
        case Verb.RESUME_ENTRIES:
            after = resume_entries(risk, time)
        case Verb.RESET:
            after = reset(risk, time)
        case _:
            return risk, command
    return after, command if after != risk else evolve(command, refused="there was nothing to do")


@define
class Turn:
    """The working copy of the state, and the contents of the next step."""

    before: TradingState
    """The state after the last step."""
    market: MarketSlice | None
    time: datetime
    age_s: float
    commands: list[Command]
    limits: Limits
    """The limits that apply now."""
    decision: Decision | None = None
    """The decision of this step, made in this attempt or an earlier one."""
    lost: frozenset[str] = frozenset()
    """Symbols beyond their stop-loss."""
    asked: bool = False
    """Whether the strategy was asked, in this attempt or in the one that made the decision."""
    resumed: bool = False
    """Whether an earlier attempt made the decision."""
    answered: Sequence[Any] | None = None
    """What the strategy has answered already; None if it has to be asked."""
    state: TradingState = field(init=False)
    executions: list[Execution] = field(factory=list[Execution])
    reports: list[OrderReport] = field(factory=list[OrderReport])
    refused: list[Refusal] = field(factory=list[Refusal])
    cancelled: list[Cancelled] = field(factory=list[Cancelled])
    foreign: tuple[OrderReport, ...] = ()
    adopted: VenueAccount | None = None
    latched: str = ""
    withdrawn: list[Cancel] = field(factory=list[Cancel])
    """Open orders that the strategy has cancelled in this attempt."""
    _exposed: tuple[TradingState, dict[str, Exposure]] | None = None
    """The last answer of `exposures`, and the state that it is of."""
    _valued: tuple[Book | None, Mapping[str, Price], Decimal] | None = None
    """The last answer of `equity`, and what it is of."""

    def __attrs_post_init__(self) -> None:
        self.state = self.before

    @property
    def equity(self) -> Decimal:
        """The equity of the working copy; added up once for each book and prices."""
        book, prices, known = self.state.book, self.state.prices, self._valued
        if known is not None and known[0] is book and known[1] is prices:
            return known[2]
        equity = equity_of(book, prices)
        self._valued = book, prices, equity
        return equity

    def exposures(self, instruments: Mapping[str, Instrument]) -> Mapping[str, Exposure]:
        """Return the current and possible holdings of each symbol; made once for each state."""
        known = self._exposed
        if known is not None and known[0] is self.state:
            return known[1]
        made = exposures(self.state, instruments, self.market)
        self._exposed = self.state, made
        return made

    @property
    def opens(self) -> bool:
        """Whether this turn opens the books: nothing is traded before they are recorded."""
        return self.before.book is None

    @property
    def is_behind(self) -> bool:
        """Whether another slice may be available already, because the current one is in the past."""
        return self.market is not None and self.age_s > 0

    @property
    def stopping(self) -> bool:
        """Whether an operator asked the harness to stop."""
        return any(command.do == Verb.STOP and not command.refused for command in self.commands)

    @property
    def closing(self) -> Source | None:
        """Who wants everything to be sold; None if nobody does."""
        if self.state.risk.has(Concern.FLATTENED):
            return Source.OPERATOR
        return Source.RISK if self.state.risk.has(Concern.DRAWDOWN) else None

    @property
    def is_news(self) -> bool:
        """Whether there is anything to record."""
        if self.market is not None:
            return True
        before, now = self.before.risk, self.state.risk
        changed = (before.state, before.why) != (now.state, now.why)
        facts = (self.commands, self.executions, self.reports, self.foreign, self.adopted, self.decision)
        return changed or any(facts)

    def take_fills(self, fills: Sequence[Fill], limits: Limits, *, until_decision: bool = False) -> None:
        """Apply fills to the book.

        Args:
            until_decision: whether to leave out fills of the orders that this step has decided on, and all later ones,
                until those orders are handled: so that a repeated step has the same result.
        """
        if not fills:
            return
        placed = {one.client_id: one.source for one in self.decision.placed} if self.decision else {}
        placed |= {one.exit_id: one.source for one in self.decision.placed if one.exit_id} if self.decision else {}
        if until_decision:
            fills = tuple(takewhile(lambda fill: fill.client_id not in placed, fills))
        sources = {id: one.placed.source for id, one in self.before.open.items()} | placed
        self.state, executions = take_fills(self.state, fills, sources, limits)
        self.executions += executions

    def take_report(self, placed: PlacedOrder, report: OrderReport) -> None:
        """Apply the venue's report on one of our orders, if it is new."""
        known = self.state.open.get(placed.client_id)
        if known is None or known.report != report:
            self.reports.append(report)
            self.state = with_report(self.state, placed, report)

    def to_cancel(self, *, lends: bool = False) -> list[tuple[OpenOrder, Source, str]]:
        """Return the open orders to cancel, each with who wants it and why.

        Args:
            lends: whether the venue has margin, so that a sale may open a position.
        """
        risk, orders = self.state.risk, [one for one in self.state.open.values() if one.is_open]
        if not orders:
            return []
        if self.stopping:
            return [(one, Source.OPERATOR, "stop") for one in orders]
        if self.closing is not None:
            return [(one, self.closing, risk.why) for one in orders]
        source = Source.OPERATOR if risk.has(Concern.ENTRIES_STOPPED) else Source.RISK
        entries = [one for one in orders if risk.state is not RiskState.ACTIVE and self._is_entry(one, lends)]
        # Waiting sales and purchases would block the sale of everything; a market sale is already under way.
        in_the_way = [
            one
            for one in orders
            if one.placed.order.symbol in self.lost and not self._is_closing_now(one) and one not in entries
        ]
        return [
            *((one, source, risk.why) for one in entries),
            *((one, Source.RISK, stop_loss_reason(self.limits)) for one in in_the_way),
        ]

    def _held_against(self, order: OpenOrder) -> Decimal:
        """Return the units of a position that an order can close."""
        want, book = order.placed.order, self.state.book
        return held_against(book.units(want.symbol), want.side) if book else ZERO

    def _is_entry(self, order: OpenOrder, lends: bool) -> bool:
        """Return whether an order may open a position."""
        if not lends:
            return order.placed.order.side is Side.BUY
        held = self._held_against(order)
        return not order.placed.only_closes and (order.left > held or not held)

    def _is_closing_now(self, order: OpenOrder) -> bool:
        """Return whether an order closes a position at the market price."""
        return order.placed.order.kind is OrderKind.MARKET and self._held_against(order) > 0

    def refuse(self, placed: PlacedOrder, by: Source, reason: str) -> None:
        """Record that an order was not placed after all."""
        self.refused.append(Refusal(placed.order, placed.source, by, reason))

    def finish(self) -> StepYield[MarketSlice | None, TradingOutput]:
        """Return the step with the final state."""
        state, book, equity, risk = self.state, self.state.book, self.equity, self.state.risk
        if equity is not risk.equity:
            risk = evolve(risk, equity=equity)
            self.state = state = evolve(state, risk=risk)
        positions = book.positions.items() if book else ()
        before = self.before.book
        financing = ZERO if book is None or before is None or self.adopted else book.financing - before.financing
        output = TradingOutput(
            time=self.time,
            cash=state.cash,
            equity=equity,
            positions={symbol: one.units for symbol, one in positions if one.units},
            drawdown=risk.drawdown,
            risk=risk.state,
            why=risk.why,
            placed=self.decision.placed if self.decision else (),
            reports=tuple(self.reports),
            refused=tuple(self.refused),
            fills=tuple(self.executions),
            cancelled=tuple(self.cancelled),
            commands=tuple(self.commands),
            foreign=self.foreign,
            adopted=self.adopted,
            latched=self.latched,
            financing=financing,
        )
        return StepYield(self.market, output)

    def summary(self) -> str | None:
        """Return a one-line summary, with a mark if observers should be alerted; None if there is nothing to say."""
        before, now = self.before.risk, self.state.risk
        if before.state is now.state and not (self.commands or self.executions or self.latched or self.adopted):
            return None
        fills = [one.fill for one in self.executions]
        parts = [f"{command.do}{' refused' if command.refused else ''}" for command in self.commands]
        parts += [_described(fill) for fill in fills]
        parts += [f"{now.state}{': ' if now.why else ''}{now.why}"] if before.state is not now.state else []
        parts += ["latched"] if self.latched else []
        parts += ["books opened" if self.opens else "books adopted"] if self.adopted else []
        mark = "! " if self.commands or before.state is not now.state or any(fill.reason for fill in fills) else ""
        return f"{mark}{self.time:%Y-%m-%d}: {', '.join(parts)}" if parts else None


def _described(fill: Fill) -> str:
    return f"{fill.side} {fill.units} {fill.symbol} at {fill.price}" + (f" ({fill.reason})" if fill.reason else "")
