"""Risk: whether the account may trade, only reduce, or do nothing. Pure; time is an argument.

The laws: a halt ends by a person's word alone, and no restart forgets a loss, for the high-water mark is part of the state.
What follows from the state for each order is in `order_screening`.

Each concern has a state of its own, a beginning and an end. The state of the whole is that of the gravest concern:

    concern           state      begins                                                    ends
    drawdown          halted     equity below its high-water mark by more than the limit   reset
    flattened         halted     flatten                                                   reset
    stop-losses       reducing¹  as many within the window as the guard allows             fewer within the window, or reset
    daily loss        reducing   equity below that of the day before by more than          the next day (UTC)
    entries stopped   reducing   stop entries                                              resume entries
    stale data        reducing   nothing new from the feed for longer than the limit       the next slice that is fresh

    ¹ or halted, if the limits say so; then it ends with a reset alone

which makes, of a state and an event, the state after it:

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

from harnesses.errors import HarnessMisuse
from harnesses.trading.market.orders import ONE, ZERO, make_exact


class RiskState(StrEnum):
    """What may be traded."""

    ACTIVE = "active"
    """All within the limits."""
    REDUCING = "reducing"
    """Only what makes a position smaller."""
    HALTED = "halted"
    """Nothing that a strategy wants."""


_GRAVITY = tuple(RiskState)


class Concern(StrEnum):
    """Why less than everything may be traded."""

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
"""How late a live feed may tell a bar. One labelled with its beginning is two bars old when the next is due."""
_PARTS = ("max_drawdown", "max_daily_loss", "max_position", "max_jump", "stop_loss")
_SECONDS = ("max_age_s", "cooldown_s", "stop_loss_window_s")


@frozen
class Limits:
    """What no strategy can go beyond. Parts are above 0 and at most 1, and 1 sets no limit."""

    max_drawdown: Decimal = ONE
    """The part of the highest equity that may be lost."""
    max_daily_loss: Decimal = ONE
    """The part of the equity at the end of the day before that may be lost in a day (UTC)."""
    max_position: Decimal = ONE
    """The part of the equity that a position in one symbol may come to by a purchase."""
    cash_margin: Decimal = ZERO
    """The part of its price that a purchase must leave in cash, for what fees and slippage may come to."""
    max_jump: Decimal = Decimal("0.4")
    """A close further than this part from the one before is not believed, nor traded at, until the next confirms it."""
    max_age_s: float | None = None
    """How old the newest slice may be, counted from its time, to be traded on. None goes by the feed: of a live one two bars,
    and a minute for its ways; of a recording there is no limit. Set it where a live market closes for longer than two bars.
    It also keeps orders back that a program decided on before it died, and comes to again too late."""
    cooldown_s: float = 0.0
    """How long nothing of a symbol is bought after some of it was sold at a loss."""
    stop_loss: Decimal = ONE
    """The part of what a position has cost that it may lose before it is sold."""
    max_stop_losses: int | None = None
    """How many stop-losses within the window are too many; None sets no guard."""
    stop_loss_window_s: float = 86_400.0
    stop_loss_state: RiskState = RiskState.REDUCING
    """What too many of them lead to: reducing until there are fewer within the window, or halted until a reset."""

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
    """A concern there is."""

    concern: Concern
    state: RiskState
    """What it asks for."""
    why: str
    since: datetime


@frozen
class Risk:
    """Where the account stands against its limits. Stored with the state of the harness, so that no restart forgets a loss."""

    high_water: Decimal
    """The highest equity since the beginning, or since the last reset."""
    equity: Decimal
    """When it was last looked at."""
    day: date | None = None
    day_start_equity: Decimal = ZERO
    """At the end of the day before `day`."""
    state: RiskState = RiskState.ACTIVE
    why: str = ""
    """Of the gravest concern; empty while active."""
    since: datetime | None = None
    """When the state came to be what it is; None from the beginning."""
    worries: tuple[Worry, ...] = ()
    """At most one for each concern, oldest first."""
    cooldowns: Mapping[str, datetime] = field(factory=dict[str, datetime])
    """Until when nothing of a symbol is bought."""
    stop_losses: tuple[datetime, ...] = ()
    """Those within the window, oldest first; no more than the guard needs to know."""

    def has(self, concern: Concern) -> bool:
        """Return whether there is a concern."""
        return any(worry.concern is concern for worry in self.worries)

    @property
    def drawdown(self) -> Decimal:
        """The part of the highest equity that is lost now."""
        return ONE - self.equity / self.high_water if self.high_water > 0 else ZERO


def assess(risk: Risk, limits: Limits, *, equity: Decimal, time: datetime) -> Risk:
    """Return where the account stands at the prices of a slice.

    Args:
        time: of the slice; not before the last.
    """
    today = time.date()
    if risk.day != today:
        risk = evolve(_without(risk, time, Concern.DAILY_LOSS), day=today, day_start_equity=risk.equity)
    risk = evolve(risk, equity=equity, high_water=max(risk.high_water, equity))
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
    """Return where the account stands when the newest data are `age_s` seconds old. `time` is that of the feed's clock."""
    if not is_stale(limits, age_s):
        return _without(risk, time, Concern.STALE)
    return _with(risk, time, Concern.STALE, f"nothing new from the feed for more than {limits.max_age_s:g} s")


