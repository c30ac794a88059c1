"""The supervisors and pools of a run file: `[[supervisor]]` and `[[pool]]`, and `supervisor` and `pool` of a harness.

    [[supervisor]]                      the arguments of `Orchestrator.supervisor`
    name = "desk"
    strategy = "one_for_all"
    budget = { steps = 1000 }

    [[pool]]                            a name, perhaps a parent, and the limits of `Budget`
    name = "models"
    money = "5.00"

    [[harness]]
    name = "eurusd"
    supervisor = "desk"
    pool = "models"

A parent may stand before or after what it is the parent of.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import reduce
from typing import Annotated, Any, TypeVar

from attrs import field, frozen
from msgspec import Meta

from harnesses.budgets.budget import Budget
from harnesses.features.planning.feature_list import cycle_in
from orchestrator.cli.run.ready_made import way_out
from orchestrator.errors import UsageError
from orchestrator.orchestrator import Orchestrator
from orchestrator.recording.budget_account import Pool, pool_name
from orchestrator.restart import Restart, Strategy
from orchestrator.runtime.supervisor import Supervisor

_MemberT = TypeVar("_MemberT")
_GroupT = TypeVar("_GroupT", bound="SupervisorTable | PoolTable")


@frozen(kw_only=True)
class SupervisorTable:
    """A `[[supervisor]]` table."""

    name: str
    strategy: Strategy = Strategy.ONE_FOR_ONE
    intensity: Annotated[int, Meta(ge=0)] = 5
    period_s: Annotated[float, Meta(gt=0, le=1e9)] = 60.0
    restart: Restart = Restart.TRANSIENT
    parent: str | None = None


@frozen(kw_only=True)
class PoolTable:
    """A `[[pool]]` table, without its limits."""

    name: str
    parent: str | None = None


@frozen
class Opened:
    """The supervisors and pools of a run that has begun, by name."""

    supervisors: dict[str, Supervisor] = field(factory=dict[str, Supervisor])
    pools: dict[str, Pool] = field(factory=dict[str, Pool])

    def supervisor(self, name: str | None, harness: str) -> Supervisor | None:
        """Return the supervisor of a harness.

        Raises:
            UsageError: the run has begun without it.
        """
        return _member("supervisor", name, self.supervisors, harness)

    def pool(self, name: str | None, harness: str) -> Pool | None:
        """Return the pool of a harness; see `supervisor`."""
        return _member("pool", name, self.pools, harness)


@frozen
class Groups:
    """The supervisors and pools of a run file, parents first, with their budgets by name."""

    supervisors: tuple[SupervisorTable, ...] = ()
    pools: tuple[PoolTable, ...] = ()
    supervised: Mapping[str, Budget | None] = field(factory=dict[str, "Budget | None"])
    pooled: Mapping[str, Budget] = field(factory=dict[str, Budget])

    def open(self, orchestrator: Orchestrator, opened: Opened) -> list[str]:
        """Make those that are not there yet, in an orchestrator that is open; return which they are."""
        supervisors, pools, made = opened.supervisors, opened.pools, list[str]()
        for one in self.supervisors:
            if one.name in supervisors:
                continue
            made.append(f"supervisor {one.name}")
            supervisors[one.name] = orchestrator.supervisor(
                one.name,
                strategy=one.strategy,
                intensity=one.intensity,
                period_s=one.period_s,
                restart=one.restart,
                parent=supervisors.get(one.parent or ""),
                budget=self.supervised.get(one.name),
            )
        for each in self.pools:
            if each.name in pools:
                continue
            made.append(f"pool {each.name}")
            pools[each.name] = orchestrator.pool(each.name, self.pooled[each.name], pools.get(each.parent or ""))
        return made

    def added_to(self, before: Groups) -> Groups:
        """Return `before` with what is new here; what has changed is as it was there."""
        supervised, pooled = {**self.supervised, **before.supervised}, {**self.pooled, **before.pooled}
        supervisors, pools = _added(before.supervisors, self.supervisors), _added(before.pools, self.pools)
        return Groups(supervisors, pools, supervised, pooled)

    def with_budgets(self, of: Groups) -> Groups:
        """Return these with the budgets of others of the same names."""
        supervised = {name: of.supervised.get(name, budget) for name, budget in self.supervised.items()}
        return Groups(
            self.supervisors,
            self.pools,
            supervised,
            {name: of.pooled.get(name, budget) for name, budget in self.pooled.items()},
        )

    def changes_of(self, before: Groups) -> Iterator[str]:
        """Yield what is here otherwise than before, or no more, with what applies it."""
        for kind, now, then, budgets, were in (
            ("supervisor", self.supervisors, before.supervisors, self.supervised, before.supervised),
            ("pool", self.pools, before.pools, self.pooled, before.pooled),
        ):
            tables = {one.name: one for one in now}
            for one in then:
                if tables.get(one.name) != one:
                    what = "has changed" if one.name in tables else "is gone from the file"
                    yield f"{kind} {one.name} {what}: a new program applies it"
                elif budgets.get(one.name) != were.get(one.name):
                    yield f"the budget of {kind} {one.name} has changed: the next restart of a harness applies it"

    def budgets(self) -> dict[str, Budget | None]:
        """Return the limits of all, None of one without, by the names of their pools in the store."""
        paths: dict[str, str] = {}
        for one in self.supervisors:  # parents first
            paths[one.name] = one.name if one.parent is None else f"{paths[one.parent]}/{one.name}"
        supervised = {pool_name("supervisor", path): self.supervised.get(name) for name, path in paths.items()}
        return supervised | {pool_name("pool", name): budget for name, budget in self.pooled.items()}

    def tightest(self, budget: Budget | None, supervisor: str | None, pool: str | None) -> Budget | None:
        """Return what a harness may spend at most with others: by a budget for all, and those of its supervisors and pools."""
        supervised, pooled = _line(supervisor, self.supervisors), _line(pool, self.pools)
        limits = [budget, *(self.supervised.get(name) for name in supervised), *(self.pooled.get(name) for name in pooled)]
        given = [limit for limit in limits if limit is not None]
        return reduce(Budget.min, given) if given else None

    def top(self, supervisor: str | None) -> str | None:
        """Return the uppermost supervisor above one, or it itself."""
        return None if supervisor is None else [*_line(supervisor, self.supervisors)][-1]

    def check(self, option: str, name: str | None, where: str) -> None:
        """Refuse the name of a supervisor or pool that is not there.

        Raises:
            UsageError: there is none of that name.
        """
        known = [one.name for one in (self.supervisors if option == "supervisor" else self.pools)]
        if name is not None and name not in known:
            raise UsageError(f"{where}: {option}: {_describe_unknown(option, name, known)}")


def _added(before: Sequence[_GroupT], now: Sequence[_GroupT]) -> tuple[_GroupT, ...]:
    names = {one.name for one in before}
    return (*before, *(one for one in now if one.name not in names))


def in_order(tables: Sequence[_GroupT], kind: str, where: str, check_name: Callable[[str], None]) -> tuple[_GroupT, ...]:
    """Return tables with parents before those that they are parents of.

    Raises:
        UsageError: a name is wrong, there twice, or of no parent; or they are parents of each other.
    """
    known: dict[str, _GroupT] = {}
    for one in tables:
        check_name(one.name)
        if one.name in known:
            raise UsageError(f"{where}: {kind} {one.name!r} is there twice: expected a name of its own for each; rename one")
        known[one.name] = one
    for one in tables:
        if one.parent is not None and one.parent not in known:
            raise UsageError(f"{where}: {kind} {one.name!r}: parent: {_describe_unknown(kind, one.parent, list(known))}")
    if ring := cycle_in({one.name: [one.parent] if one.parent else [] for one in tables}):
        raise UsageError(f"{where}: {kind}s are parents of each other: expected no ring, got {' → '.join(ring)}; cut one")
    return tuple(sorted(tables, key=lambda one: _depth(one, known)))


def _member(kind: str, name: str | None, opened: Mapping[str, _MemberT], harness: str) -> _MemberT | None:
    if name is not None and name not in opened:
        raise UsageError(
            f"harness {harness!r}: {kind} {name!r} was not there when the run began; stop the run and begin it anew"
        )
    return None if name is None else opened[name]


def _line(name: str | None, tables: Sequence[SupervisorTable | PoolTable]) -> Iterator[str]:
    """Yield a name, and those of the parents above it."""
    parents = {one.name: one.parent for one in tables}
    while name is not None:
        yield name
        name = parents.get(name)


def _depth(one: SupervisorTable | PoolTable, known: Mapping[str, Any]) -> int:
    return 0 if one.parent is None else 1 + _depth(known[one.parent], known)


def _describe_unknown(kind: str, name: str, known: list[str]) -> str:
    there = f"expected one of {', '.join(known)}" if known else f"expected the name of a [[{kind}]] table, and there is none"
    return f"{there}, got {name!r:.100}{way_out(name, known)}"
