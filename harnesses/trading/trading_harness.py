"""`TradingHarness`: polls a feed, asks a strategy, trades within limits. Backtest, paper and live trading share this code.

    feed ──slice──►  account  ──►  risk  ──►  strategy  ──orders──►  screening  ──►  `once`  ──►  broker ──► venue
                        ▲                                                                            │
                        └───────────────────────── fills, reports ───────────────────────────────────┘

Invariants:

    * nothing is traded before the book and the venue's account are exactly equal
    * the orders of a step are decided once: the decision is recorded before the first order is sent, and an attempt that
      repeats the step continues with it, dropping orders that were not begun and are no longer allowed
    * every order is an effect, under a client id derived from harness, step, key and the account's salt: none is placed twice
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from decimal import Decimal
from shlex import quote
from uuid import uuid4

import trio
from attrs import evolve

from harnesses.base import BaseHarness
from harnesses.errors import Stopping, Waiting
from harnesses.step import Constraints, StepYield
from harnesses.trading.account import (
    ask,
    average_costs,
    buying_power,
    free_cash,
    replacements,
    take_bars,
    take_slice,
    with_splits,
)
from harnesses.trading.account_model import Command, Decision, TradingOutput, TradingState, figures, moment
from harnesses.trading.market.bars import MarketSlice
from harnesses.trading.market.broker import Broker, BrokerUnavailable
from harnesses.trading.market.feed import Feed, FeedPoller, Reach
from harnesses.trading.market.orders import ONE, Cancel, Order, OrderReport, Replace
from harnesses.trading.market_turn import Turn, Verb, command_from, obey
from harnesses.trading.order_desk import TRIES, Desk, has_decided
from harnesses.trading.order_screening import Wanted, forbidden, past_stop_loss, sale_of_all, screen, stop_loss_orders
from harnesses.trading.paper.paper_broker import PaperBroker
from harnesses.trading.position_book import Book
from harnesses.trading.quiet_bars import Due, Passage, advance, is_plain
from harnesses.trading.risk import Limits, RiskState, assess, is_stale, limits_for, limits_from, watch
from harnesses.trading.strategies import Strategy, StrategyAgent, rsi_strategy
from harnesses.trading.trading_checks import check_count, check_lots, check_margin, check_parts, check_seconds, wishes_from

_ASKED_S = 1.0
"""Seconds between two polls of a feed that has nothing, when there is no period."""


class BooksDiffer(Waiting):
    """The venue's account differs from the harness's book. A person must find out why, and may adopt the venue's account."""


