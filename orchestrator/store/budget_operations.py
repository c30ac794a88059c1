"""What can be asked of a store about budgets. Values.

A reservation is on disk before anything of it is spent. A harness's attempt begins with nothing reserved, and a harness that
is given up leaves nothing reserved: what it has open then is charged in full, for what became of it nobody knows.
"""

from __future__ import annotations

from typing import TypeAlias

from attrs import frozen

from harnesses.budgets.budget import Budget, Spend
from harnesses.budgets.usage import Usage


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


@frozen(kw_only=True)
class Charge:
    """Charge what an agent reports to all of these pools, past their limits too: it has happened.

    Result: a `harnesses.budgets.charging.Charged`; or `OwnershipLost`, and nothing is charged.
    """

    pools: tuple[str, ...]
    teller: str
    """The pool that tells what the agents of this harness have used."""
    harness: int
    epoch: int
    attempt: int
    step: int
    """The one being made."""
    time_us: int
    agent: str
    usage: Usage
    """What was used since the last report; with a thread, its total."""
    turns: int = 0
    """Calls of the agent that are counted with it."""
    thread: str = ""
    """The conversation that `usage` is the total of."""
    settled: tuple[str, ...] = ()
    """Fields that the harness settles itself: they are not charged to `pools`."""


BudgetOperation: TypeAlias = Fund | Reserve | SettleSpend | Charge
