"""What needs a person: one entry for each cause, with the orders that help, worst first. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from typing import Any

from harnesses.budgets.pools import Account

NEARLY = Decimal("0.8")
"""Share of a limit from which a budget is named."""
_WORDS = {
    "gave_up": "gave up after too many restarts",
    "failed": "failed",
    "blocked": "is blocked",
    "halted": "is halted",
    "hung": "takes much longer than usual over this step",
    "interrupted": "is interrupted",
    "budget_spent": "has spent its budget",
}
_ORDERS = {
    "gave_up": ("start",),
    "failed": ("start",),
    "blocked": ("start",),
    "halted": ("start", "stop"),
    "hung": ("restart", "stop"),
    "interrupted": (),
    "budget_spent": ("start",),
}
Need = dict[str, Any]


def needs(
    rows: Iterable[Mapping[str, Any]],
    approvals: Iterable[Mapping[str, Any]],
    effects: Iterable[Mapping[str, Any]],
    pools: Mapping[str, Account],
    latched: Mapping[str, Mapping[str, Any]],
) -> list[Need]:
    """Return what needs a person.

    Args:
        rows: the rows of the fleet.
        approvals: pending requests, as the API shows them.
        effects: effects of unknown outcome, as the API shows them.
        latched: the kill switches that are on, each with its reason, by whom and since when.
    """
    return [
        *(_need("approval", one["harness"], one["summary"] or "asks", ("approve", "deny"), one) for one in approvals),
        *(
            _need("unknown_effect", one["harness"], f"nobody knows whether {one['key']} happened", ("done", "not-done"), one)
            for one in effects
        ),
        *(
            _need(row["activity"], row["harness"], _WORDS[row["activity"]], _orders(row), dict(row))
            for row in sorted(rows, key=lambda row: row["rank"])
            if row["activity"] in _WORDS
        ),
        *_budgets(pools),
        *(_switch("" if name == "@all" else name, said) for name, said in latched.items()),
    ]


def _orders(row: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the orders that help; a harness that runs although it is halted is not started again."""
    orders = _ORDERS[row["activity"]]
    return tuple(order for order in orders if order != "start" or row["status"] != "running")


def _budgets(pools: Mapping[str, Account]) -> Iterator[Need]:
    for name, account in pools.items():
        limits, spent = account.budget.plain(), account.spent.plain()
        for amount, limit in limits.items():
            used = Decimal(str(spent.get(amount) or 0))
            if Decimal(str(limit)) > 0 and used >= NEARLY * Decimal(str(limit)):
                yield _need(
                    "budget", "", f"{name}: {used} of {limit} {amount} are spent", (), {"pool": name, "amount": amount}
                )


def _switch(name: str, said: Mapping[str, Any]) -> Need:
    by = f"by {said['by']}" if said.get("by") else ""
    cause = ", ".join(str(part) for part in (said.get("reason"), by) if part)
    return _need("kill_switch", name, "no effect may begin", ("off",), {**said, "cause": cause})


def _need(kind: str, harness: str, what: str, orders: tuple[str, ...], facts: Mapping[str, Any]) -> Need:
    return {"kind": kind, "harness": harness, "what": what, "cause": facts.get("cause", ""), "orders": orders, "facts": facts}
