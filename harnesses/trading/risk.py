"""Risk states: whether the account may trade, may only reduce positions, or is halted. No I/O; time is an argument.

Invariants: only a person's command ends a halt; no restart forgets a loss, because the high-water mark is part of the state.
`order_screening` decides what this means for each order.

Each concern has its own state, start and end. The overall state is that of the most severe concern:

    concern           state      starts when                                               ends with
    drawdown          halted     equity below its high-water mark by more than the limit   reset
    flattened         halted     flatten                                                   reset
    stop-losses       reducing¹  their number in the window reaches the limit              fewer in the window, or reset
    daily loss        reducing   equity below that of the day before by more than allowed  the next day (UTC)
    entries stopped   reducing   stop entries                                              resume entries
    stale data        reducing   nothing new from the feed for longer than the limit       the next fresh slice

    ¹ or halted, if the limits say so; then only a reset ends it

The resulting transitions, from a state and an event to the next state:

                drawdown  flatten  stop-losses²  daily loss  stop entries  stale     next day  resume  fresh   reset
    active      halted    halted   reducing      reducing    reducing      reducing  active    active  active  active
    reducing    halted    halted   reducing      reducing    reducing      reducing  *         *       *       *
    halted      halted    halted   halted        halted      halted        halted    halted    halted  halted  *

    ² too many of them          * active, unless another concern remains
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal, InvalidOperation
from enum import StrEnum
from typing import Any

from attrs import evolve, field, frozen

from harnesses.data.frozen_dict import freeze
from harnesses.errors import HarnessMisuse
from harnesses.trading.market.orders import ONE, ZERO, make_exact


class RiskState(StrEnum):
    """What may be traded."""

    ACTIVE = "active"
    """Everything within the limits."""
    REDUCING = "reducing"
    """Only orders that reduce a position."""
    HALTED = "halted"
    """Nothing from a strategy."""


_GRAVITY = tuple(RiskState)


class Concern(StrEnum):
    """A reason for restricting trading."""

    DRAWDOWN = "drawdown"
    FLATTENED = "flattened"
    STOP_LOSSES = "stop-losses"
    DAILY_LOSS = "daily loss"
    ENTRIES_STOPPED = "entries stopped"
    STALE = "stale data"


_STATES = {
    Concern.DRAWDOWN: RiskState.HALTED,
    Concern.FLATTENED: RiskState.HALTED,
    Concern.STOP_LOSSES: RiskState.REDUCING,
    Concern.DAILY_LOSS: RiskState.REDUCING,
    Concern.ENTRIES_STOPPED: RiskState.REDUCING,
    Concern.STALE: RiskState.REDUCING,
}


_GRACE_S = 60.0
"""Seconds by which a live feed may be late. A bar labelled with its start is two bars old when the next one is due."""
_PARTS = ("max_drawdown", "max_daily_loss", "max_position", "max_jump", "stop_loss")
_SECONDS = ("max_age_s", "cooldown_s", "stop_loss_window_s")


@frozen
class Limits:
    """Limits that no strategy can exceed. Fractions are above 0 and at most 1; 1 means no limit."""

    max_drawdown: Decimal = ONE
    """Maximum loss from the highest equity, as a fraction."""
    max_daily_loss: Decimal = ONE
    """Maximum loss in a day (UTC), as a fraction of the equity at the end of the day before."""
    max_position: Decimal = ONE
    """Maximum fraction of the equity that a purchase may bring a position in one symbol to."""
    cash_margin: Decimal = ZERO
    """Fraction of its price that a purchase must leave in cash, to cover fees and slippage."""
    max_jump: Decimal = Decimal("0.4")
    """Maximum change between two closes, as a fraction; a larger one is not believed until the next close confirms it."""
    max_age_s: float | None = None
    """Maximum age of the newest slice for trading on it, in seconds since its time. None depends on the feed: two bars and a
    minute for a live feed, no limit for a recording. Set it if a live market closes for longer than two bars. It also holds
    back orders that were decided before a crash and would be placed too late."""
    cooldown_s: float = 0.0
    """Seconds during which a symbol is not bought again after a sale at a loss."""
    stop_loss: Decimal = ONE
    """Maximum loss of a position as a fraction of its cost, before it is sold."""
    max_stop_losses: int | None = None
    """Number of stop-losses in the window at which trading is restricted; None for no guard."""
    stop_loss_window_s: float = 86_400.0
    stop_loss_state: RiskState = RiskState.REDUCING
    """State after too many stop-losses: reducing until there are fewer in the window, or halted until a reset."""

    def __attrs_post_init__(self) -> None:
        make_exact(self, *_PARTS, "cash_margin")
        for name in _PARTS:
            part: Decimal = getattr(self, name)
            if not (part.is_finite() and 0 < part <= 1):
                raise HarnessMisuse(f"limit {name!r}: expected a part above 0 and at most 1, such as 0.2, was {part}")
        if not (self.cash_margin.is_finite() and self.cash_margin >= 0):
            raise HarnessMisuse(f"limit 'cash_margin': expected a part from 0 up, such as 0.002, was {self.cash_margin}")
        for name in _SECONDS:
            seconds: float | None = getattr(self, name)
            if seconds is not None and not seconds >= 0:
                raise HarnessMisuse(f"limit {name!r}: expected seconds from 0 up, was {seconds!r}")
        if self.max_stop_losses is not None and self.max_stop_losses < 1:
            raise HarnessMisuse(f"limit 'max_stop_losses': expected 1 or more, was {self.max_stop_losses!r}")
        if self.stop_loss_state is RiskState.ACTIVE:
            raise HarnessMisuse(
                "limit 'stop_loss_state': expected reducing or halted, was active; for no guard leave out max_stop_losses"
            )


@frozen
class Worry:
    """A current concern."""

    concern: Concern
    state: RiskState
    """The risk state it requires."""
    why: str
    since: datetime


@frozen
class Risk:
    """The account's position relative to its limits. Part of the harness's state, so that no restart forgets a loss."""

    high_water: Decimal
    """Highest equity since the start, or since the last reset."""
    equity: Decimal
    """Equity at the last assessment."""
    day: date | None = None
    day_start_equity: Decimal = ZERO
    """Equity at the end of the day before `day`."""
    state: RiskState = RiskState.ACTIVE
    why: str = ""
    """Reason of the most severe concern; empty while active."""
    since: datetime | None = None
    """When the current state began; None if it has never changed."""
    worries: tuple[Worry, ...] = ()
    """At most one for each concern, oldest first."""
    cooldowns: Mapping[str, datetime] = field(factory=dict[str, datetime])
    """By symbol, the time until which it is not bought."""
    stop_losses: tuple[datetime, ...] = ()
    """Times of the stop-losses in the window, oldest first; no more than the guard needs."""

    def __attrs_post_init__(self) -> None:
        freeze(self, "cooldowns")

    def has(self, concern: Concern) -> bool:
        """Return whether a concern is current."""
        return any(worry.concern is concern for worry in self.worries)

    @property
    def drawdown(self) -> Decimal:
        """Current loss from the highest equity, as a fraction."""
        return ONE - self.equity / self.high_water if self.high_water > 0 else ZERO


def assess(risk: Risk, limits: Limits, *, equity: Decimal, time: datetime) -> Risk:
    """Return the risk at the prices of a slice.

    Args:
        time: of the slice; not before the last.
    """
    today = time.date()
    if risk.day != today:
        risk = evolve(_without(risk, time, Concern.DAILY_LOSS), day=today, day_start_equity=risk.equity)
    if equity is not risk.equity or equity > risk.high_water:
        risk = evolve(risk, equity=equity, high_water=max(risk.high_water, equity))
    if risk.cooldowns:
        risk = evolve(risk, cooldowns={symbol: until for symbol, until in risk.cooldowns.items() if until > time})
    risk = _guard(risk, limits, time)
    if equity < risk.high_water * (ONE - limits.max_drawdown):
        why = f"equity {equity:.2f} is {risk.drawdown:.1%} below its highest, {risk.high_water:.2f}"
        risk = _with(risk, time, Concern.DRAWDOWN, why)
    if equity < risk.day_start_equity * (ONE - limits.max_daily_loss):
        why = f"equity {equity:.2f} is below the {risk.day_start_equity:.2f} of the day before by more than allowed"
        risk = _with(risk, time, Concern.DAILY_LOSS, why)
    return risk


def watch(risk: Risk, limits: Limits, *, age_s: float, time: datetime) -> Risk:
    """Return the risk when the newest data are `age_s` seconds old at `time`, by the feed's clock."""
    if not is_stale(limits, age_s):
        return _without(risk, time, Concern.STALE)
    return _with(risk, time, Concern.STALE, f"nothing new from the feed for more than {limits.max_age_s:g} s")


