"""Charges what an agent reports to every pool of a chain: it has happened, so it is charged in full, past the limit too. Pure.

    used since the last report ──────────────────────────┐
    total of a conversation ──less what was charged for──┴──► spent of each pool ──over its limit──► the agent is stopped
                              it before                                          ──80 % of it────► told once

The law: no report is charged twice. What was charged for a conversation is kept in the same books, in the same transaction, so
a total that is reported again after a crash or a restart is charged for what it has grown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal

from attrs import evolve, frozen

from harnesses.budgets.budget import FIELDS, Amount, Spend
from harnesses.budgets.pools import Account, merged
from harnesses.budgets.usage import Usage

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
