"""The verb `budgets`: what may be spent, what is spent, what is reserved and what is left, pool by pool."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from harnesses.budgets.budget import FIELDS
from harnesses.budgets.pools import Account
from harnesses.budgets.usage import THREAD
from orchestrator.cli.value_lines import columns, json_line
from orchestrator.store.sqlite.sqlite_file import open_reader, translated
from orchestrator.store.sqlite.sqlite_rows import accounts
from orchestrator.text.terminal_text import one_line

_HEAD = ("POOL", "OF", "LIMIT", "SPENT", "RESERVED", "LEFT")


def read_accounts(store: str) -> Mapping[str, Account]:
    """Return where every pool stands.

    Raises:
        StoreError: the store is not there, or cannot be read.
    """
    with closing(open_reader(Path(store))) as db, translated(store):
        return {pool: account for pool, account in accounts(db, None).items() if not pool.startswith(THREAD)}


def budgets_lines(pools: Mapping[str, Account], *, as_json: bool) -> Iterator[str]:
    """Yield what is known of each pool: in JSON an object, else a line for each field that is limited or spent."""
    if as_json:
        yield from (json_line(_fields(pool, account)) for pool, account in pools.items())
    elif rows := [row for pool, account in pools.items() for row in _rows(pool, account)]:
        yield from columns(_HEAD, rows)


def _fields(pool: str, account: Account) -> dict[str, Any]:
    return {
        "pool": pool,
        "limits": account.budget.plain(),
        "spent": account.spent.plain(),
        "reserved": account.reserved.plain(),
        "left": account.left.plain(),
    }


def _rows(pool: str, account: Account) -> Iterator[tuple[str, ...]]:
    parts = [part.plain() for part in (account.budget, account.spent, account.reserved, account.left)]
    for name in FIELDS:
        if any(name in part for part in parts[:3]):
            limit, spent, reserved, left = (part.get(name) for part in parts)
            cells = (_or(limit, "none"), _or(spent, "0"), _or(reserved, "0"), _or(left, "no limit"))
            yield (one_line(pool), name, *cells)


def _or(amount: object, nothing: str) -> str:
    return nothing if amount is None else str(amount)