def after_loss(risk: Risk, limits: Limits, symbol: str, time: datetime) -> Risk:
    """Return the risk after a sale of a symbol at a loss."""
    if not limits.cooldown_s:
        return risk
    return evolve(risk, cooldowns={**risk.cooldowns, symbol: time + timedelta(seconds=limits.cooldown_s)})


def after_stop_loss(risk: Risk, limits: Limits, symbol: str, time: datetime) -> Risk:
    """Return the risk after a stop-loss."""
    risk = after_loss(risk, limits, symbol, time)
    if limits.max_stop_losses is None:
        return risk
    return _guard(evolve(risk, stop_losses=(*risk.stop_losses, time)[-limits.max_stop_losses :]), limits, time)


def stop_entries(risk: Risk, why: str, time: datetime) -> Risk:
    """Return the risk after an operator's `stop entries`."""
    return _with(risk, time, Concern.ENTRIES_STOPPED, why)


def resume_entries(risk: Risk, time: datetime) -> Risk:
    """Return the risk after an operator's `resume entries`. A halt remains."""
    return _without(risk, time, Concern.ENTRIES_STOPPED)


def flatten(risk: Risk, why: str, time: datetime) -> Risk:
    """Return the risk after an operator's `flatten`."""
    return _with(risk, time, Concern.FLATTENED, why)


