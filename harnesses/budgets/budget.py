"""Budget arithmetic: limits, spends, and the decision whether another spend is allowed. Pure.

Invariant: the sum of spent and reserved amounts never exceeds a limit, as long as nobody spends more than was reserved: every
spend is reserved first and a reservation that does not fit is refused. A reservation is settled with what was spent, and the
rest is released. What was spent beyond a reservation is charged too; past a limit nothing more is granted. A
reservation that is never settled, because its owner crashed, is charged in full unless it says what to charge then.

    limit   ├──────── spent ────────┼─── reserved ───┼───── left ─────┤
                                    settle ◄──┘        └──► reserve
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Context, Decimal, Inexact, InvalidOperation, Overflow
from typing import Any, TypeAlias, cast

from attrs import Attribute, evolve, field, fields, frozen

from harnesses.errors import HarnessMisuse

Amount: TypeAlias = int | Decimal | float

_EXACT = Context(prec=64, traps=[Inexact, InvalidOperation, Overflow])
"""Decimal context for sums of money: independent of the caller's context, and never rounding."""
_PLACES, _DIGITS = 18, 24
"""Maximum number of digits of an amount of money after and before the point; 10^20 of the largest amounts still have an exact
sum."""
_MOST_S = 1e15
_ZERO = Decimal(0)


def _check_count(owner: Any, attribute: Attribute[Any], value: object) -> None:
    if type(value) is not int or value < 0:
        _refuse(owner, attribute, value, "a whole number from 0 up")


def _check_money(owner: Any, attribute: Attribute[Any], value: object) -> None:
    if value is _ZERO:
        return
    usable = isinstance(value, Decimal) and value.is_finite() and value >= 0
    if not usable or cast(int, value.as_tuple().exponent) < -_PLACES or value.adjusted() >= _DIGITS:  # type: ignore[attr-defined]
        wanted = f"a finite Decimal from 0 up with at most {_DIGITS} digits before and {_PLACES} after the point"
        _refuse(owner, attribute, value, wanted)


def _check_seconds(owner: Any, attribute: Attribute[Any], value: object) -> None:
    if type(value) is not float or not 0 <= value < _MOST_S:
        _refuse(owner, attribute, value, "a finite number of seconds from 0 up")


def _refuse(owner: Any, attribute: Attribute[Any], value: object, wanted: str) -> None:
    """Raise for an invalid amount; a limit may be None."""
    if value is not None or not isinstance(owner, Budget):
        raise HarnessMisuse(f"{type(owner).__name__}: {attribute.name} cannot be {value!r}: expected {wanted}")


def _whole_us(seconds: Any) -> Any:
    """Round to whole microseconds, which add up exactly as floats for 70 years."""
    if type(seconds) not in (int, float) or not 0 <= seconds < _MOST_S:
        return seconds
    return round(seconds * 1e6) / 1e6 if seconds else 0.0


def _added(name: str, one: Any, other: Any) -> Any:
    if name == "money":
        return _EXACT.add(one, other)
    if name == "working_time_s":
        return (round(one * 1e6) + round(other * 1e6)) / 1e6
    return one + other


def _less(name: str, one: Any, other: Any) -> Any:
    if name == "money":
        return _EXACT.subtract(one, other)
    if name == "working_time_s":
        return (round(one * 1e6) - round(other * 1e6)) / 1e6
    return one - other


@frozen(kw_only=True)
class Spend:
    """Amounts requested, reserved or spent."""

    steps: int = field(default=0, validator=_check_count)
    """Recorded steps."""
    turns: int = field(default=0, validator=_check_count)
    """Agent calls."""
    tool_calls: int = field(default=0, validator=_check_count)
    """Tool calls of agents."""
    tokens: int = field(default=0, validator=_check_count)
    """Tokens read and written, cached ones included."""
    money: Decimal = field(default=_ZERO, validator=_check_money)
    """In the currency of the budget."""
    working_time_s: float = field(default=0.0, converter=_whole_us, validator=_check_seconds)
    """Seconds from a resumption of `execute()` to its `yield`; whole microseconds."""

    def __add__(self, other: Spend) -> Spend:
        changed = {name: _added(name, getattr(self, name), more) for name in FIELDS if (more := getattr(other, name))}
        return evolve(self, **changed) if changed else self

    def __sub__(self, other: Spend) -> Spend:
        if (name := other.exceeds(self)) is not None:
            raise HarnessMisuse(
                f"Spend: {name} would be below 0: expected to take at most {getattr(self, name)}, got {getattr(other, name)}"
            )
        changed = {name: _less(name, getattr(self, name), less) for name in FIELDS if (less := getattr(other, name))}
        return evolve(self, **changed) if changed else self

    def __bool__(self) -> bool:
        return any(getattr(self, name) for name in FIELDS)

    def min(self, other: Spend) -> Spend:
        """Return the smaller amount of each field."""
        return Spend(**{name: min(getattr(self, name), getattr(other, name)) for name in FIELDS})

    def fits(self, budget: Budget) -> bool:
        """Return whether no amount is above its limit."""
        limits = ((getattr(self, name), getattr(budget, name)) for name in FIELDS)
        return all(limit is None or amount <= limit for amount, limit in limits)

    def exceeds(self, other: Spend) -> str | None:
        """Return the first field whose amount is above the other's; None if no field is."""
        return next((name for name in FIELDS if getattr(self, name) > getattr(other, name)), None)

    def plain(self) -> dict[str, Any]:
        """Return the amounts above zero, as JSON-compatible data."""
        return {name: _to_plain(amount) for name in FIELDS if (amount := getattr(self, name))}


