"""What can be asked of a store about budgets. Values.

A reservation is on disk before anything of it is spent. A harness's attempt begins with nothing reserved, and a harness that
is given up leaves nothing reserved: what it has open then is charged in full, for what became of it nobody knows.
"""

from __future__ import annotations

from typing import TypeAlias

from attrs import frozen

from harnesses.budget import Budget, Spend


@frozen
class Fund:
    """Set the limits of a pool, making it if it is new. What was spent from it stays spent.

    Result: the `seq` of the record; 0 if nothing has changed.
    """

    pool: str
    budget: Budget
    time_us: int


@frozen
class Reserve:
    """Reserve in all of these pools, or in none. Result: the reservation's id, `Later`, `Denied`, or `OwnershipLost`."""

    pools: tuple[str, ...]
    harness: int
    epoch: int
    attempt: int
    step: int
    """The one being made."""
    time_us: int
    amounts: Spend


@frozen
class SettleSpend:
    """Charge what was spent of a reservation, and give back the rest. Result: the `seq` of the record.

    `HarnessMisuse` if the reservation is not open; or if more was spent than it was for: then it is charged in full.
    """

    id: int
    time_us: int
    actual: Spend


BudgetOperation: TypeAlias = Fund | Reserve | SettleSpend