def reset(risk: Risk, time: datetime) -> Risk:
    """Return the risk after an operator's `reset`: halts end, and the high-water mark becomes the current equity."""
    risk = evolve(risk, high_water=risk.equity, stop_losses=())
    return _without(risk, time, Concern.DRAWDOWN, Concern.FLATTENED, Concern.STOP_LOSSES)


def limits_for(limits: Limits, *, live: bool, bar_s: float | None, gaps_s: Sequence[float], period_s: float) -> Limits:
    """Return the limits with a maximum age derived from the feed, if they leave it open.

    Args:
        bar_s: length of a bar in seconds, if the feed says so.
        gaps_s: seconds between the last slices. The shortest is used as the length of a bar, because a market may pause.
        period_s: seconds between two polls, used as the length of a bar before there are two slices.
    """
    if limits.max_age_s is not None or not live:
        return limits
    return evolve(limits, max_age_s=2 * (bar_s or min(gaps_s, default=period_s)) + _GRACE_S)


def is_stale(limits: Limits, age_s: float) -> bool:
    """Return whether data of that age are too old to trade on."""
    return limits.max_age_s is not None and age_s > limits.max_age_s


def limits_from(constraints: Mapping[str, object], limits: Limits | None = None) -> Limits:
    """Return `limits` with the values in `constraints` replaced; numbers may be strings.

    Raises:
        HarnessMisuse: a value is not a valid limit.
    """
    limits = limits or Limits()
    named: dict[str, Any] = {name: _decimal(constraints[name]) for name in (*_PARTS, "cash_margin") if name in constraints}
    named |= {name: float(_decimal(constraints[name])) for name in _SECONDS if constraints.get(name) is not None}
    if constraints.get("max_stop_losses") is not None:
        named["max_stop_losses"] = int(_decimal(constraints["max_stop_losses"]).to_integral_value())
    if "stop_loss_state" in constraints:
        named["stop_loss_state"] = _risk_state(str(constraints["stop_loss_state"]))
    return evolve(limits, **named)


def _decimal(value: object) -> Decimal:
    try:
        return Decimal(str(value))
    except InvalidOperation:
        return Decimal("NaN")


def _risk_state(text: str) -> RiskState:
    try:
        return RiskState(text)
    except ValueError:
        raise HarnessMisuse(f"limit 'stop_loss_state': expected reducing or halted, was {text!r:.80}") from None


def _guard(risk: Risk, limits: Limits, time: datetime) -> Risk:
    """Return the risk with the stop-losses in the window counted, and the guard applied."""
    window = timedelta(seconds=limits.stop_loss_window_s)
    recent = tuple(one for one in risk.stop_losses if time - one <= window)
    if recent != risk.stop_losses:
        risk = evolve(risk, stop_losses=recent)
    if limits.max_stop_losses is not None and len(recent) >= limits.max_stop_losses:
        why = f"{len(recent)} stop-losses within {limits.stop_loss_window_s:g} s"
        return _with(risk, time, Concern.STOP_LOSSES, why, limits.stop_loss_state)
    if limits.stop_loss_state is RiskState.REDUCING:
        return _without(risk, time, Concern.STOP_LOSSES)
    return risk


def _with(risk: Risk, time: datetime, concern: Concern, why: str, state: RiskState | None = None) -> Risk:
    """Return the risk with a concern added; an existing concern is unchanged."""
    if risk.has(concern):
        return risk
    return _judged(risk, (*risk.worries, Worry(concern, state or _STATES[concern], why, time)), time)


def _without(risk: Risk, time: datetime, *concerns: Concern) -> Risk:
    if not risk.worries or not any(worry.concern in concerns for worry in risk.worries):
        return risk
    return _judged(risk, tuple(worry for worry in risk.worries if worry.concern not in concerns), time)


def _judged(risk: Risk, worries: tuple[Worry, ...], time: datetime) -> Risk:
    """Return the risk with these worries; its state is that of the most severe, the oldest one if several are equal."""
    gravest = max(worries, key=lambda worry: _GRAVITY.index(worry.state), default=None)
    state = gravest.state if gravest else RiskState.ACTIVE
    why = f"{gravest.concern}: {gravest.why}" if gravest else ""
    return evolve(risk, worries=worries, state=state, why=why, since=risk.since if state is risk.state else time)
