"""Budgets as plain values, and limits that an operator sets.

A limit that is set takes effect at the next reservation, in a running program too, and holds over restarts, until the run
file or the program declares other limits than it did before.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from attrs import frozen

from harnesses.budgets.budget import FIELDS, budget_of
from harnesses.budgets.pools import Account
from harnesses.budgets.usage import AGENTS, HIDDEN
from harnesses.errors import HarnessError, one_of
from harnesses.timing.clock import now_us
from orchestrator.errors import UsageError
from orchestrator.operating.store_writing import commit, user_name
from orchestrator.store.file.server_copy import shown_place
from orchestrator.store.sqlite.sqlite_file import open_reader, translated
from orchestrator.store.sqlite.sqlite_rows import accounts
from orchestrator.store.store_operations import Fund


def read_accounts(store: str) -> Mapping[str, Account]:
    """Return where every pool stands.

    Raises:
        StoreError: the store is not there, or cannot be read.
    """
    with closing(open_reader(Path(store))) as db, translated(store):
        return {pool: account for pool, account in accounts(db, None).items() if not pool.startswith(HIDDEN)}


def account_fields(pool: str, account: Account) -> dict[str, Any]:
    """Return a pool as the command and the API show it."""
    return {
        "pool": pool,
        "limits": account.budget.plain(),
        "spent": account.spent.plain(),
        "reserved": account.reserved.plain(),
        "left": account.left.plain(),
    }


@frozen
class LimitsSet:
    """What became of the limits of a pool."""

    pool: str
    account: Account
    seq: int
    """`seq` of the record; 0 if the limits were these before."""
    by: str

    @property
    def fields(self) -> dict[str, Any]:
        return {**account_fields(self.pool, self.account), "changed": bool(self.seq), "by": self.by, "seq": self.seq or None}


def set_limits(store: str, pool: str, limits: Mapping[str, Any], *, by: str | None = None, reason: str = "") -> LimitsSet:
    """Set limits of a pool, and put on record who did; limits that are not named stay as they are.

    Args:
        limits: by field of `Budget`; None for no limit. Money may be text, to be exact.

    Raises:
        UsageError: there is no such pool, or a limit cannot be one; what agents report is only counted.
        StoreError: the store cannot be read.
    """
    who = user_name() if by is None else by
    known = {name: account for name, account in read_accounts(store).items() if not name.startswith(f"{AGENTS}/")}
    if not who.strip():
        raise UsageError("--by: expected who sets the limit, got nothing; whoever reads this later will want to know")
    if pool not in known:
        raise UsageError(
            f"no budget {pool!r:.100} in {shown_place(store)}: "
            f"{one_of(list(known)[:20], 'there is none; start a harness with one')}"
        )
    wrong = next((name for name in limits if name not in FIELDS), None)
    if wrong is not None or not limits:
        raise UsageError(f"budget {pool!r}: expected limits of {', '.join(FIELDS)}, got {wrong or 'none'!r}; correct the name")
    wanted = {name: limit for name, limit in {**known[pool].budget.plain(), **limits}.items() if limit is not None}
    try:
        budget = budget_of({**wanted, **({"money": str(wanted["money"])} if "money" in wanted else {})})
    except (HarnessError, ArithmeticError, TypeError, ValueError) as error:
        raise UsageError(f"budget {pool!r}: {error or 'money is not a number'}; correct the limit") from error
    seq = commit(store, Fund(pool, budget, now_us(), who, reason))
    return LimitsSet(pool, read_accounts(store)[pool], seq, who)
