"""Budgets as plain values."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from harnesses.budgets.pools import Account
from harnesses.budgets.usage import THREAD
from orchestrator.store.sqlite.sqlite_file import open_reader, translated
from orchestrator.store.sqlite.sqlite_rows import accounts


def read_accounts(store: str) -> Mapping[str, Account]:
    """Return where every pool stands.

    Raises:
        StoreError: the store is not there, or cannot be read.
    """
    with closing(open_reader(Path(store))) as db, translated(store):
        return {pool: account for pool, account in accounts(db, None).items() if not pool.startswith(THREAD)}


def account_fields(pool: str, account: Account) -> dict[str, Any]:
    """Return a pool as the command and the API show it."""
    return {
        "pool": pool,
        "limits": account.budget.plain(),
        "spent": account.spent.plain(),
        "reserved": account.reserved.plain(),
        "left": account.left.plain(),
    }
