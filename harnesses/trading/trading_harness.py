"""`TradingHarness`: follows a feed, asks a strategy, trades at a venue within limits. Backtest, paper and live are one code.

    feed ──slice──►  account  ──►  risk  ──►  strategy  ──orders──►  screening  ──►  `once`  ──►  broker ──► venue
                        ▲                                                                            │
                        └───────────────────────── fills, reports ───────────────────────────────────┘

The laws:

    nothing is traded before the book and the venue's account are the same, to the last digit
    what is to be placed in a step is decided once: it is on record before the first order goes out, and an attempt that
    takes the step up again goes on with it, dropping what was not begun and may not be any more
    every order is an effect, under a client id that comes of harness, step, key and the account's life: none is placed twice
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from decimal import Decimal
from shlex import quote
from uuid import uuid4

import trio
from attrs import evolve

from harnesses.base import BaseHarness
from harnesses.errors import Stopping, Waiting
from harnesses.step import Constraints, StepYield
from harnesses.trading.account import ask, average_costs, exposures, free_cash, take_slice, with_splits
from harnesses.trading.account_model import Command, Decision, TradingOutput, TradingState, figures, moment
from harnesses.trading.market.bars import MarketSlice
from harnesses.trading.market.broker import Broker, BrokerUnavailable
from harnesses.trading.market.feed import Feed, FeedPoller
from harnesses.trading.market.orders import ONE, OrderReport
from harnesses.trading.market_turn import Turn, Verb, command_from, obey
from harnesses.trading.order_desk import TRIES, Desk
from harnesses.trading.order_screening import Wanted, forbidden, past_stop_loss, sale_of_all, screen, stop_loss_orders
from harnesses.trading.paper.paper_broker import PaperBroker
from harnesses.trading.position_book import Book
from harnesses.trading.risk import Limits, RiskState, assess, is_stale, limits_for, limits_from, watch
from harnesses.trading.strategies import Strategy, StrategyAgent, rsi_strategy
from harnesses.trading.trading_checks import check_parts, check_seconds, orders_from


class BooksDiffer(Waiting):
    """What the venue says we own is not what the harness knows of. A person must find out why, and may have it adopted."""


class TradingHarness(BaseHarness[TradingState, MarketSlice | None, TradingOutput]):
    """Trades the symbols of a feed at the venue of a broker; one step for each slice, and for what happens between two.

    It is complete when the feed is at its end; over an endless feed it never is. The first step opens the books. A halt does
    not end it: it goes on recording the market, and under the kill switch too. As long as the risk is not active, purchases
    that are still open are cancelled. Operators tell it what to do by messages; see `market_turn`.

    Args:
        feed: is asked for the slice after `state.time`, so a resumed harness goes on with the next one.
        broker: the default trades on paper, in memory. A harness that is to outlive its program needs one that does.
        strategy: the default goes by the relative strength index.
        cash: what the default broker starts with.
        limits: what no strategy can go beyond. Limits named in `constraints` take the place of these.
        period_s: seconds from one poll to the next. What has come meanwhile is all taken in, slice by slice, with the next.
        patience_s: how long the venue, or the feed, may be out of reach, once the harness has started, before it fails.
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
        check_parts(feed, broker, strategy, limits)
        check_seconds(period_s, patience_s)
        super().__init__(initial_state or TradingState(), max_context_steps=max_context_steps, constraints=constraints)
        self._limits = limits_from(self.constraints, limits)
        self._feed = feed
        self._strategy = strategy or rsi_strategy()
        self._period_s = period_s
        self._patience_s = patience_s
        self._desk = Desk(self, broker or PaperBroker(cash), tuple(feed.symbols), self._limits)
        self._inbox: list[Command] = []
        self._foreign: tuple[OrderReport, ...] = ()
        self._poller = FeedPoller(feed, period_s, patience_s)
        self._reached = 0.0
        """When the venue answered last, by Trio's clock."""

    figures = staticmethod(figures)
    """What a governor from outside goes by, besides the harness's own limits."""
    moment = staticmethod(moment)

    @property
    def symbols(self) -> Sequence[str]:
        """What is traded."""
        return self._feed.symbols

    def is_complete(self) -> bool:
        state = self.state
        return state.book is not None and self._feed.is_at_end(state.time)

    def asked_agents(self) -> Sequence[StrategyAgent]:
        return (self._strategy.agent,)

    async def execute(self) -> AsyncIterator[StepYield[MarketSlice | None, TradingOutput]]:
        await self._start()
        if self.state.book is None:
            turn = await self._begin()
            yield await self._step(turn) or turn.finish()
            self._end(turn)
        if self.is_complete():
            return
        self._reached = trio.current_time()
        self._poller.begin()
        async for _ in self.every(self._period_s):
            found = await self._reaching()
            if found is None and self.is_complete():
                return
            while found is not None:
                turn, made = found
                yield made
                self._end(turn)
                found = await self._reaching(more=True) if turn.is_behind else None

    @property
    def halted(self) -> str:
        """Why nothing is done that the strategy wants; empty while something may be."""
        risk = self.state.risk
        return (risk.why or "halted") if risk.state is RiskState.HALTED else ""

    # at the start of each attempt

    async def _start(self) -> None:
        """Get ready to trade; return when the book and the venue's account are the same, or are to be made so.

        Raises:
            BooksDiffer: they are not.
            BrokerUnavailable: the venue cannot be asked.
        """
        self._inbox.clear()
        await self._desk.connect()
        decision = await self._desk.taken_up()
        self._read_messages()
        book, adopting = self.state.book, any(command.do == Verb.ADOPT for command in self._inbox)
        if book is not None and not adopting:
            await self._check(book, decision)
        known = {*self.state.open, *(placed.client_id for placed in (decision.placed if decision else ()))}
        self._foreign = await self._desk.foreign(known)

    async def _check(self, book: Book, decision: Decision | None) -> None:
        """Compare the book with the venue's account; what is filled while we look is looked at again."""
        found: tuple[str, ...] = ()
        for passed_s in range(TRIES):
            # What was filled may be in the account before it is told as a fill.
            await self.sleep(passed_s)
            found = await self._desk.differences(book)
            if not found:
                return
            # The venue may have seen the slice that comes next already, and a split with it.
            market = decision.market if decision else await self._feed.next_slice(self.state.time)
            split = with_splits(book, market)
            if split is not book and not await self._desk.differences(split):
                return
        raise BooksDiffer(
            f"to go on with the venue's: `orchestrator trading adopt {quote(self.name)}`, then start it again; but find out "
            f"why harness {self.name!r} and the account at {self._desk.broker.name} differ: {'; '.join(found)}"
        )

    def _read_messages(self) -> None:
        while True:
            try:
                self._inbox.append(command_from(self.receive_nowait()))
            except trio.WouldBlock:
                return

    # a turn

    async def _reaching(self, *, more: bool = False) -> tuple[Turn, StepYield[MarketSlice | None, TradingOutput]] | None:
        """Return a turn and its step; None if there is nothing to record, or the venue out of reach for now.

        Args:
            more: whether there was a slice before it at the same poll: then there is no turn without another one, or a word of
                an operator.
        """
        try:
            turn = await self._begin()
            made = None if more and turn.market is None and not turn.commands else await self._step(turn)
        except BrokerUnavailable:
            if trio.current_time() - self._reached > self._patience_s:
                raise
            return None
        self._reached = trio.current_time()
        return None if made is None else (turn, made)

    def _end(self, turn: Turn) -> None:
        """Go on after a step is recorded, and its messages with it."""
        self._inbox.clear()
        if turn.stopping:
            raise Stopping

    async def _begin(self) -> Turn:
        """Return a turn with what has come in: messages, and a slice; if an attempt has decided already, that one's."""
        self._read_messages()
        state = self.state
        decision = await self._desk.taken_up() if self.effects else None
        market = decision.market if decision else await self._next_slice(state)
        self._read_messages()
        if decision is None and self._is_stopping():
            market = None
        now, last = self._feed.now(), market.time if market else state.time
        return Turn(
            before=state,
            market=market,
            time=market.time if market else decision.time if decision else max(now, last or now),
            age_s=(now - last).total_seconds() if last else 0.0,
            commands=[*self._inbox],
            limits=self._limits,
            decision=decision,
            resumed=decision is not None,
            foreign=self._foreign,
        )

    async def _next_slice(self, state: TradingState) -> MarketSlice | None:
        """Return what is next; nothing before the books are open, nor when told to stop: it waits for the next start."""
        if state.book is None or self._is_stopping():
            return None
        return await self._poller.next_slice(state.time)

    def _is_stopping(self) -> bool:
        return any(command.do == Verb.STOP for command in self._inbox)

    async def _step(self, turn: Turn) -> StepYield[MarketSlice | None, TradingOutput] | None:
        await self._look(turn)
        self._judge(turn)
        if not turn.is_news:
            return None
        if not turn.opens:
            await self._trade(turn)
        made = turn.finish()
        self._foreign = ()
        self.update_state(lambda _: turn.state, summary=turn.summary())
        return made

    async def _look(self, turn: Turn) -> None:
        """Take in what the market and the venue say."""
        if turn.market is not None:
            await self._desk.observe(turn.market)
            if any(bar.split != ONE for bar in turn.market.bars.values()):
                # What was filled before the split, and is told only now, is in units of before it.
                await self._desk.take_fills(turn, until_decision=turn.resumed, before=turn.market.time)
            turn.state = take_slice(turn.state, turn.market, self._strategy.indicators, self._limits)
        if turn.opens or any(command.do == Verb.ADOPT for command in turn.commands):
            await self._desk.adopt(turn)
        if self.current_step == 0:
            # A recording has a clock of its own, so that a backtest is the same to the last bit.
            await self._desk.salt(turn, uuid4() if self._poller.is_live else "")
        await self._desk.refresh(turn)
        await self._desk.take_fills(turn, until_decision=turn.resumed)

    def _judge(self, turn: Turn) -> None:
        """Assess the risk, then do what operators say."""
        risk, state = turn.state.risk, turn.state
        live, bar_s = self._poller.is_live, self._poller.bar_s
        turn.limits = limits_for(self._limits, live=live, bar_s=bar_s, gaps_s=state.gaps_s, period_s=self._period_s)
        if turn.market is not None:
            risk = assess(risk, self._limits, equity=turn.state.equity, time=turn.time)
        risk = watch(risk, turn.limits, age_s=turn.age_s, time=turn.time)
        for index, command in enumerate(turn.commands):
            if not command.refused:
                risk, turn.commands[index] = obey(risk, command, turn.time)
        turn.state = evolve(turn.state, risk=risk)
        if turn.market is not None and turn.state.book is not None and not is_stale(turn.limits, turn.age_s):
            known = exposures(turn.state, self._desk.instruments, turn.market)
            turn.lost = frozenset(past_stop_loss(self._limits, known, average_costs(turn.state.book)))

    async def _trade(self, turn: Turn) -> None:
        """Cancel, decide, place; in a step that is taken up again, what an earlier attempt has placed may go as well."""
        await self._desk.cancel(turn)
        if turn.decision is None and not turn.stopping:
            await self._decide(turn)
        dropped = self._dropped(turn, turn.decision) if turn.decision and turn.resumed else {}
        if turn.decision is not None:
            turn.asked = turn.decision.asked
            await self._desk.place(turn, dropped)
            if turn.resumed:
                await self._desk.cancel(turn)
        if turn.asked and turn.market is not None and not turn.latched and not dropped:
            turn.state = evolve(turn.state, asked=turn.market.time)

    async def _decide(self, turn: Turn) -> None:
        """Decide what to place, and have that on record."""
        wanted = [*self._wanted(turn), *await self._asked(turn)]
        if not wanted:
            return
        screening = screen(
            wanted,
            risk=turn.state.risk,
            limits=turn.limits,
            exposures=exposures(turn.state, self._desk.instruments, turn.market),
            cash=free_cash(turn.state),
            time=turn.time,
            age_s=turn.age_s,
        )
        placed = tuple(self._desk.placed(index, one, turn) for index, one in enumerate(screening.allowed, 1))
        await self._desk.decide(turn, Decision(turn.market, turn.time, placed, screening.refused, turn.asked))

    def _wanted(self, turn: Turn) -> Sequence[Wanted]:
        """Return what the rules, or an operator's word, want sold."""
        known, closing = exposures(turn.state, self._desk.instruments, turn.market), turn.closing
        if closing is not None:
            # Between two slices only because of a message: what could not be sold at once waits for the next slice.
            return sale_of_all(known, closing, turn.state.risk.why) if turn.market or turn.commands else ()
        if turn.market is None or turn.state.book is None:
            return ()
        return stop_loss_orders(self._limits, known, average_costs(turn.state.book))

    async def _asked(self, turn: Turn) -> Sequence[Wanted]:
        """Return what the strategy wants; it is not asked where nothing of it would be allowed."""
        if turn.market is None or turn.state.risk.state is RiskState.HALTED or is_stale(turn.limits, turn.age_s):
            return ()
        known = exposures(turn.state, self._desk.instruments, turn.market)
        question = ask(turn.state, turn.market, self._strategy.indicators, known, previous=turn.before.asked)
        turn.asked = True
        answer = await self.run_agent(self._strategy.agent, question)
        return [Wanted(order) for order in orders_from(self._strategy.name, answer)]

    def _dropped(self, turn: Turn, decision: Decision) -> dict[str, str]:
        """Return which orders that an earlier attempt has decided on may not be placed any more, and why."""
        known = exposures(turn.state, self._desk.instruments, turn.market)
        dropped: dict[str, str] = {}
        for placed in decision.placed:
            wanted = Wanted(placed.order, placed.source)
            why = forbidden(
                wanted, turn.state.risk, turn.limits, known.get(placed.order.symbol), time=turn.time, age_s=turn.age_s
            )
            if turn.stopping or why:
                dropped[placed.client_id] = f"not begun by the attempt that decided it, and now {why or 'told to stop'}"
        return dropped
