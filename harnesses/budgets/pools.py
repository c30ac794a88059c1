"""Budget pools and the reservations open in them. In memory; no I/O, no clock.

A reservation is charged to every pool of its chain (the harness's own budget, its supervisor's, the program's), or to none. A
store that keeps its own accounts decides with the same functions.
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
    """The limit, spent and reserved amounts of one pool."""

    budget: Budget = UNLIMITED
    spent: Spend = NOTHING
    reserved: Spend = NOTHING

    def reserve(self, asked: Spend) -> Account:
        """Return the account with a further reservation, which `decide` has granted."""
        return evolve(self, reserved=self.reserved + asked)

    def settle(self, reserved: Spend, charged: Spend) -> Account:
        """Return the account after a reservation was settled with the charged amount."""
        return evolve(self, reserved=self.reserved - reserved, spent=self.spent + charged)

    @property
    def left(self) -> Budget:
        """The amount that is neither spent nor reserved."""
        return self.budget.left(self.spent + self.reserved)


@frozen
class Reservation:
    """A reserved amount; it counts as spent until it is settled."""

    id: int
    pools: tuple[str, ...]
    owner: Owner
    amounts: Spend
    on_cutoff: Spend | None = None
    """What is charged if it is never settled; None for all of it."""

    @property
    def forfeited(self) -> Spend:
        """What is charged if it is never settled."""
        return self.amounts if self.on_cutoff is None else self.on_cutoff


@frozen
class Reserved:
    """The reservation was made."""

    id: int


def decide(chain: Mapping[str, Account], asked: Spend, held: Spend = NOTHING) -> Granted | Later | Denied:
    """Decide whether `asked` may be reserved in every pool of a chain.

    A spender may wait for a field only if it holds nothing of that field or of a later one in `FIELDS`. Waiting spenders
    therefore cannot form a cycle.

    Args:
        held: the sum of what the spender has already reserved.
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


def not_open(id: int) -> HarnessMisuse:
    """Return the error for settling a reservation that is not open."""
    return HarnessMisuse(f"reservation {id} is not open: expected each to be settled once, by the attempt that made it")


def merged(pools: Sequence[str]) -> tuple[str, ...]:
    """Return the pools without duplicates, in order."""
    return tuple(dict.fromkeys(pools))


class Pools:
    """Accounts by pool name, and the open reservations of each owner."""

    def __init__(self) -> None:
        self._accounts: dict[str, Account] = {}
        self._open: dict[int, Reservation] = {}
        self._by_owner: dict[Owner, dict[int, Reservation]] = {}
        self._last = 0

    def account(self, pool: str) -> Account:
        """Return the account of a pool; a pool that was never funded has no limits."""
        return self._accounts.get(pool, Account())

    @property
    def names(self) -> tuple[str, ...]:
        """All pools, in order of creation."""
        return tuple(self._accounts)

    def reservations(self, owner: Owner) -> tuple[Reservation, ...]:
        """Return the open reservations of an owner, oldest first."""
        return tuple(self._by_owner.get(owner, {}).values())

    def fund(self, pool: str, budget: Budget) -> Account:
        """Set the limits of a pool; spent amounts are kept. A limit below them allows no further spend."""
        self._accounts[pool] = account = evolve(self.account(pool), budget=budget)
        return account

    def reserve(
        self, pools: Sequence[str], owner: Owner, asked: Spend, on_cutoff: Spend | None = None
    ) -> Reserved | Later | Denied:
        """Reserve in all of the pools, or in none.

        Args:
            on_cutoff: what `forfeit` charges; None for the whole reservation.
        """
        chain = {pool: self.account(pool) for pool in pools}
        verdict = decide(chain, asked, self.held(owner))
        if not isinstance(verdict, Granted):
            return verdict
        self._accounts.update({pool: account.reserve(asked) for pool, account in chain.items()})
        self._last += 1
        reservation = Reservation(self._last, merged(pools), owner, asked, on_cutoff)
        self._open[reservation.id] = self._by_owner.setdefault(owner, {})[reservation.id] = reservation
        return Reserved(reservation.id)

    def held(self, owner: Owner) -> Spend:
        """Return the sum of an owner's open reservations."""
        return sum((reservation.amounts for reservation in self.reservations(owner)), start=NOTHING)

    def keep(self, pool: str, account: Account) -> None:
        """Replace the account of a pool, after a charge that was not reserved."""
        self._accounts[pool] = account

    def settle(self, id: int, actual: Spend) -> Spend:
        """Charge what was spent, even if it is more than was reserved, release the rest, and return what was charged.

        Raises:
            HarnessMisuse: the reservation does not exist.
        """
        reservation = self._open.get(id)
        if reservation is None:
            raise not_open(id)
        self._close(reservation, actual)
        return actual

    def forfeit(self, owner: Owner) -> tuple[Reservation, ...]:
        """Charge the open reservations of an owner, in full or as they say, since it is unknown how much was spent."""
        lost = self.reservations(owner)
        for reservation in lost:
            self._close(reservation, reservation.forfeited)
        return lost

    def _close(self, reservation: Reservation, charged: Spend) -> None:
        del self._open[reservation.id]
        mine = self._by_owner[reservation.owner]
        del mine[reservation.id]
        if not mine:
            del self._by_owner[reservation.owner]
        for pool in reservation.pools:
            self._accounts[pool] = self._accounts[pool].settle(reservation.amounts, charged)