def after_loss(risk: Risk, limits: Limits, symbol: str, time: datetime) -> Risk:
    """Return where the account stands after some of a symbol was sold at a loss."""
    if not limits.cooldown_s:
        return risk
    return evolve(risk, cooldowns={**risk.cooldowns, symbol: time + timedelta(seconds=limits.cooldown_s)})


def after_stop_loss(risk: Risk, limits: Limits, symbol: str, time: datetime) -> Risk:
    """Return where the account stands after a stop-loss."""
    risk = after_loss(risk, limits, symbol, time)
    if limits.max_stop_losses is None:
        return risk
    return _guard(evolve(risk, stop_losses=(*risk.stop_losses, time)[-limits.max_stop_losses :]), limits, time)


def stop_entries(risk: Risk, why: str, time: datetime) -> Risk:
    """Return where the account stands after an operator's `stop entries`."""
    return _with(risk, time, Concern.ENTRIES_STOPPED, why)


def resume_entries(risk: Risk, time: datetime) -> Risk:
    """Return where the account stands after an operator's `resume entries`. A halt remains."""
    return _without(risk, time, Concern.ENTRIES_STOPPED)


def flatten(risk: Risk, why: str, time: datetime) -> Risk:
    """Return where the account stands after an operator's `flatten`."""
    return _with(risk, time, Concern.FLATTENED, why)


def reset(risk: Risk, time: datetime) -> Risk:
    """Return where the account stands after an operator's `reset`: halts are over, the high-water mark is the equity now."""
    risk = evolve(risk, high_water=risk.equity, stop_losses=())
    return _without(risk, time, Concern.DRAWDOWN, Concern.FLATTENED, Concern.STOP_LOSSES)


def limits_for(limits: Limits, *, live: bool, bar_s: float | None, gaps_s: Sequence[float], period_s: float) -> Limits:
    """Return the limits with that on age in place, if they leave it to the feed.

    Args:
        bar_s: how long a bar is, if the feed says so.
        gaps_s: between the last slices. The shortest is taken for the length of a bar: a market, or a feed, may pause.
        period_s: between two polls, which is taken for it before there are two slices.
    """
    if limits.max_age_s is not None or not live:
        return limits
    return evolve(limits, max_age_s=2 * (bar_s or min(gaps_s, default=period_s)) + _GRACE_S)


def is_stale(limits: Limits, age_s: float) -> bool:
    """Return whether data of that age are too old to be traded on."""
    return limits.max_age_s is not None and age_s > limits.max_age_s


def limits_from(constraints: Mapping[str, object], limits: Limits | None = None) -> Limits:
    """Return `limits` with those that `constraints` name in their place; numbers may be text.

    Raises:
        HarnessMisuse: one of them is no such limit.
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
    """Count the stop-losses within the window."""
    window = timedelta(seconds=limits.stop_loss_window_s)
    recent = tuple(one for one in risk.stop_losses if time - one <= window)
    risk = evolve(risk, stop_losses=recent)
    if limits.max_stop_losses is not None and len(recent) >= limits.max_stop_losses:
        why = f"{len(recent)} stop-losses within {limits.stop_loss_window_s:g} s"
        return _with(risk, time, Concern.STOP_LOSSES, why, limits.stop_loss_state)
    if limits.stop_loss_state is RiskState.REDUCING:
        return _without(risk, time, Concern.STOP_LOSSES)
    return risk


def _with(risk: Risk, time: datetime, concern: Concern, why: str, state: RiskState | None = None) -> Risk:
    """Return the risk with a concern; one that there is already stays as it began."""
    if risk.has(concern):
        return risk
    return _judged(risk, (*risk.worries, Worry(concern, state or _STATES[concern], why, time)), time)


def _without(risk: Risk, time: datetime, *concerns: Concern) -> Risk:
    if not any(worry.concern in concerns for worry in risk.worries):
        return risk
    return _judged(risk, tuple(worry for worry in risk.worries if worry.concern not in concerns), time)


def _judged(risk: Risk, worries: tuple[Worry, ...], time: datetime) -> Risk:
    """Return the risk with these worries, its state being that of the gravest, the oldest of those."""
    gravest = max(worries, key=lambda worry: _GRAVITY.index(worry.state), default=None)
    state = gravest.state if gravest else RiskState.ACTIVE
    why = f"{gravest.concern}: {gravest.why}" if gravest else ""
    return evolve(risk, worries=worries, state=state, why=why, since=risk.since if state is risk.state else time)
