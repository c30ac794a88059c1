"""Usage that agents report, and how it is charged: in full, even past a limit, since it has already happened. Pure.

    used since the last report ──────────────────────────┐
    total of a conversation ──less what was charged for──┴──► spent of each pool ──over its limit──► the agent is stopped
                              it before                                          ──80 % of it────► a warning, once

Invariants: a reported amount is never negative; malformed values count as 0 and never raise, because the reporting programs
are not trusted. No report is charged twice: the amount already charged for a conversation is stored in the same accounts and
transaction, so a total that is reported again after a crash or restart is charged only for its growth.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from decimal import ROUND_UP, Context, Decimal
from typing import Any, cast

from attrs import Attribute, evolve, field, fields, frozen, has

from harnesses.budgets.budget import FIELDS, Amount, Spend
from harnesses.budgets.pools import Account, merged
from harnesses.errors import HarnessMisuse

REPORTABLE = frozenset({"tokens", "tool_calls", "money"})
"""Budget limits that can only be enforced for agents that report their usage. The harness counts the others itself."""

_MOST_COUNT = 2**53
_MOST_MONEY = Decimal(10) ** 12
_SMALLEST = Decimal(1).scaleb(-12)
_ROUND = Context(prec=60, rounding=ROUND_UP)
_ZERO = Decimal(0)


def count_of(value: object) -> int:
    """Return a reported count; 0 for a malformed value."""
    return min(value, _MOST_COUNT) if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def money_of(value: object) -> Decimal:
    """Return a reported amount of money, rounded up to 12 places; 0 for a malformed value."""
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
    """Accumulated usage."""

    turns: int = field(default=0, validator=_check)
    """Agent calls."""
    tool_calls: int = field(default=0, validator=_check)
    """Tool calls."""
    input_tokens: int = field(default=0, validator=_check)
    """Tokens read, cached ones included."""
    output_tokens: int = field(default=0, validator=_check)
    """Tokens written."""
    cached_tokens: int = field(default=0, validator=_check)
    """The part of `input_tokens` that came from a cache."""
    tokens: int = field(default=0, validator=_check)
    """All tokens read or written; by default `input_tokens` plus `output_tokens`."""
    money: Decimal = field(default=_ZERO, validator=_check)
    """In the currency that the program reports; US dollars for the known programs."""

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
        """Return the usage since `earlier`, for totals that only grow. A total that has shrunk was reset: all of it is new."""
        if self.tokens < earlier.tokens or self.money < earlier.money:
            return self
        return self.beyond(earlier)

    def beyond(self, other: Usage) -> Usage:
        """Return the excess over `other`, field by field; 0 where it is smaller."""
        return self._each(other, _less)

    def without(self, names: Iterable[str]) -> Usage:
        """Return the usage with some budget fields, such as `tokens`, set to 0."""
        left_out = set(names)
        if "tokens" in left_out:
            left_out |= {*_KINDS}
        nothing: dict[str, Any] = {name: _ZERO if name == "money" else 0 for name in left_out & set(NAMES)}
        return evolve(self, **nothing)

    def spend(self) -> Spend:
        """Return the amounts to charge for this usage."""
        return Spend(turns=self.turns, tool_calls=self.tool_calls, tokens=self.tokens, money=self.money)

    def plain(self) -> dict[str, Any]:
        """Return the amounts above zero, as JSON-compatible data."""
        amounts = ((name, getattr(self, name)) for name in NAMES)
        return {name: str(amount) if name == "money" else amount for name, amount in amounts if amount}

    def _each(self, other: Usage, join: Callable[[Any, Any], Any]) -> Usage:
        made: dict[str, Any] = {name: join(getattr(self, name), getattr(other, name)) for name in NAMES}
        if not made["tokens"]:
            # Totals may be equal although the kinds of tokens differ.
            made |= dict.fromkeys(_KINDS, 0)
        return Usage(**made)


NAMES = tuple(each.name for each in fields(Usage))
_KINDS = ("input_tokens", "output_tokens", "cached_tokens")
UNUSED = Usage()
_UNSAID = object()


def used_in(answer: object) -> Usage | None:
    """Return the usage stated in an agent's answer: its `usage`, or else its `tokens`; None if it states neither."""
    usage: object = getattr(answer, "usage", _UNSAID)
    if usage is not None:
        return usage if isinstance(usage, Usage) else None
    return Usage(tokens=count_of(getattr(answer, "tokens", 0)))