@frozen(kw_only=True)
class Budget:
    """Spending limits, each counted from the first start; None for no limit."""

    steps: int | None = field(default=None, validator=_check_count)
    """Recorded steps."""
    turns: int | None = field(default=None, validator=_check_count)
    """Agent calls."""
    tool_calls: int | None = field(default=None, validator=_check_count)
    """Tool calls of agents."""
    tokens: int | None = field(default=None, validator=_check_count)
    """Tokens read and written, cached ones included."""
    money: Decimal | None = field(default=None, validator=_check_money)
    """In the currency of the spends."""
    working_time_s: float | None = field(default=None, converter=_whole_us, validator=_check_seconds)
    """Seconds from each resumption of `execute()` to its `yield`, summed."""

    def min(self, other: Budget) -> Budget:
        """Return the tighter limit of each field."""
        return Budget(**{name: _tighter(getattr(self, name), getattr(other, name)) for name in FIELDS})

    def left(self, used: Spend) -> Budget:
        """Return what is left of each limit; 0 where more is used than allowed."""
        limits = {name: limit for name in FIELDS if (limit := getattr(self, name)) is not None}
        return Budget(**{name: _less(name, limit, min(getattr(used, name), limit)) for name, limit in limits.items()})

    def plain(self) -> dict[str, Any]:
        """Return the limits that are set, as JSON-compatible data."""
        return {name: _to_plain(limit) for name in FIELDS if (limit := getattr(self, name)) is not None}


FIELDS = ("steps", "working_time_s", "turns", "tool_calls", "tokens", "money")
"""Budget fields, in the order in which a spender may wait for them; see `pools.decide`."""
assert set(FIELDS) == {attribute.name for attribute in fields(Spend)} == {attribute.name for attribute in fields(Budget)}

UNLIMITED = Budget()
NOTHING = Spend()


def _tighter(one: Any, other: Any) -> Any:
    if one is None or other is None:
        return other if one is None else one
    return min(one, other)


def _to_plain(amount: Amount) -> int | float | str:
    return str(amount) if isinstance(amount, Decimal) else amount


def _from_plain(plain: Mapping[str, Any]) -> dict[str, Any]:
    return {name: Decimal(amount) if name == "money" else amount for name, amount in plain.items()}


def spend_of(plain: Mapping[str, Any]) -> Spend:
    """Decode the result of `Spend.plain`."""
    return Spend(**_from_plain(plain))


def budget_of(plain: Mapping[str, Any]) -> Budget:
    """Decode the result of `Budget.plain`."""
    return Budget(**_from_plain(plain))


@frozen
class Granted:
    """The spend fits now."""


@frozen
class _Short:
    """A field of a pool with too little left for a spend."""

    field: str
    limit: Amount
    spent: Amount
    reserved: Amount
    asked: Amount
    pool: str = ""

    def __str__(self) -> str:
        return (
            f"budget {self.pool!r} does not allow {self.asked} more of {self.field}: limit {self.limit}, "
            f"spent {self.spent}, reserved {self.reserved}"
        )


@frozen
class Later(_Short):
    """The spend would fit if others released their reservations."""


@frozen
class Denied(_Short):
    """The spend does not fit even if all reservations are released, or the spender may not wait for them."""

    def __str__(self) -> str:
        return f"{super().__str__()}; raise the budget, then `orchestrator start NAME`, or `orchestrator run FILE`"


def judge(limit: Budget, spent: Spend, reserved: Spend, asked: Spend, *, pool: str = "") -> Granted | Later | Denied:
    """Decide whether `asked` may be reserved in one pool.

    Fields of which nothing is asked are ignored: a harness that has used up its tokens may still make a step. If several
    fields are short, one that waiting cannot help is reported first.
    """
    later: Later | None = None
    for name in FIELDS:
        most, want = getattr(limit, name), getattr(asked, name)
        if most is None or not want:
            continue
        gone, held = getattr(spent, name), getattr(reserved, name)
        if _added(name, gone, want) > most:
            return Denied(name, most, gone, held, want, pool)
        if later is None and _added(name, _added(name, gone, held), want) > most:
            later = Later(name, most, gone, held, want, pool)
    return later or Granted()
