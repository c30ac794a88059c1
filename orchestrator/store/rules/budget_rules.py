"""How a store accounts for budgets, independent of where it keeps their rows.

Invariant: every pool of a reservation's chain has room for it when it is recorded, in the one order of the store; so no crash
and no second program can exceed a limit, only a spender that spends more than it has reserved. That is charged too.

    Reserve ──► open ──SettleSpend──► the spent amount is charged, the rest is returned
                  └──── forfeit ────► all of it is charged, or what it says: its attempt ended without settling it
    Charge ──► charged in full, even past the limit: an agent reports what it has used
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any, Protocol

from attrs import evolve, field, frozen

from harnesses.budgets.budget import NOTHING, Denied, Granted, Later, Spend, budget_of, spend_of
from harnesses.budgets.pools import Account, decide, merged, not_open
from harnesses.budgets.usage import DECLARED, Charged, charge_usage, nearing
from orchestrator.codec import decode, encode_private
from orchestrator.store.store_operations import Charge, Fund, InsertRecord, Reserve, SettleSpend


@frozen
class Open:
    """A reservation that is not settled."""

    id: int
    """`seq` of its record."""
    harness: int
    epoch: int
    attempt: int
    step: int
    pools: tuple[str, ...]
    amounts: Spend
    on_cutoff: Spend | None = None
    """What is charged if it is never settled; None for all of it."""

    def plain(self) -> dict[str, Any]:
        """Return the amounts as stored: by field, and under `cutoff` what is charged if it is never settled."""
        return self.amounts.plain() | ({} if self.on_cutoff is None else {"cutoff": self.on_cutoff.plain()})


def amounts_of(plain: dict[str, Any]) -> tuple[Spend, Spend | None]:
    """Decode the result of `Open.plain`: what is reserved, and what is charged if it is never settled."""
    cutoff = plain.pop("cutoff", None)
    return spend_of(plain), None if cutoff is None else spend_of(cutoff)


def account_of(limits: str, spent: str, reserved: str) -> Account:
    """Return an account from the JSON of its parts."""
    return Account(budget_of(decode(limits)), spend_of(decode(spent)), spend_of(decode(reserved)))


def open_of(id: int, harness: int, epoch: int, attempt: int, step: int, pools: Any, amounts: Any) -> Open:
    """Return a reservation from its columns: pools and amounts are JSON."""
    return Open(id, harness, epoch, attempt, step, tuple(decode(pools)), *amounts_of(decode(amounts)))


class BudgetRows(Protocol):
    """Access to a store's accounts and reservations, within the transaction of a commit."""

    def account(self, pool: str) -> Account:
        """Return the account of a pool; a pool that was never funded has no limits."""
        ...

    def has(self, pool: str) -> bool:
        """Return whether there is such a pool."""
        ...

    def keep(self, pool: str, account: Account, time_us: int) -> None:
        """Store the account of a pool."""
        ...

    def find(self, id: int) -> Open | None:
        """Return an open reservation."""
        ...

    def of(self, harness: int) -> Iterable[Open]:
        """Return the open reservations of a harness, oldest first."""
        ...

    def add(self, reservation: Open) -> None:
        """Store a reservation."""
        ...

    def drop(self, id: int) -> None:
        """Delete a reservation."""
        ...

    def abandoned(self) -> Iterable[Open]:
        """Return the open reservations of dead runs."""
        ...


KIND = "budget"
"""Kind of the records."""


