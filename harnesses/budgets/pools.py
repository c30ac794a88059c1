"""Pools that are spent from together, and the reservations open in them. In memory; no I/O, no clock.

A reservation is charged to every pool of its chain (the harness's own budget, its supervisor's, the program's), all or
nothing. A store that keeps its accounts elsewhere decides with the same functions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from attrs import evolve, frozen

from harnesses.budgets.budget import FIELDS, NOTHING, UNLIMITED, Budget, Denied, Granted, Later, Spend, judge
from harnesses.errors import HarnessMisuse

Owner: TypeAlias = int | str


@frozen
class Account:
    """Where one pool stands."""

    budget: Budget = UNLIMITED
    spent: Spend = NOTHING
    reserved: Spend = NOTHING

    def reserve(self, asked: Spend) -> Account:
        """Return it with a reservation more, which `decide` has granted."""
        return evolve(self, reserved=self.reserved + asked)

    def settle(self, reserved: Spend, charged: Spend) -> Account:
        """Return it with a reservation less, of which so much was spent."""
        return evolve(self, reserved=self.reserved - reserved, spent=self.spent + charged)

    @property
    def left(self) -> Budget:
        """What is neither spent nor reserved."""
        return self.budget.left(self.spent + self.reserved)


@frozen
class Reservation:
    """An amount that may be spent, and that counts as spent until it is settled."""

    id: int
    pools: tuple[str, ...]
    owner: Owner
    amounts: Spend


@frozen
class Reserved:
    """The amounts are reserved."""

    id: int


def decide(chain: Mapping[str, Account], asked: Spend, held: Spend = NOTHING) -> Granted | Later | Denied:
    """Return whether `asked` may be reserved in every pool of a chain.

    Nobody waits for a field who holds some of it, or of one that comes after it in `FIELDS`. So of those who wait, each
    holds only what comes before, and they cannot wait for each other in a ring.

    Args:
        held: what the asker has reserved already, together.
    """
    verdicts = [judge(account.budget, account.spent, account.reserved, asked, pool=pool) for pool, account in chain.items()]
    for verdict in verdicts:
        if isinstance(verdict, Denied):
            return verdict
    waits = [verdict for verdict in verdicts if isinstance(verdict, Later)]
    if not waits:
        return Granted()
    first = min(waits, key=lambda wait: FIELDS.index(wait.field))
    if any(getattr(held, name) for name in FIELDS[FIELDS.index(first.field) :]):
        return Denied(first.field, first.limit, first.spent, first.reserved, first.asked, first.pool)
    return first


def charge(id: int, reserved: Spend, actual: Spend) -> tuple[Spend, HarnessMisuse | None]:
    """Return what to charge for a reservation of which `actual` was spent, and the error if that is more than it was for."""
    name = actual.exceeds(reserved)
    if name is None:
        return actual, None
    most, was = getattr(reserved, name), getattr(actual, name)
    return reserved, HarnessMisuse(
        f"reservation {id} was overspent: expected at most the {most} {name} reserved, was {was}; "
        "it is charged in full; reserve the most that can be spent"
    )


def not_open(id: int) -> HarnessMisuse:
    """Return the error of settling what is not open."""
    return HarnessMisuse(f"reservation {id} is not open: expected each to be settled once, by the attempt that made it")


def merged(pools: Sequence[str]) -> tuple[str, ...]:
    """Return each pool once, in order."""
    return tuple(dict.fromkeys(pools))


class Pools:
    """Accounts by name, and who has what reserved in them."""

    def __init__(self) -> None:
        self._accounts: dict[str, Account] = {}
        self._open: dict[int, Reservation] = {}
        self._by_owner: dict[Owner, dict[int, Reservation]] = {}
        self._last = 0

    def account(self, pool: str) -> Account:
        """Return where a pool stands; one that nobody has funded has no limits."""
        return self._accounts.get(pool, Account())

    @property
    def names(self) -> tuple[str, ...]:
        """Every pool, in the order in which they came."""
        return tuple(self._accounts)

    def reservations(self, owner: Owner) -> tuple[Reservation, ...]:
        """Return what an owner has open, oldest first."""
        return tuple(self._by_owner.get(owner, {}).values())

    def fund(self, pool: str, budget: Budget) -> Account:
        """Set the limits of a pool; what was spent stays spent. Limits below that allow nothing more."""
        self._accounts[pool] = account = evolve(self.account(pool), budget=budget)
        return account

    def reserve(self, pools: Sequence[str], owner: Owner, asked: Spend) -> Reserved | Later | Denied:
        """Reserve in all of the pools, or in none."""
        chain = {pool: self.account(pool) for pool in pools}
        verdict = decide(chain, asked, self.held(owner))
        if not isinstance(verdict, Granted):
            return verdict
        self._accounts.update({pool: account.reserve(asked) for pool, account in chain.items()})
        self._last += 1
        reservation = Reservation(self._last, merged(pools), owner, asked)
        self._open[reservation.id] = self._by_owner.setdefault(owner, {})[reservation.id] = reservation
        return Reserved(reservation.id)

    def held(self, owner: Owner) -> Spend:
        """Return what an owner has open, together."""
        return sum((reservation.amounts for reservation in self.reservations(owner)), start=NOTHING)

    def keep(self, pool: str, account: Account) -> None:
        """Set where a pool stands: something was charged that nobody had reserved."""
        self._accounts[pool] = account

    def settle(self, id: int, actual: Spend) -> Spend:
        """Charge what was spent of a reservation, give back the rest, and return what was charged.

        Raises:
            HarnessMisuse: there is no such reservation; or more was spent than it was for, and it was charged in full.
        """
        reservation = self._open.get(id)
        if reservation is None:
            raise not_open(id)
        charged, error = charge(id, reservation.amounts, actual)
        self._close(reservation, charged)
        if error is not None:
            raise error
        return charged

    def forfeit(self, owner: Owner) -> tuple[Reservation, ...]:
        """Charge in full all that an owner has open: what became of it nobody knows."""
        lost = self.reservations(owner)
        for reservation in lost:
            self._close(reservation, reservation.amounts)
        return lost

    def _close(self, reservation: Reservation, charged: Spend) -> None:
        del self._open[reservation.id]
        mine = self._by_owner[reservation.owner]
        del mine[reservation.id]
        if not mine:
            del self._by_owner[reservation.owner]
        for pool in reservation.pools:
            self._accounts[pool] = self._accounts[pool].settle(reservation.amounts, charged)