def with_usage(answer: Any, usage: Usage) -> Any:
    """Return the answer with its usage replaced by what was charged for the turn, so that the record shows the charge.

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


AGENTS = "agents"
"""Pool `agents/NAME` accumulates the reported usage of all agents of a harness. It has no limits."""
THREAD = "thread/"
"""Prefix of the accounts of single conversations. They are hidden, since each of their tokens is in a pool as well."""
DECLARED = "declared/"
"""Prefix of the accounts that keep what a program has declared for a pool whose limits an operator has changed. Hidden."""
HIDDEN = (THREAD, DECLARED)
"""Prefixes of accounts that are not shown."""
WARNED_AT = Decimal("0.8")
"""The part of a limit at which a warning is issued, once."""


@frozen
class Charged:
    """The result of charging one report."""

    usage: Usage
    """Usage since the previous report."""
    over: str = ""
    """The exceeded limit, as a sentence; empty if none is."""
    over_pool: str = ""
    """The pool of the exceeded limit."""
    near: tuple[str, ...] = ()
    """Limits that reached 80 % with this report."""


def charge_usage(
    get: Callable[[str], Account],
    keep: Callable[[str, Account], object],
    pools: Sequence[str],
    teller: str,
    usage: Usage,
    *,
    turns: int = 0,
    thread: str = "",
    settled: Iterable[str] = (),
) -> Charged:
    """Charge a usage report, and return what was charged.

    Args:
        get, keep: read and write the account of a pool.
        teller: the pool that accumulates the usage of the harness's agents.
        turns: agent calls to add. They are charged to `teller` alone: limited turns are reserved separately.
        thread: the conversation of which `usage` is the total; empty if `usage` is what was used since the last report.
        settled: fields that the harness settles itself, through `spending`; not charged to `pools`.
    """
    if thread:
        usage = _grown(get, keep, thread, usage)
    if turns:
        usage += Usage(turns=turns)
    spend = usage.without({"turns", *settled}).spend()
    over, over_pool, near = "", "", list[str]()
    for pool in merged(pools):
        before = get(pool)
        account = evolve(before, spent=before.spent + spend)
        if spend:
            keep(pool, account)
        if not over and (over := _over(pool, account, spend)):
            over_pool = pool
        near += nearing(pool, before, account)
    told = get(teller)
    keep(teller, evolve(told, spent=told.spent + usage.spend()))
    return Charged(usage, over, over_pool, tuple(near))


def nearing(pool: str, before: Account, after: Account) -> list[str]:
    """Return the limits of a pool that have just reached 80 %."""
    found: list[str] = []
    for name in FIELDS:
        limit: Amount | None = getattr(after.budget, name)
        spent: Amount = getattr(after.spent, name)
        if limit and not _is_near(getattr(before.spent, name), limit) and _is_near(spent, limit):
            found.append(f"budget {pool!r}: {spent} of {limit} {name} are spent")
    return found


def spent_up(accounts: Iterable[Account], names: Iterable[str], *, ahead: int = 0) -> str:
    """Return the message of `BudgetExhausted` for the first field that is used up in a pool; empty if none is.

    Args:
        ahead: what is about to be spent, beside what is on record.
    """
    wanted = set(names)
    for account in accounts:
        for name in FIELDS:
            limit, spent = getattr(account.budget, name), getattr(account.spent, name)
            if name in wanted and limit is not None and spent + ahead >= limit:
                return f"nothing is left of its budget of {name}: limit {limit}, spent {spent}; {_REMEDY}"
    return ""


def overspent(accounts: Iterable[Account]) -> str:
    """Return the message of `BudgetExhausted` for the first limit that was exceeded; empty if none was."""
    for account in accounts:
        for name in FIELDS:
            limit, spent = getattr(account.budget, name), getattr(account.spent, name)
            if limit is not None and spent > limit:
                return f"more is spent than its budget of {name} allows: limit {limit}, spent {spent}; {_REMEDY}"
    return ""


_REMEDY = "raise the budget and start again"


def _over(pool: str, account: Account, charged: Spend) -> str:
    for name in FIELDS:
        limit, spent, more = (getattr(of, name) for of in (account.budget, account.spent, charged))
        if more and limit is not None and spent > limit:
            return f"budget {pool!r} is spent: limit {limit} {name}, spent {spent}, {more} of it just reported; {_REMEDY}"
    return ""


def _is_near(spent: Amount, limit: Amount) -> bool:
    return Decimal(spent) >= Decimal(limit) * WARNED_AT


def _grown(get: Callable[[str], Account], keep: Callable[[str, Account], object], thread: str, total: Usage) -> Usage:
    """Return the growth of a conversation's total since its last report, and store the new total.

    The total takes three accounts, because an account has a single field for tokens.
    """
    places = [f"{THREAD}{thread}{part}" for part in ("", "/input", "/cached")]
    all, input, cached = (get(place).spent for place in places)
    output = max(all.tokens - input.tokens, 0)
    before = Usage(
        turns=all.turns,
        tool_calls=all.tool_calls,
        tokens=all.tokens,
        input_tokens=input.tokens,
        output_tokens=output if input.tokens else 0,
        cached_tokens=cached.tokens,
        money=all.money,
    )
    parts = (total.spend(), Spend(tokens=total.input_tokens), Spend(tokens=total.cached_tokens))
    for place, spent in zip(places, parts, strict=True):
        if spent != get(place).spent:
            keep(place, Account(spent=spent))
    return total.since(before)
