"""`TradingHarness`: follows a feed, asks a strategy, trades at a venue within limits. Backtest, paper and live are one code.

    feed ──slice──►  account  ──►  risk  ──►  strategy  ──orders──►  screening  ──►  `once`  ──►  broker ──► venue
                        ▲                                                                            │
                        └───────────────────────── fills, reports ───────────────────────────────────┘

The laws:

    nothing is traded before the book and the venue's account are the same, to the last digit
    what is to be placed in a step is decided once: it is on record before the first order goes out, and an attempt that
    takes the step up again goes on with it, dropping what was not begun and may not be any more
    every order is an effect, under a client id that comes of harness, step and key: none is ever placed twice
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any

import msgspec
import trio
from attrs import evolve

from harnesses.base import BaseHarness
from harnesses.effects import Answer, Confirmed, EffectOutcome, NotDone
from harnesses.errors import HarnessMisuse, Latched, Refused, Stopping, Waiting
from harnesses.step import Constraints, StepYield
from harnesses.trading.account import (
    Cancelled,
    Command,
    Decision,
    TradingOutput,
    TradingState,
    adopt,
    ask,
    average_costs,
    exposures,
    free_cash,
    take_slice,
    with_report,
    with_splits,
)
from harnesses.trading.bars import BadMarketData, MarketSlice
from harnesses.trading.book import Book, differences
from harnesses.trading.broker import Broker, BrokerUnavailable, OrderRefused
from harnesses.trading.feed import Feed
from harnesses.trading.harness_turn import Turn
from harnesses.trading.harness_verbs import Verb, command_from, obey
from harnesses.trading.instruments import Instrument
from harnesses.trading.orders import OrderReport, OrderStatus, PlacedOrder, Source, client_id_for
from harnesses.trading.paper import PaperBroker
from harnesses.trading.risk import Limits, RiskState, after_stop_loss, assess, is_stale, limits_from, watch
from harnesses.trading.risk_screening import Wanted, forbidden, sale_of_all, screen, stop_loss_orders
from harnesses.trading.strategies import Strategy, rsi_strategy

_TRIES = 3
"""How often an order is sent that has certainly not been taken, before it counts as refused."""


class BooksDiffer(Waiting):
    """What the venue says we own is not what the harness knows of. A person must find out why, and may have it adopted."""


class TradingHarness(BaseHarness[TradingState, MarketSlice | None, TradingOutput]):
    """Trades the symbols of a feed at the venue of a broker; one step for each slice, and for what happens between two.

    It is complete when the feed is at its end; over an endless feed it never is. The first step opens the books. A halt does
    not end it: it goes on recording the market. Operators tell it what to do by messages; see `Verb`.

    Args:
        feed: is asked for the slice after `state.time`, so a resumed harness goes on with the next one.
        broker: the default trades on paper, in memory. A harness that is to outlive its program needs one that does.
        strategy: the default goes by the relative strength index.
        cash: what the default broker starts with.
        limits: what no strategy can go beyond. Limits named in `constraints` take the place of these.
        period_s: seconds from one poll to the next.
        patience_s: how long the venue may be out of reach, once the harness has started, before it fails.
        constraints: handed to the strategy's agent.
        initial_state: a state to go on from, instead of a new account.
    """

    def __init__(
        self,
        feed: Feed,
        broker: Broker | None = None,
        strategy: Strategy | None = None,
        *,
        cash: Decimal = Decimal(10_000),
        limits: Limits | None = None,
        period_s: float = 60.0,
        patience_s: float = 300.0,
        max_context_steps: int = 10,
        constraints: Constraints | None = None,
        initial_state: TradingState | None = None,
    ) -> None:
        super().__init__(initial_state or TradingState(), max_context_steps=max_context_steps, constraints=constraints)
        self._limits = limits_from(self.constraints, limits)
        self._feed = feed
        self._broker: Broker = broker or PaperBroker(cash)
        self._strategy = strategy or rsi_strategy()
        self._period_s = period_s
        self._patience_s = patience_s
        self._instruments: Mapping[str, Instrument] = {}
        self._inbox: list[Command] = []
        self._foreign: tuple[OrderReport, ...] = ()
        self._decision = Decision(None, datetime.min)

    @property
    def symbols(self) -> Sequence[str]:
        """What is traded."""
        return self._feed.symbols

    def is_complete(self) -> bool:
        state = self.state
        return state.book is not None and self._feed.is_at_end(state.time)

    async def execute(self) -> AsyncIterator[StepYield[MarketSlice | None, TradingOutput]]:
        await self._start()
        if self.state.book is None:
            turn, made = await self._turn()
            yield made or turn.finish()
            self._end(turn)
        if self.is_complete():
            return
        reached = trio.current_time()
        async for _ in self.every(self._period_s):
            try:
                turn, made = await self._turn()
            except BrokerUnavailable:
                if trio.current_time() - reached > self._patience_s:
                    raise
                continue
            reached = trio.current_time()
            if made is not None:
                yield made
                self._end(turn)
            elif self.is_complete():
                return

    # at the start of each attempt

    async def _start(self) -> None:
        """Get ready to trade; return when the book and the venue's account are the same, or are to be made so.

        Raises:
            BooksDiffer: they are not.
            BrokerUnavailable: the venue can not be asked.
        """
        self._inbox.clear()
        self._instruments = await self._broker.connect(self.symbols)
        decision = await self._taken_up()
        self._read_messages()
        book, adopting = self.state.book, any(command.do == Verb.ADOPT for command in self._inbox)
        if book is not None and not adopting:
            await self._check(book, decision)
        known = {*self.state.open, *(placed.client_id for placed in (decision.placed if decision else ()))}
        found = await self._broker.open_orders(self.symbols)
        self._foreign = tuple(report for report in found if report.client_id not in known)

    async def _check(self, book: Book, decision: Decision | None) -> None:
        """Compare the book with the venue's account; what is filled while we look is looked at again."""
        found: tuple[str, ...] = ()
        for _ in range(_TRIES):
            found = await self._differences(book)
            if not found:
                return
            # The venue may have seen the slice that comes next already, and a split with it.
            market = decision.market if decision else await self._feed.next_slice(self.state.time)
            split = with_splits(book, market)
            if split is not book and not await self._differences(split):
                return
        raise BooksDiffer(
            f"harness {self.name!r}: its book and the account at {self._broker.name} differ: {'; '.join(found)}; find out "
            'why, then start it again; to go on with what the venue says, send it {"do": "adopt"} before'
        )

    async def _differences(self, book: Book) -> tuple[str, ...]:
        fills = await self._broker.fills(self.symbols, book.last_fill)
        account = await self._broker.account(self.symbols)
        for fill in fills:
            book = book.after(fill)
        return differences(book, account)

    async def _taken_up(self) -> Decision | None:
        """Settle what earlier attempts at this step have left in doubt; return what they have decided, if they have."""
        decided = False
        for effect in self.effects:
            if effect.key == _DECIDE:
                decided = effect.outcome is EffectOutcome.CONFIRMED
            elif effect.outcome in (EffectOutcome.BEGUN, EffectOutcome.UNKNOWN) and not effect.idempotent:
                await self.settle(effect.key, self._ask)
        return await self.once(_DECIDE, self._decided, idempotent=True) if decided else None

    def _read_messages(self) -> None:
        while True:
            try:
                self._inbox.append(command_from(self.receive_nowait()))
            except trio.WouldBlock:
                return

    # a turn

    async def _turn(self) -> tuple[Turn, StepYield[MarketSlice | None, TradingOutput] | None]:
        """Return a turn, and the step that it comes to; None if there is nothing to record."""
        turn = await self._begin()
        return turn, await self._step(turn)

    def _end(self, turn: Turn) -> None:
        """Go on after a step is recorded, and its messages with it."""
        self._inbox.clear()
        if turn.stopping:
            raise Stopping

    async def _begin(self) -> Turn:
        """Return a turn with what has come in: messages, and a slice; if an attempt has decided already, that one's."""
        self._read_messages()
        state = self.state
        decision = await self._taken_up() if self.effects else None
        market = decision.market if decision else await self._next_slice(state)
        now, last = self._feed.now(), market.time if market else state.time
        return Turn(
            before=state,
            market=market,
            time=market.time if market else decision.time if decision else max(now, last or now),
            age_s=(now - last).total_seconds() if last else 0.0,
            commands=[*self._inbox],
            decision=decision,
            resumed=decision is not None,
            foreign=self._foreign,
        )

    async def _next_slice(self, state: TradingState) -> MarketSlice | None:
        if state.book is None:
            return None
        last = state.time
        market = await self._feed.next_slice(last)
        if market is not None and last is not None and market.time <= last:
            raise BadMarketData(f"slice {market.time} of the feed: expected one after {last}; a feed goes forward only")
        return market

    async def _step(self, turn: Turn) -> StepYield[MarketSlice | None, TradingOutput] | None:
        await self._look(turn)
        self._judge(turn)
        if not turn.is_news:
            return None
        if not turn.opens:
            await self._cancel(turn)
            if turn.decision is None and not turn.stopping:
                await self._decide(turn)
            if turn.decision is not None:
                await self._place(turn)
        made = turn.finish()
        self._foreign = ()
        self.update_state(lambda _: turn.state, summary=turn.summary())
        return made

    async def _look(self, turn: Turn) -> None:
        """Take in what the market and the venue say."""
        if turn.market is not None:
            await self._broker.observe(turn.market)
            turn.state = take_slice(turn.state, turn.market, self._strategy.indicators, self._limits)
        if turn.opens or any(command.do == Verb.ADOPT for command in turn.commands):
            await self._adopt(turn)
        await self._refresh(turn)
        await self._take_fills(turn, until_decision=turn.resumed)

    async def _adopt(self, turn: Turn) -> None:
        """Take the venue's account for the book, as of its last fill."""
        for _ in range(_TRIES):
            fills = await self._broker.fills(self.symbols, {})
            account = await self._broker.account(self.symbols)
            if list(await self._broker.fills(self.symbols, {})) == list(fills):
                turn.adopted = account
                turn.state = adopt(turn.state, account, {fill.symbol: fill.fill_id for fill in fills})
                return
        raise BrokerUnavailable(f"{self._broker.name}: fills come faster than the account can be read; try again")

    async def _refresh(self, turn: Turn) -> None:
        """Find out where our open orders stand."""
        if not turn.state.open:
            return
        still = {report.client_id: report for report in await self._broker.open_orders(self.symbols)}
        # What an earlier attempt at this step has begun to cancel is reported where this one does so again.
        cancels = {effect.key for effect in self.effects}
        for id, order in turn.state.open.items():
            if _cancel_key(id) in cancels:
                continue
            report = still.get(id) or await self._broker.find(order.placed)
            lost = evolve(order.report, status=OrderStatus.CANCELLED, reason="the venue has no such order any more")
            turn.take_report(order.placed, report or lost)

    async def _take_fills(self, turn: Turn, *, until_decision: bool = False) -> None:
        book = turn.state.book
        assert book is not None, "the books are open"
        fills = await self._broker.fills(self.symbols, book.last_fill)
        turn.take_fills(fills, self._limits, until_decision=until_decision)

    def _judge(self, turn: Turn) -> None:
        """Assess the risk, then do what operators say."""
        risk = turn.state.risk
        if turn.market is not None:
            risk = assess(risk, self._limits, equity=turn.state.equity, time=turn.time)
        risk = watch(risk, self._limits, age_s=turn.age_s, time=turn.time)
        for index, command in enumerate(turn.commands):
            if not command.refused:
                risk, turn.commands[index] = obey(risk, command, turn.time)
        turn.state = evolve(turn.state, risk=risk)

    async def _cancel(self, turn: Turn) -> None:
        """Cancel what is not to be filled any more. That is allowed in every state; only the latch is before it."""
        for order, source, why in turn.to_cancel():
            placed = order.placed
            done = Cancelled(placed.client_id, placed.order.symbol, source, why)
            try:
                report: OrderReport | None = await self.once(
                    _cancel_key(placed.client_id),
                    self._send_cancel,
                    placed.client_id,
                    placed.order.symbol,
                    idempotent=True,
                )
            except Latched as error:
                turn.latched = self._plain(error)
                turn.cancelled.append(evolve(done, refused=turn.latched))
                continue
            turn.cancelled.append(evolve(done, report=report))
            if report is not None:
                turn.state = with_report(turn.state, placed, report)
        if turn.cancelled:
            await self._take_fills(turn, until_decision=turn.resumed)

    async def _decide(self, turn: Turn) -> None:
        """Decide what to place, and have that on record."""
        wanted = [*self._wanted(turn), *await self._asked(turn)]
        if not wanted:
            return
        screening = screen(
            wanted,
            risk=turn.state.risk,
            limits=self._limits,
            exposures=exposures(turn.state, self._instruments, turn.market),
            cash=free_cash(turn.state),
            time=turn.time,
            age_s=turn.age_s,
        )
        placed = tuple(self._placed(index, one, turn.time) for index, one in enumerate(screening.allowed, 1))
        decision = Decision(turn.market, turn.time, placed, screening.refused)
        if placed:
            self._decision = decision
            try:
                decision = await self.once(_DECIDE, self._decided, idempotent=True)
            except Latched as error:
                turn.latched = self._plain(error)
        turn.decision = decision

    def _wanted(self, turn: Turn) -> Sequence[Wanted]:
        """Return what the rules, or an operator's word, want sold."""
        known, closing = exposures(turn.state, self._instruments, turn.market), turn.closing
        if closing is not None:
            # Between two slices only because of a message: what could not be sold at once waits for the next slice.
            return sale_of_all(known, closing, turn.state.risk.why) if turn.market or turn.commands else ()
        if turn.market is None or turn.state.book is None:
            return ()
        return stop_loss_orders(self._limits, known, average_costs(turn.state.book))

    async def _asked(self, turn: Turn) -> Sequence[Wanted]:
        """Return what the strategy wants; it is not asked where nothing of it would be allowed."""
        if turn.market is None or turn.state.risk.state is RiskState.HALTED or is_stale(self._limits, turn.age_s):
            return ()
        known = exposures(turn.state, self._instruments, turn.market)
        question = ask(turn.state, turn.market, self._strategy.indicators, known, previous=turn.before.time)
        return [Wanted(order) for order in await self.run_agent(self._strategy.agent, question)]

    def _placed(self, index: int, wanted: Wanted, time: datetime) -> PlacedOrder:
        client_id = client_id_for(self.name, self.current_step + 1, _key(index))
        return PlacedOrder(client_id, wanted.order, wanted.source, time)

    async def _place(self, turn: Turn) -> None:
        """Place what was decided, order by order."""
        decision = turn.decision
        assert decision is not None, "there is something to place"
        turn.refused += decision.refused
        begun = {effect.key for effect in self.effects if effect.outcome is not EffectOutcome.NOT_DONE}
        for index, placed in enumerate(decision.placed, 1):
            dropped = self._dropped(turn, placed) if turn.resumed and _key(index) not in begun else ""
            if dropped:
                turn.refuse(placed, Source.RISK, dropped)
            elif turn.latched:
                turn.refuse(placed, Source.OPERATOR, turn.latched)
            else:
                await self._place_one(turn, index, placed)
        if decision.placed:
            await self._take_fills(turn)

    async def _place_one(self, turn: Turn, index: int, placed: PlacedOrder) -> None:
        try:
            report = await self._submitted(index, placed)
        except Refused as error:
            turn.refuse(placed, Source.VENUE, self._plain(error))
        except Latched as error:
            turn.latched = self._plain(error)
            turn.refuse(placed, Source.OPERATOR, turn.latched)
        else:
            turn.take_report(placed, report)
            if placed.source is Source.RISK and turn.closing is None:
                risk = after_stop_loss(turn.state.risk, self._limits, placed.order.symbol, turn.time)
                turn.state = evolve(turn.state, risk=risk)

    async def _submitted(self, index: int, placed: PlacedOrder) -> OrderReport:
        """Return what the venue says of an order; send it again only if it is certain that it was not taken."""
        for tries_left in reversed(range(_TRIES)):
            try:
                return await self.once(_key(index), self._send_order, placed, reconcile=self._ask)
            except (Refused, Waiting):
                raise
            except Exception as error:
                outcomes = {effect.key: effect.outcome for effect in self.effects}
                if outcomes.get(_key(index)) is not EffectOutcome.NOT_DONE:
                    raise
                if not tries_left:
                    raise Refused(f"not taken in {_TRIES} tries: {error}") from error
        raise HarnessMisuse("an order is tried at least once")

    def _dropped(self, turn: Turn, placed: PlacedOrder) -> str:
        """Return why an order that an earlier attempt has decided on, but not begun, is not to be placed any more."""
        if turn.stopping:
            return "not begun when an operator said stop"
        known = exposures(turn.state, self._instruments, turn.market).get(placed.order.symbol)
        wanted = Wanted(placed.order, placed.source)
        why = forbidden(wanted, turn.state.risk, self._limits, known, time=turn.time, age_s=turn.age_s)
        return f"not begun by the attempt that decided it, and now {why}" if why else ""

    def _plain(self, error: Exception) -> str:
        """Return what an error says, but for the place, which the step has anyhow."""
        return str(error).removeprefix(f"harness {self.name!r}, step {self.current_step + 1}: ")

    # effects

    async def _decided(self) -> Decision:
        return self._decision

    async def _send_order(self, placed: PlacedOrder) -> OrderReport:
        return _taken(await self._broker.submit(placed))

    async def _send_cancel(self, client_id: str, symbol: str) -> OrderReport | None:
        return await self._broker.cancel(client_id, symbol)

    async def _ask(self, key: str, placed: PlacedOrder | dict[str, Any]) -> Answer:
        """Find out what became of an order."""
        report = await self._broker.find(msgspec.convert(placed, PlacedOrder) if isinstance(placed, dict) else placed)
        return NotDone() if report is None else Confirmed(_taken(report))


_DECIDE = "decide"


def _key(index: int) -> str:
    return f"order-{index}"


def _cancel_key(client_id: str) -> str:
    return f"cancel-{client_id}"


def _taken(report: OrderReport) -> OrderReport:
    """Return a report of an order that the venue has taken. Raises `OrderRefused` if it has not."""
    if report.status is OrderStatus.REJECTED and not report.filled:
        raise OrderRefused(report.reason or "rejected by the venue")
    return report
