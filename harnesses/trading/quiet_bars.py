"""Bars in which nothing happens: they pass one by one, and become one step.

A bar is quiet if only prices, indicators and what follows from them changed: nothing was ordered, filled, refused or told, no
price is unknown or unbelieved, no limit is near enough to act. Any other bar is left to an ordinary turn, and nothing of it is
kept here. Invariant: state, equity and questions at each bar are those of a step of its own, to the last digit.

    next slice ──► `Passage.look` ──Market──► strategy ──no wish──► `Passage.keep` ──► next slice
                        │ not quiet               │ a wish, or it looks at more than the market
                        └──────────► an ordinary turn ◄──┘
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from decimal import Decimal, localcontext
from typing import Any, NoReturn, TypeAlias

import trio
from attrs import define, evolve, field, frozen
from trio.lowlevel import checkpoint

from harnesses.agent import Agent, AgentRun
from harnesses.agent_services import AgentServices, enter_services, leave_services
from harnesses.budgets.usage import Usage
from harnesses.data.frozen_dict import FrozenDict
from harnesses.step import Constraints, StepYield
from harnesses.trading.account import average_costs, quote_of, take_bar, with_gap
from harnesses.trading.account_model import Price, QuietBar, TradingOutput, TradingState, equity_of
from harnesses.trading.indicators import Standing
from harnesses.trading.market.bars import MarketSlice, SliceRun
from harnesses.trading.market.buying_power import power
from harnesses.trading.market.instruments import EXACT, Instrument, Margin
from harnesses.trading.market.orders import ONE
from harnesses.trading.position_book import Book
from harnesses.trading.risk import Limits, Risk, assess
from harnesses.trading.strategies import Market, Strategy
from harnesses.trading.timeframes import Series, after_candle

MOST_ROWS = 1_024
"""Bars of single symbols after which a step is full, so that its record stays small however many symbols there are."""
_BREATH = 32
"""Bars after which other tasks may run."""
_LONGEST_S = 1.0
"""Seconds after which a step is full, so that a slow strategy loses little if the program is killed."""
_LISTS = (list, tuple)
NextSlice: TypeAlias = Callable[[datetime | None], MarketSlice | None]


class LooksFurther(Exception):
    """The strategy looks at more than the market, so it has to be asked in a step of the bar alone."""


class MarketGlance(AgentRun[Any, Market]):
    """The question about a bar that may be quiet: all but the market and the constraints raises `LooksFurther`."""

    def __init__(self, market: Market, constraints: Constraints) -> None:
        # Not by attrs, which takes three times as long: this is made for every bar.
        vars(self).update(input=market, constraints=constraints)

    def __getattr__(self, name: str) -> NoReturn:
        # Reached only for what was left out above: the context, and the number and history of steps.
        raise LooksFurther(name)

    def log(self, line: str) -> NoReturn:
        raise LooksFurther

    def charge(self, usage: Usage, *, thread: str = "") -> NoReturn:
        raise LooksFurther

    def recall(self, usage: Usage) -> NoReturn:
        raise LooksFurther

    def _services(self) -> AgentServices:
        raise LooksFurther

    def about(self, market: Market) -> MarketGlance:
        """Return the question about another market."""
        return MarketGlance(market, self.constraints)


class _NoServices(AgentServices):
    """The services of agents that the strategy asks: it looks further."""

    @property
    def is_taken(self) -> bool:  # type: ignore[override]
        raise LooksFurther


def is_plain(agent: Agent[Any, Any, Any]) -> bool:
    """Return whether an agent is only a function, which `answer` calls."""
    return type(agent) is Agent


@define
class Passage:
    """The quiet bars since the last step.

    Args:
        before: the state after the last step; without open orders or worries.
        instruments: by symbol, in the order in which a strategy sees their quotes.
    """

    before: TradingState
    strategy: Strategy
    limits: Limits
    instruments: Mapping[str, Instrument]
    slices: list[MarketSlice] = field(factory=list[MarketSlice], init=False)
    """Those that have passed."""
    bars: list[QuietBar] = field(factory=list[QuietBar], init=False)
    rows: int = field(default=0, init=False)
    """Bars of single symbols that have passed."""
    time: datetime | None = field(init=False)
    """Of the last slice."""
    _book: Book = field(init=False)
    _risk: Risk = field(init=False)
    _prices: dict[str, Price] = field(init=False)
    _standings: dict[str, Mapping[str, Standing]] = field(init=False)
    _series: dict[str, Series] = field(init=False)
    _gaps_s: tuple[float, ...] = field(init=False)
    _stops: Mapping[str, Decimal] = field(init=False)
    """By symbol, the price below which its stop-loss acts."""
    _asked: datetime | None = field(init=False)
    _margin: Margin | None = field(init=False)
    _next: tuple[Any, ...] = field(default=(), init=False)
    """What `keep` takes over: the prices, standings, series and risk at the slice that was looked at last."""

    def __attrs_post_init__(self) -> None:
        state = self.before
        assert state.book is not None, "the books are open"
        self.time, self._asked, self._book, self._risk = state.time, state.asked, state.book, state.risk
        self._prices, self._standings, self._series = dict(state.prices), dict(state.standings), dict(state.series)
        self._gaps_s = state.gaps_s
        self._margin = next((one.margin for one in self.instruments.values()), None)
        kept = ONE - self.limits.stop_loss
        self._stops = {symbol: cost * kept for symbol, cost in average_costs(state.book).items()} if kept else {}

    def look(self, market: MarketSlice) -> Market | None:
        """Return what the strategy is asked about a slice; None if the slice is not quiet."""
        indicators, prices, standings = self.strategy.indicators, self._prices.copy(), self._standings.copy()
        series, frames = self._series, self.strategy.timeframes
        sees_bars = bool(self.strategy.bars or frames)
        if sees_bars:
            series = series.copy()
        for symbol, bar in market.bars.items():
            before = prices.get(symbol)
            if before is None or bar.split != ONE:
                return None
            price, after = take_bar(before, standings.get(symbol, {}), bar, indicators, self.limits.max_jump)
            if after is None or price.mark < self._stops.get(symbol, price.mark):
                return None
            prices[symbol], standings[symbol] = price, after
            if sees_bars:
                known = series.get(symbol) or Series()
                series[symbol] = after_candle(known, market.time, bar, self.strategy.bars, frames)
        equity = equity_of(self._book, prices)
        risk = assess(self._risk, self.limits, equity=equity, time=market.time)
        if risk.worries is not self._risk.worries:
            return None
        self._next = prices, standings, series, risk
        return Market(
            market.time,
            self._quotes(market, standings, series),
            self._book.cash,
            equity,
            self._asked,
            (),
            self._book.positions,
            None if self._margin is None else self._power(self._margin, prices),
        )

    def _power(self, margin: Margin, prices: Mapping[str, Price]) -> Decimal:
        held = {symbol: one.units for symbol, one in self._book.positions.items() if one.units}
        with localcontext(EXACT):
            return power(margin, self._book.cash, held, {symbol: prices[symbol].mark for symbol in held if symbol in prices})

    def _quotes(self, market: MarketSlice, standings: Mapping[str, Any], series: Mapping[str, Series]) -> dict[str, Any]:
        book, bars, strategy = self._book, market.bars, self.strategy
        return {
            symbol: quote_of(strategy, instrument.lot, bars[symbol], book.units(symbol), standings[symbol], series.get(symbol))
            for symbol, instrument in self.instruments.items()
            if symbol in bars
        }

    def keep(self, market: MarketSlice) -> None:
        """Let the slice pass that was looked at last."""
        self._prices, self._standings, self._series, self._risk = self._next
        self._gaps_s = with_gap(self._gaps_s, self.time, market.time)
        self.time = self._asked = market.time
        self.slices.append(market)
        self.rows += len(market.bars)
        self.bars.append(QuietBar(market.time, self._risk.equity, self._risk.drawdown))

    def state(self) -> TradingState:
        """Return the state after the slices that have passed."""
        return evolve(
            self.before,
            risk=self._risk,
            time=self.time,
            prices=FrozenDict(self._prices),
            standings=FrozenDict({symbol: FrozenDict(one) for symbol, one in self._standings.items()}),
            asked=self._asked,
            gaps_s=self._gaps_s,
            series=FrozenDict(self._series),
        )

    def finish(self) -> StepYield[MarketSlice | None, TradingOutput]:
        """Return the step of the slices that have passed."""
        *earlier, last = self.slices
        *quiet, now = self.bars
        risk = self._risk
        output = TradingOutput(
            time=now.time,
            cash=self._book.cash,
            equity=now.equity,
            positions={symbol: one.units for symbol, one in self._book.positions.items() if one.units},
            drawdown=now.drawdown,
            risk=risk.state,
            why=risk.why,
            quiet=tuple(quiet),
        )
        return StepYield(SliceRun(last.time, last.bars, tuple(earlier)) if earlier else last, output)


@frozen
class Due:
    """The next slice needs a turn of its own."""

    answer: tuple[MarketSlice, Sequence[object]] | None = None
    """The slice and what the strategy has answered about it already."""
    looked_further: bool = False
    """Whether the strategy looked at more than the market."""

    def answered(self, market: MarketSlice | None) -> Sequence[Any] | None:
        """Return what the strategy has answered already about a slice; None if it has to be asked."""
        known = self.answer
        return known[1] if known is not None and market is not None and known[0].time == market.time else None


async def advance(passage: Passage, next_slice: NextSlice, constraints: Constraints, most: int) -> Due | None:
    """Let quiet bars pass until there is no slice left, the step is full, or a slice is not quiet: then return that it is due.

    A cancellation leaves a passage that must not be recorded.

    Args:
        most: slices that a step may have.
    """
    began, token = trio.current_time(), enter_services(object.__new__(_NoServices))
    try:
        return await _advance(passage, next_slice, constraints, most, began + _LONGEST_S)
    finally:
        leave_services(token)


async def _advance(passage: Passage, next_slice: NextSlice, constraints: Constraints, most: int, until: float) -> Due | None:
    answer_to = passage.strategy.agent.answer
    while len(passage.slices) < most and passage.rows < MOST_ROWS:
        market = next_slice(passage.time)
        if market is None:
            return None
        question = passage.look(market)
        if question is None:
            return Due()
        try:
            answer = await answer_to(MarketGlance(question, constraints))
        except Exception as error:
            return Due(looked_further=isinstance(error, LooksFurther))
        if answer.__class__ not in _LISTS:
            return Due()
        if answer:
            return Due((market, answer))
        passage.keep(market)
        if len(passage.slices) % _BREATH == 0:
            await checkpoint()
            if trio.current_time() > until:
                return None
    return None
