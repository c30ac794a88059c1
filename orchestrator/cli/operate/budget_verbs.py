"""The verbs `budgets` and `budgets set`: what may be spent, and an operator's change of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from cyclopts import App, Parameter

from harnesses.budgets.budget import FIELDS
from harnesses.budgets.pools import Account
from orchestrator.cli import std_streams as streams
from orchestrator.cli.exit_codes import ExitCode
from orchestrator.cli.operate.approval_verbs import By
from orchestrator.cli.verb_options import USUAL, Common, Words, print_all
from orchestrator.errors import UsageError
from orchestrator.operating.pool_accounts import account_fields, read_accounts, set_limits
from orchestrator.store.file.server_copy import shown_place
from orchestrator.text.terminal_text import one_line
from orchestrator.text.value_lines import columns, json_line

_HEAD = ("POOL", "OF", "LIMIT", "SPENT", "RESERVED", "LEFT")
_NO_LIMIT = "none"

budgets = App(name="budgets", help="Show budgets: limits, what is spent, and what is left.")


@budgets.default
def default(*, common: Common = USUAL) -> int:
    """Show budgets: limits, what is spent, and what is left."""
    store = common.store_path
    if not print_all(budgets_lines(read_accounts(store), as_json=common.json)):
        streams.say(f"{shown_place(store)} has no budget")
    return ExitCode.OK


@budgets.command(name="set")
def set_budget(
    pool: Annotated[Words, Parameter(metavar="POOL")],
    limit: Annotated[Words, Parameter(metavar="WHAT=LIMIT")],
    /,
    *more: Annotated[Words, Parameter(metavar="WHAT=LIMIT")],
    by: By = None,
    reason: Words = "",
    common: Common = USUAL,
) -> int:
    """Raise or lower limits of a budget.

    WHAT is steps, working_time_s, turns, tool_calls, tokens or money; LIMIT counts from the first start, and `none` is no
    limit. It takes effect at the next spend, in a running program too, and holds over restarts, until the run file or the
    program declares other limits than it did before. What has ended because its budget was spent is not started by it:
    `orchestrator start NAME`.

    Example:
        orchestrator budgets set harness/builder tokens=2000000 money=40 --reason "the deadline moved"

    Args:
        pool: the budget, as `orchestrator budgets` shows it
        limit: a limit
        more: further limits
        by: who sets it (default: the user who gives the command)
        reason: why; kept with it
    """
    done = set_limits(common.store_path, pool, dict(map(_limit, (limit, *more))), by=by, reason=reason)
    if common.json:
        print_all([json_line(done.fields)])
    limits = ", ".join(f"{name} {amount}" for name, amount in done.account.budget.plain().items()) or "no limit"
    streams.say(f"{one_line(pool)} has {'' if done.seq else 'already '}{limits}")
    return ExitCode.OK


def _limit(text: str) -> tuple[str, Any]:
    name, equals, amount = text.partition("=")
    if not equals or name not in FIELDS:
        raise UsageError(f"budgets set: expected one of {', '.join(FIELDS)}, and its limit, as tokens=5000, got {text!r:.100}")
    if amount == _NO_LIMIT or name == "money":
        return name, None if amount == _NO_LIMIT else amount
    try:
        return name, float(amount) if name == "working_time_s" else int(amount)
    except ValueError:
        raise UsageError(f"budgets set: {name}: expected a number or {_NO_LIMIT}, got {amount!r:.100}") from None


def budgets_lines(pools: Mapping[str, Account], *, as_json: bool) -> Iterator[str]:
    """Yield what is known of each pool: in JSON an object, else a line for each field that is limited or spent."""
    if as_json:
        yield from (json_line(account_fields(pool, account)) for pool, account in pools.items())
    elif rows := [row for pool, account in pools.items() for row in _rows(pool, account)]:
        yield from columns(_HEAD, rows)


def _rows(pool: str, account: Account) -> Iterator[tuple[str, ...]]:
    parts = [part.plain() for part in (account.budget, account.spent, account.reserved, account.left)]
    for name in FIELDS:
        if any(name in part for part in parts[:3]):
            limit, spent, reserved, left = (part.get(name) for part in parts)
            cells = (_or(limit, "none"), _or(spent, "0"), _or(reserved, "0"), _or(left, "no limit"))
            yield (one_line(pool), name, *cells)


def _or(amount: object, nothing: str) -> str:
    return nothing if amount is None else str(amount)
