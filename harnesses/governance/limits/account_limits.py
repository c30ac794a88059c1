"""Account limits of a trading harness: drawdown, daily loss, positions. Pure; time is an argument.

    limit            is reached when                                                                 and lasts until
    max_drawdown     equity is below its high-water mark by more than that fraction                  a person resets it
    max_daily_loss   equity is below the previous day's last one by more than that fraction          a new day (UTC) or a reset
    max_position     a figure named `position`, or `position:…`, is larger, long or short            it is smaller again
    figures          the figures are unavailable or not numbers                                      they are valid again

Invariants: the high-water mark and the day's opening equity are stored with each step, so no restart forgets a loss. Figures
that cannot be read never let the harness continue.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import date
from decimal import Context, Decimal, InvalidOperation
from typing import Any

import msgspec
from attrs import evolve, frozen

from harnesses.governance.limits.guardrails import Guardrails
from harnesses.governor import Finding

_EXACT = Context(prec=64)
Figures = Mapping[str, Decimal]


@frozen(kw_only=True)
class AccountStatus:
    """The tracked equity of an account."""

    high: Decimal | None = None
    """The highest equity so far."""
    day: date | None = None
    begin: Decimal | None = None
    """Equity at the end of the previous day; on the first day, the first one."""
    last: Decimal | None = None
    fallen: bool = False
    """Whether the drawdown limit was exceeded and has not been reset."""
    lost: bool = False
    """Whether the loss limit of this day was exceeded."""

    def plain(self) -> dict[str, Any]:
        """Return it as JSON-compatible data, without unknown values."""
        return {name: value for name, value in msgspec.to_builtins(self).items() if value not in (None, False)}


def numbers(figures: Mapping[str, object]) -> Figures:
    """Convert figures to exact numbers.

    Raises:
        ValueError: a figure is not a finite number.
    """
    return {name: _number(name, value) for name, value in figures.items()}


def _number(name: str, value: object) -> Decimal:
    try:
        number = value if isinstance(value, Decimal) else Decimal(str(value))
    except InvalidOperation:
        number = Decimal("NaN")
    if not number.is_finite() or isinstance(value, bool):
        raise ValueError(f"figure {name!r:.80}: expected a finite number, got {value!r:.80}")
    return number


def assess(standing: AccountStatus, rails: Guardrails, figures: Figures, today: date) -> AccountStatus:
    """Return the account status updated with these figures; unchanged without an `equity`."""
    equity = figures.get("equity")
    if standing.day != today:
        begin = standing.last if standing.last is not None else equity
        standing = evolve(standing, day=today, begin=begin, lost=False)
    if equity is None:
        return standing
    high = equity if standing.high is None else max(standing.high, equity)
    begin = equity if standing.begin is None else standing.begin
    return evolve(
        standing,
        high=high,
        begin=begin,
        last=equity,
        fallen=standing.fallen or _is_below(equity, high, rails.max_drawdown),
        lost=standing.lost or _is_below(equity, begin, rails.max_daily_loss),
    )


def reached(standing: AccountStatus, rails: Guardrails, figures: Figures) -> Iterator[Finding]:
    """Yield the limits that are reached."""
    if standing.fallen and rails.max_drawdown is not None:
        part = _part(standing.last, standing.high)
        why = f"equity {standing.last} has fallen more than {rails.max_drawdown} below its highest, {standing.high}"
        yield _finding("max_drawdown", part, rails.max_drawdown, why)
    if standing.lost and rails.max_daily_loss is not None:
        part = _part(standing.last, standing.begin)
        why = f"equity {standing.last} has fallen more than {rails.max_daily_loss} below {standing.begin}, where the day began"
        yield _finding("max_daily_loss", part, rails.max_daily_loss, why)
    for name, value in figures.items():
        if rails.max_position is not None and abs(value) > rails.max_position and name.split(":")[0] == "position":
            yield _finding("max_position", abs(value), rails.max_position, f"{name:.80} is {value}")


def _is_below(equity: Decimal, mark: Decimal, part: Decimal | None) -> bool:
    return part is not None and mark > 0 and equity < _EXACT.multiply(mark, 1 - part)


def _part(equity: Decimal | None, mark: Decimal | None) -> Decimal:
    if equity is None or mark is None or mark <= 0:
        return Decimal(0)
    return 1 - _EXACT.divide(equity, mark).quantize(Decimal("0.0001"), context=_EXACT)


def _finding(name: str, current: Decimal, limit: Decimal, why: str) -> Finding:
    reason = f"{why}; a person has to decide"
    return Finding(limit_name=name, current_value=str(current), limit_value=str(limit), reason=reason)
