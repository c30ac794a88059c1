"""What an agent has used, as it reports it, and how it is charged: it has happened, so in full, past a limit too. Pure.

    used since the last report ──────────────────────────┐
    total of a conversation ──less what was charged for──┴──► spent of each pool ──over its limit──► the agent is stopped
                              it before                                          ──80 % of it────► told once

The laws: a report is never less than nothing: what is not a count, or not an amount, is taken for none, and never for an
error, for reports come from programs that are not trusted to be well formed. No report is charged twice: what was charged for
a conversation is kept in the same books, in the same transaction, so a total that is reported again after a crash or a restart
is charged for what it has grown.
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


AGENTS = "agents"
"""`agents/NAME` is what all agents of a harness have reported. A pool without limits: it tells, and holds nothing."""
THREAD = "thread/"
"""Accounts of single conversations begin so. They are not shown: each token of them is in a pool as well."""
WARNED_AT = Decimal("0.8")
"""The part of a limit at which it is told, once, that the limit is near."""


@frozen
class Charged:
    """What was charged for a report."""

    usage: Usage
    """What was used since the report before."""
    over: str = ""
    """What is spent beyond its limit now, in words; empty while nothing is."""
    over_pool: str = ""
    """Which pool that is."""
    near: tuple[str, ...] = ()
    """Limits of which 80 % are spent since this report."""


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
    """Charge a report, and return what was charged.

    Args:
        get, keep: the books: where a pool stands, and where it stands now.
        teller: the pool that tells what the agents of the harness have used.
        turns: calls of the agent that are counted with it. They are charged to `teller` alone: limited ones are reserved.
        thread: the conversation whose total `usage` is; empty if it is what was used since the last report.
        settled: fields that the harness settles itself, by `spending`: they are not charged to `pools`.
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
    """Return the limits of a pool of which 80 % are spent now, and were not before."""
    found: list[str] = []
    for name in FIELDS:
        limit: Amount | None = getattr(after.budget, name)
        spent: Amount = getattr(after.spent, name)
        if limit and not _is_near(getattr(before.spent, name), limit) and _is_near(spent, limit):
            found.append(f"budget {pool!r}: {spent} of {limit} {name} are spent")
    return found


def spent_up(accounts: Iterable[Account], names: Iterable[str]) -> str:
    """Return of which field a pool has nothing left, as `BudgetExhausted` says it; empty if each has some of all of them."""
    wanted = set(names)
    for account in accounts:
        for name in FIELDS:
            limit, spent = getattr(account.budget, name), getattr(account.spent, name)
            if name in wanted and limit is not None and spent >= limit:
                return f"nothing is left of its budget of {name}: limit {limit}, spent {spent}; {_REMEDY}"
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
    """Return what a conversation has used since its last report, and keep its total.

    The total is in three accounts, for an account knows of one kind of tokens only.
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
