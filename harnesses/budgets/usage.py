"""What an agent has used, as it reports it: turns, tool calls, tokens, money. Pure.

The law: a report is never less than nothing. What is not a count, or not an amount, is taken for none, and never for an error:
reports come from programs that are not trusted to be well formed.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from decimal import ROUND_UP, Context, Decimal
from typing import Any, cast

from attrs import Attribute, evolve, field, fields, frozen, has

from harnesses.budgets.budget import Spend
from harnesses.errors import HarnessMisuse

REPORTABLE = frozenset({"tokens", "tool_calls", "money"})
"""Limits of a budget that hold only for agents which report what they use. The others are counted by the harness itself."""

_MOST_COUNT = 2**53
_MOST_MONEY = Decimal(10) ** 12
_SMALLEST = Decimal(1).scaleb(-12)
_ROUND = Context(prec=60, rounding=ROUND_UP)
_ZERO = Decimal(0)


def count_of(value: object) -> int:
    """Return a count that a program reports; 0 for what is none."""
    return min(value, _MOST_COUNT) if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def money_of(value: object) -> Decimal:
    """Return an amount of money that a program reports, rounded up to 12 places; 0 for what is none."""
    if not isinstance(value, int | float | Decimal) or isinstance(value, bool):
        return _ZERO
    amount = Decimal(str(value)) if isinstance(value, float) else Decimal(value)
    if not amount.is_finite() or amount <= 0:
        return _ZERO
    return min(amount, _MOST_MONEY).quantize(_SMALLEST, context=_ROUND).normalize(_ROUND)


def _check(owner: Usage, attribute: Attribute[Any], value: object) -> None:
    right = count_of(value) == value if type(value) is int else money_of(value) == value if type(value) is Decimal else False
    if not right or (attribute.name == "money") is not isinstance(value, Decimal):
        wanted = "a Decimal from 0 up with at most 12 places" if attribute.name == "money" else "a whole number from 0 up"
        raise HarnessMisuse(f"Usage: {attribute.name}: expected {wanted}, got {value!r:.100}; convert it with `money_of`")


def _less(one: Any, other: Any) -> Any:
    return one - other if one > other else type(one)(0)


@frozen(kw_only=True)
class Usage:
    """What was used, together."""

    turns: int = field(default=0, validator=_check)
    """Calls of an agent."""
    tool_calls: int = field(default=0, validator=_check)
    input_tokens: int = field(default=0, validator=_check)
    output_tokens: int = field(default=0, validator=_check)
    cached_tokens: int = field(default=0, validator=_check)
    """Of `input_tokens`, those that came from a cache."""
    tokens: int = field(default=0, validator=_check)
    """All that were read or written; by default `input_tokens` and `output_tokens`."""
    money: Decimal = field(default=_ZERO, validator=_check)
    """In the currency of the program's own figures, which for the known ones is the US dollar."""

    def __attrs_post_init__(self) -> None:
        if not self.tokens:
            object.__setattr__(self, "tokens", self.input_tokens + self.output_tokens)

    def __add__(self, other: Usage) -> Usage:
        return self._each(other, operator.add)

    def __bool__(self) -> bool:
        return any(getattr(self, name) for name in NAMES)

    def max(self, other: Usage) -> Usage:
        """Return the larger amount of each field."""
        return self._each(other, max)

    def since(self, earlier: Usage) -> Usage:
        """Return what was used since `earlier`, of totals that only grow. A total that is less has begun anew: all of it."""
        if self.tokens < earlier.tokens or self.money < earlier.money:
            return self
        return self.beyond(earlier)

    def beyond(self, other: Usage) -> Usage:
        """Return what is more than in `other`, field by field; 0 where it is less."""
        return self._each(other, _less)

    def without(self, names: Iterable[str]) -> Usage:
        """Return it with nothing of some fields of a budget, such as `tokens`."""
        left_out = set(names)
        if "tokens" in left_out:
            left_out |= {*_KINDS}
        nothing: dict[str, Any] = {name: _ZERO if name == "money" else 0 for name in left_out & set(NAMES)}
        return evolve(self, **nothing)

    def spend(self) -> Spend:
        """Return what is charged for it."""
        return Spend(turns=self.turns, tool_calls=self.tool_calls, tokens=self.tokens, money=self.money)

    def plain(self) -> dict[str, Any]:
        """Return the amounts above zero, as JSON can carry them."""
        amounts = ((name, getattr(self, name)) for name in NAMES)
        return {name: str(amount) if name == "money" else amount for name, amount in amounts if amount}

    def _each(self, other: Usage, join: Callable[[Any, Any], Any]) -> Usage:
        made: dict[str, Any] = {name: join(getattr(self, name), getattr(other, name)) for name in NAMES}
        if not made["tokens"]:
            # Of two totals that are alike, the kinds may differ all the same.
            made |= dict.fromkeys(_KINDS, 0)
        return Usage(**made)


NAMES = tuple(each.name for each in fields(Usage))
_KINDS = ("input_tokens", "output_tokens", "cached_tokens")
UNUSED = Usage()
_UNSAID = object()


def used_in(answer: object) -> Usage | None:
    """Return what the answer of an agent says that it has used; None for an answer that has no word for it.

    That is its `usage`; where that is None, its `tokens`.
    """
    usage: object = getattr(answer, "usage", _UNSAID)
    if usage is not None:
        return usage if isinstance(usage, Usage) else None
    return Usage(tokens=count_of(getattr(answer, "tokens", 0)))


def with_usage(answer: Any, usage: Usage) -> Any:
    """Return an answer that says so much was used: what was charged for the turn is what is on record with it.

    An answer that is not an attrs object with a `usage` field is returned unchanged.
    """
    cls = cast("type[Any]", answer.__class__)
    names = {each.name for each in fields(cls) if each.init} if has(cls) else set[str]()
    if "usage" not in names:
        return answer
    changed: dict[str, Any] = {"usage": usage}
    if "tokens" in names and isinstance(answer.tokens, int):
        changed["tokens"] = usage.tokens
    return evolve(answer, **changed)