class TradingHarness(BaseHarness[TradingState, MarketSlice | None, TradingOutput]):
    """Trades the symbols of a feed through a broker; one step for each slice, and for events between two slices.

    It is complete when the feed ends, never with an endless feed. The first step opens the books. A halt or the kill switch
    does not end it: it continues to record the market. While the risk is not active, open purchases are cancelled. Operators
    control it by messages; see `market_turn`.

    Args:
        feed: asked for the slice after `state.time`, so that a resumed harness continues with the next one.
        broker: the default trades on paper, in memory. A harness that is to be resumed needs a broker with a file.
        strategy: the default uses the relative strength index.
        cash: initial cash of the default broker.
        limits: limits that no strategy can exceed. Values in `constraints` override these.
        period_s: seconds between two polls. All slices that have arrived in between are processed at the next poll. With 0,
            for backtests, each slice of a recording is taken as soon as the one before is recorded.
        patience_s: seconds for which the venue or the feed may be out of reach, once started, before the harness fails.
        bars_per_step: maximum number of bars in a step in which nothing happened but prices, in a backtest with `period_s=0`;
            see `quiet_bars`. With 1 each bar has its own step, as it always has in live trading, at a venue with a file, and
            under budgets and guardrails.
        constraints: passed to the strategy's agent.
        initial_state: a state to continue from, instead of a new account.
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
        bars_per_step: int = 256,
        max_context_steps: int = 10,
        constraints: Constraints | None = None,
        initial_state: TradingState | None = None,
    ) -> None:
        check_parts(feed, broker, strategy, limits)
        check_seconds(period_s, patience_s)
        check_count("bars_per_step", bars_per_step)
        super().__init__(initial_state or TradingState(), max_context_steps=max_context_steps, constraints=constraints)
        self._limits = limits_from(self.constraints, limits)
        self._feed = feed
        self._strategy = strategy or rsi_strategy()
        self._sees_bars = bool(self._strategy.bars or self._strategy.timeframes)
        self._period_s = period_s
        self._now_period_s = period_s or _ASKED_S
        self._desk = Desk(self, broker or PaperBroker(cash), tuple(feed.symbols), self._limits)
        if isinstance(broker, PaperBroker | None):  # of others it is known once they are connected
            check_margin(self._strategy, None if broker is None else broker.rules.margin, self._desk.broker.name)
        self._inbox: list[Command] = []
        self._bars_per_step = bars_per_step
        self._may_pass = False
        """Whether bars may pass quietly in this attempt."""
        self._due: Due | None = None
        """Set if the next slice needs a turn of its own."""
        self._foreign: tuple[OrderReport, ...] = ()
        self._poller = FeedPoller(feed, self._now_period_s, patience_s)
        if not self._poller.is_live:
            # A backtest that is cut off is made again from its last stored step, and comes to the same.
            self.preferred_durability = "group"
        self._reach = Reach("the venue", patience_s)

    figures = staticmethod(figures)
    """Figures for an external governor, in addition to the harness's own limits."""
    moment = staticmethod(moment)

    @property
    def symbols(self) -> Sequence[str]:
        """The traded symbols."""
        return self._feed.symbols

    def is_complete(self) -> bool:
        state = self.state
        return state.book is not None and self._feed.is_at_end(state.time) and not self._has_decided()

    def _has_decided(self) -> bool:
        """Return whether an earlier attempt at the step in progress may have placed orders: then the step is made first."""
        return self._runtime is not None and has_decided(self._runtime.effects.known())

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
        self._reach.begin()
        self._poller.begin()
        ticks = self.every(self._period_s or _ASKED_S)
        with self._poller.listen():
            while True:
                await self._poller.next_tick(ticks)
                self._now_period_s = self._poller.period_s = ticks.period_s
                found = await self._reaching()
                for line in (*self._poller.take_lines(), *self._reach.take_lines()):
                    self.log(line)
                if found is None and self.is_complete():
                    return
                while found is not None:
                    turn, made = found
                    yield made
                    self._end(turn)
                    while self._takes_more(turn) and (passed := await self._pass_quietly()) is not None:
                        yield passed
                    found = await self._reaching(more=True) if turn.is_behind or self._takes_more(turn) else None

    @property
    def halted(self) -> str:
        """Why the strategy's orders are refused; empty while trading is allowed."""
        risk = self.state.risk
        return (risk.why or "halted") if risk.state is RiskState.HALTED else ""

    @property
    def gauges(self) -> Mapping[str, float]:
        """Numbers for dashboards: money in the currency of the account, the drawdown as a fraction."""
        state = self.state
        if state.book is None:
            return {}
        return {
            "equity": float(state.equity),
            "cash": float(state.cash),
            "drawdown": float(state.risk.drawdown),
            "realised": float(state.book.realised),
            "fees": float(state.book.fees),
            "turnover": float(state.book.turnover),
            "open_orders": float(len(state.open)),
        }

    def _takes_more(self, turn: Turn) -> bool:
        """Return whether the slice after that of a turn is taken at once, because there is no period."""
        return turn.market is not None and not self._period_s and self._now_period_s == _ASKED_S

    # at the start of each attempt

    async def _start(self) -> None:
        """Prepare to trade; return when the book equals the venue's account, or is about to be opened or adopted from it.

        Raises:
            BooksDiffer: they differ.
            BrokerUnavailable: the venue cannot be asked.
        """
        self._inbox.clear()
        self._due, self._may_pass = None, self._can_pass()
        if unknown := ", ".join(await self._desk.connect(self._feed)):
            self.log(f"{unknown}: traded in lots of 1: the feed does not say the lot; give the venue instruments")
        check_margin(self._strategy, self._desk.margin, self._desk.broker.name)
        for line in self._desk.lacks:
            self.log(line)
        decision = await self._desk.taken_up()
        self._read_messages()
        book, adopting = self.state.book, any(command.do == Verb.ADOPT for command in self._inbox)
        if not adopting and (book is not None or self._desk.is_shared):
            await self._check(book, decision)
        decided = decision.placed if decision else ()
        known = {*self.state.open, *(id for placed in decided for id in (placed.client_id, placed.exit_id))}
        self._foreign = await self._desk.foreign(known)

    async def _check(self, book: Book | None, decision: Decision | None) -> None:
        """Compare the book, if it is open, with the venue's account; compare again if fills arrive meanwhile."""
        found: tuple[str, ...] = ()
        for passed_s in range(TRIES):
            # A fill may be in the account before it is reported as a fill.
            await self.sleep(passed_s)
            found = await self._desk.differences(book)
            if not found:
                return
            # The venue may already have seen the next slice, and a split in it.
            market = decision.market if decision else await self._feed.next_slice(self.state.time)
            split = with_splits(book, market) if book else None
            if split is not book and not await self._desk.differences(split):
                return
        raise BooksDiffer(
            f"to continue with the venue's account: `orchestrator trading adopt {quote(self.name)}`, then start again; first "
            f"find out why harness {self.name!r} and the account at {self._desk.broker.name} differ: {'; '.join(found)}"
        )

    def _read_messages(self) -> None:
        while True:
            try:
                self._inbox.append(command_from(self.receive_nowait()))
            except trio.WouldBlock:
                return

    # quiet bars

    def _can_pass(self) -> bool:
        """Return whether nobody needs a step of each bar."""
        runtime = self._runtime
        is_watched = runtime is not None and (runtime.governor or runtime.meter or runtime.till) is not None
        is_recording = self._poller.is_instant and not self._poller.is_live and not self._period_s
        unlimited = self._limits.max_age_s is None and not is_watched
        return self._bars_per_step > 1 and is_recording and unlimited and is_plain(self._strategy.agent)

    async def _pass_quietly(self) -> StepYield[MarketSlice | None, TradingOutput] | None:
        """Let bars pass in which nothing happens, and return their step; None if the next slice needs a turn of its own."""
        state, control = self.state, None if self._runtime is None else self._runtime.control
        if not self._may_pass or self._due is not None or (control is not None and (control.timed or control.held)):
            return None
        self._read_messages()
        book = state.book
        if self._inbox or book is None or state.open or state.risk.worries or state.time is None or self._foreign:
            return None
        if not self._desk.pass_quietly(book):
            return None
        passage = Passage(state, self._strategy, self._limits, self._desk.instruments)
        self._due = await advance(passage, self._poller.slice_after, self.constraints, self._bars_per_step)
        if self._due is not None and self._due.looked_further:
            self._may_pass = False
        if not passage.slices:
            return None
        if not self._desk.pass_quietly(book, passage.slices):
            # Somebody else trades at the venue: each bar is observed before the next one from now on.
            self._may_pass, self._due = False, None
            return None
        self.update_state(lambda _: passage.state())
        return passage.finish()

    # a turn

    async def _reaching(self, *, more: bool = False) -> tuple[Turn, StepYield[MarketSlice | None, TradingOutput]] | None:
        """Return a turn and its step; None if there is nothing to record, or the venue is out of reach for now.

        Args:
            more: whether this poll has given a slice already: then a turn needs another slice or a command of an operator.
        """
        try:
            turn = await self._begin()
            made = None if more and turn.market is None and not turn.commands else await self._step(turn)
        except BrokerUnavailable as error:
            if self._reach.is_lost(error):
                raise
            return None
        self._reach.note_answer()
        return None if made is None else (turn, made)

    def _end(self, turn: Turn) -> None:
        """Adopt the turn's results after its step and messages are recorded."""
        self._inbox.clear()
        if turn.stopping:
            raise Stopping

    async def _begin(self) -> Turn:
        """Return a turn with the new messages and slice; if an earlier attempt has decided already, with its decision."""
        self._read_messages()
        state = self.state
        decision = await self._desk.taken_up() if self.effects else None
        market = decision.market if decision else await self._next_slice(state)
        if decision is not None or not self._poller.is_instant:
            self._read_messages()
        if decision is None and self._is_stopping():
            market = None
        due, self._due = self._due, None
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
            answered=due.answered(market) if due is not None else None,
            foreign=self._foreign,
        )

    async def _next_slice(self, state: TradingState) -> MarketSlice | None:
        """Return the next slice; None before the books are open, and after a stop command, so that the next start gets it."""
        if state.book is None or self._is_stopping():
            return None
        return await self._poller.next_slice(state.time)

    def _is_stopping(self) -> bool:
        return any(command.do == Verb.STOP for command in self._inbox)

    async def _step(self, turn: Turn) -> StepYield[MarketSlice | None, TradingOutput] | None:
        await self._look(turn)
        if turn.market is not None and self.state.time is None:
            check_lots(turn.exposures(self._desk.instruments).values(), turn.equity)
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
        """Update the turn from the market and the venue."""
        if turn.market is not None:
            await self._desk.observe(turn.market)
            self._desk.take_financing(turn)
            if any(bar.split != ONE for bar in turn.market.bars.values()):
                # Fills from before the split that are reported only now are in units from before the split.
                await self._desk.take_fills(turn, until_decision=turn.resumed, before=turn.market.time)
            turn.state = take_slice(turn.state, turn.market, self._strategy.indicators, self._limits)
            if self._sees_bars:
                turn.state = take_bars(turn.state, turn.market, self._strategy)
        if turn.opens or any(command.do == Verb.ADOPT for command in turn.commands):
            await self._desk.adopt(turn)
        if self.current_step == 0:
            # A recording has its own clock, so that a backtest is exactly reproducible.
            await self._desk.salt(turn, uuid4() if self._poller.is_live else "")
        await self._desk.refresh(turn)
        await self._desk.take_fills(turn, until_decision=turn.resumed)

    def _judge(self, turn: Turn) -> None:
        """Assess the risk, then carry out the operators' commands."""
        risk, state = turn.state.risk, turn.state
        live, bar_s = self._poller.is_live, self._poller.bar_s
        turn.limits = limits_for(self._limits, live=live, bar_s=bar_s, gaps_s=state.gaps_s, period_s=self._now_period_s)
        if turn.market is not None:
            risk = assess(risk, self._limits, equity=turn.equity, time=turn.time)
        risk = watch(risk, turn.limits, age_s=turn.age_s, time=turn.time)
        for index, command in enumerate(turn.commands):
            if not command.refused:
                risk, turn.commands[index] = obey(risk, command, turn.time)
        if risk is not state.risk:
            turn.state = evolve(turn.state, risk=risk)
        if turn.market is None or turn.state.book is None or self._limits.stop_loss == ONE:
            return
        if not is_stale(turn.limits, turn.age_s):
            known = turn.exposures(self._desk.instruments)
            turn.lost = frozenset(past_stop_loss(self._limits, known, average_costs(turn.state.book)))

    async def _trade(self, turn: Turn) -> None:
        """Cancel, decide and place orders; a repeated step may also cancel orders that an earlier attempt placed."""
        await self._desk.cancel(turn)
        if turn.decision is None and not turn.stopping:
            await self._decide(turn)
        dropped = self._dropped(turn, turn.decision) if turn.decision and turn.resumed else {}
        if turn.decision is not None:
            turn.asked = turn.decision.asked
            if turn.resumed and turn.decision.withdrawn:
                await self._desk.withdraw(turn, turn.decision.withdrawn)
            await self._desk.place(turn, dropped)
            if turn.resumed:
                await self._desk.cancel(turn)
        if turn.asked and turn.market is not None and not turn.latched and not dropped:
            turn.state = evolve(turn.state, asked=turn.market.time)

    async def _decide(self, turn: Turn) -> None:
        """Decide which orders to place, and record the decision."""
        wanted = [*self._wanted(turn), *await self._asked(turn)]
        if not wanted:
            return
        screening = screen(
            wanted,
            risk=turn.state.risk,
            limits=turn.limits,
            exposures=turn.exposures(self._desk.instruments),
            cash=free_cash(turn.state),
            power=buying_power(turn.state, self._desk.instruments),
            time=turn.time,
            age_s=turn.age_s,
        )
        placed = tuple(self._desk.placed(index, one, turn) for index, one in enumerate(screening.allowed, 1))
        await self._desk.decide(
            turn, Decision(turn.market, turn.time, placed, screening.refused, turn.asked, tuple(turn.withdrawn))
        )

    def _wanted(self, turn: Turn) -> Sequence[Wanted]:
        """Return the sales that the rules or an operator want."""
        instruments, closing = self._desk.instruments, turn.closing
        if closing is not None:
            # Reached between two slices only after a message: what could not be sold at once waits for the next slice.
            can_sell = turn.market or turn.commands
            return sale_of_all(turn.exposures(instruments), closing, turn.state.risk.why) if can_sell else ()
        if turn.market is None or turn.state.book is None or self._limits.stop_loss == ONE:
            return ()
        return stop_loss_orders(self._limits, turn.exposures(instruments), average_costs(turn.state.book))

    async def _asked(self, turn: Turn) -> Sequence[Wanted]:
        """Return the strategy's orders; the strategy is not asked when none would be allowed."""
        if turn.market is None or turn.state.risk.state is RiskState.HALTED or is_stale(turn.limits, turn.age_s):
            return ()
        turn.asked = True
        if turn.answered is not None:
            answer = turn.answered
        else:
            question = ask(
                turn.state,
                turn.market,
                self._strategy,
                turn.exposures(self._desk.instruments),
                equity=turn.equity,
                previous=turn.before.asked,
                buying_power=buying_power(turn.state, self._desk.instruments),
            )
            answer = await self.run_agent(self._strategy.agent, question)
        wishes = wishes_from(self._strategy.name, answer)
        orders = [one for one in wishes if isinstance(one, Order)]
        changes = [one for one in wishes if not isinstance(one, Order)]
        return [Wanted(order) for order in (*orders, *(await self._changed(turn, changes) if changes else ()))]

    async def _changed(self, turn: Turn, changes: Sequence[Cancel | Replace]) -> Sequence[Order]:
        """Cancel the orders that the strategy changes; return those that it wants instead.

        The first wish for an order counts; later ones are recorded as refused.
        """
        seen, first = turn.state.open, dict[str, Cancel | Replace]()
        for one in changes:
            first.setdefault(one.client_id, one)
        cancels = [one if isinstance(one, Cancel) else Cancel(one.client_id, one.order.reason) for one in changes]
        await self._desk.withdraw(turn, cancels)
        done = {one.client_id: one.report for one in turn.cancelled if not one.refused}
        return replacements([one for one in first.values() if isinstance(one, Replace)], seen, done)

    def _dropped(self, turn: Turn, decision: Decision) -> dict[str, str]:
        """Return, by client id, the orders of an earlier attempt that may no longer be placed, each with the reason."""
        known = turn.exposures(self._desk.instruments)
        dropped: dict[str, str] = {}
        for placed in decision.placed:
            wanted = Wanted(placed.order, placed.source)
            why = forbidden(
                wanted, turn.state.risk, turn.limits, known.get(placed.order.symbol), time=turn.time, age_s=turn.age_s
            )
            if turn.stopping or why:
                dropped[placed.client_id] = f"not begun by the attempt that decided it, and now {why or 'told to stop'}"
        return dropped