class BudgetRules:
    """Carries out the operations on budgets."""

    def __init__(self, rows: BudgetRows, insert_record: InsertRecord) -> None:
        self._rows = rows
        self._insert = insert_record
        self.operations: dict[type[Any], Callable[[Any], Any]] = {
            Fund: self.fund,
            Reserve: self.reserve,
            SettleSpend: self.settle,
            Charge: self.charge,
        }

    def fund(self, fund: Fund) -> int:
        """Set the limits of a pool; what an operator has set holds until a program declares something else than before."""
        account = self._rows.account(fund.pool)
        if not self._declares_anew(fund, account) or (account.budget == fund.budget and self._rows.has(fund.pool)):
            return 0
        self._rows.keep(fund.pool, evolve(account, budget=fund.budget), fund.time_us)
        body: dict[str, Any] = {"change": "funded", "pools": [fund.pool], "limits": fund.budget.plain()}
        if fund.by:
            body |= {"by": fund.by, "reason": fund.reason}
        return self._insert(0, 0, 0, 0, fund.time_us, encode_private(body), KIND)

    def _declares_anew(self, fund: Fund, account: Account) -> bool:
        """Return whether the limits of a pool are to be set, and remember what was declared for it.

        What a program has declared is kept only for pools that an operator has changed.
        """
        declared = f"{DECLARED}{fund.pool}"
        is_changed = self._rows.has(declared)
        if fund.by:
            if not is_changed:
                self._rows.keep(declared, Account(account.budget), fund.time_us)
            return True
        if is_changed and self._rows.account(declared).budget == fund.budget:
            return False
        if is_changed:
            self._rows.keep(declared, Account(fund.budget), fund.time_us)
        return True

    def reserve(self, ask: Reserve) -> int | Later | Denied:
        """Reserve amounts, if there is room. The caller has checked the ownership of the harness.

        Open reservations of dead runs are charged before anybody is told to wait.
        """
        verdict = self._judge(ask)
        if isinstance(verdict, Later) and self._forfeit(self._rows.abandoned(), ask.time_us):
            verdict = self._judge(ask)
        if not isinstance(verdict, Granted):
            return verdict
        pools = merged(ask.pools)
        for pool in pools:
            self._rows.keep(pool, self._rows.account(pool).reserve(ask.amounts), ask.time_us)
        reservation = Open(0, ask.harness, ask.epoch, ask.attempt, ask.step, pools, ask.amounts, ask.on_cutoff)
        body = encode_private({"change": "reserved", "pools": pools, "amounts": reservation.plain()})
        seq = self._insert(ask.harness, ask.epoch, ask.attempt, ask.step, ask.time_us, body, KIND)
        self._rows.add(evolve(reservation, id=seq))
        return seq

    def settle(self, settle: SettleSpend) -> int:
        """Charge what was spent, even beyond the reservation, and return the rest to the pools.

        Raises:
            HarnessMisuse: see `SettleSpend`.
        """
        reservation = self._rows.find(settle.id)
        if reservation is None:
            raise not_open(settle.id)
        change = "settled" if settle.actual.exceeds(reservation.amounts) is None else "overspent"
        return self._close(reservation, settle.actual, settle.time_us, change)

    def charge(self, charge: Charge) -> Charged:
        """Charge what an agent reports. The caller has checked the ownership of the harness."""
        charged = charge_usage(
            self._rows.account,
            lambda pool, account: self._rows.keep(pool, account, charge.time_us),
            charge.pools,
            charge.teller,
            charge.usage,
            turns=charge.turns,
            thread=charge.thread,
            settled=charge.settled,
        )
        if not charged.usage:
            return charged
        body: dict[str, Any] = {"change": "charged", "pools": merged((*charge.pools, charge.teller)), "agent": charge.agent}
        body |= {"spent": charged.usage.without({"turns", *charge.settled}).spend().plain(), "usage": charged.usage.plain()}
        optional = {"thread": charge.thread, "settled": charge.settled, "near": charged.near, "over": charged.over}
        body |= {name: said for name, said in optional.items() if said}
        place = (charge.harness, charge.epoch, charge.attempt, charge.step, charge.time_us)
        self._insert(*place, encode_private(body), KIND)
        return charged

    def forfeit(self, harness: int, time_us: int) -> None:
        """Charge a harness's open reservations: an attempt begins, or the harness is released."""
        self._forfeit(self._rows.of(harness), time_us)

    def _judge(self, ask: Reserve) -> Granted | Later | Denied:
        chain = {pool: self._rows.account(pool) for pool in ask.pools}
        held = sum((reservation.amounts for reservation in self._rows.of(ask.harness)), start=NOTHING)
        return decide(chain, ask.amounts, held)

    def _forfeit(self, reservations: Iterable[Open], time_us: int) -> int:
        lost = list(reservations)
        for reservation in lost:
            charged = reservation.amounts if reservation.on_cutoff is None else reservation.on_cutoff
            self._close(reservation, charged, time_us, "forfeited")
        return len(lost)

    def _close(self, reservation: Open, charged: Spend, time_us: int, change: str) -> int:
        self._rows.drop(reservation.id)
        near: list[str] = []
        for pool in reservation.pools:
            before = self._rows.account(pool)
            account = before.settle(reservation.amounts, charged)
            near += nearing(pool, before, account)
            self._rows.keep(pool, account, time_us)
        body: dict[str, Any] = {"change": change, "reservation": reservation.id, "pools": reservation.pools}
        if near:
            body["near"] = near
        text = encode_private({**body, "amounts": reservation.amounts.plain(), "spent": charged.plain()})
        return self._insert(reservation.harness, reservation.epoch, reservation.attempt, reservation.step, time_us, text, KIND)


@frozen(eq=False)
class MemoryBudgetRows:
    """The budget rows of a store in memory."""

    _accounts: dict[str, Account] = field(factory=dict[str, Account])
    _open: dict[int, Open] = field(factory=dict[int, Open])

    def account(self, pool: str) -> Account:
        return self._accounts.get(pool, Account())

    def has(self, pool: str) -> bool:
        return pool in self._accounts

    def keep(self, pool: str, account: Account, time_us: int) -> None:
        self._accounts[pool] = account

    def accounts(self, pools: Collection[str] | None = None) -> dict[str, Account]:
        """Return the accounts of pools, all or some, by name."""
        return {pool: self._accounts[pool] for pool in sorted(self._accounts) if pools is None or pool in pools}

    def find(self, id: int) -> Open | None:
        return self._open.get(id)

    def of(self, harness: int) -> Iterable[Open]:
        return [reservation for reservation in self._open.values() if reservation.harness == harness]

    def add(self, reservation: Open) -> None:
        self._open[reservation.id] = reservation

    def drop(self, id: int) -> None:
        del self._open[id]

    def abandoned(self) -> Iterable[Open]:
        return ()
