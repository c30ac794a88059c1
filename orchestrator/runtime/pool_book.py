"""The pools of one program: which were funded, with what limits, and which of them a harness is charged to."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import reduce

from attrs import define, field

from harnesses.budgets.budget import UNLIMITED, Budget
from harnesses.enforceable_limits import unheld
from harnesses.timing.clock import now_us
from orchestrator.accounts.pool_names import RUN, Pool, chain_of, pool_name
from orchestrator.accounts.reservation_queue import Lines
from orchestrator.child_spec import check_budget
from orchestrator.errors import UsageError
from orchestrator.factories import AnyHarness
from orchestrator.recording.recorder import Recorder
from orchestrator.runtime.supervisor import Supervisor
from orchestrator.store.budget_operations import Fund


@define(eq=False)
class PoolBook:
    """All pools that were funded here, by their names in the store."""

    _recorder: Recorder
    _lines: Lines
    funded: dict[str, Pool] = field(factory=dict[str, Pool])

    def fund(self, name: str, budget: Budget | None, parent: Pool | None = None) -> Pool | None:
        """Have the limits of a pool recorded; None if there are none to record."""
        if budget is None:
            return None
        check_budget(repr(name), budget)
        pool = self.funded[name] = Pool(name, budget, parent)
        self._recorder.submit(Fund(name, budget, now_us()), lambda _: self._lines.ring((name,)))
        return pool

    def fund_again(self, budgets: Mapping[str, Budget | None]) -> None:
        """Set limits anew; see `Orchestrator.fund_again`."""
        for name, budget in budgets.items():
            before = self.funded.get(name)
            wanted = budget if budget is not None or before is None else Budget()
            if before is None or before.budget != wanted:
                self.fund(name, wanted, None if before is None else before.parent)

    def forget(self, name: str, pools_in_use: Iterable[Collection[str]]) -> None:
        """Forget the pool of a harness that is forgotten, unless another is charged to it."""
        if name in self.funded and not any(name in pools for pools in pools_in_use):
            del self.funded[name]
            self._lines.forget(name)

    def chain(self, own: Pool | None, supervisor: Supervisor | None) -> tuple[str, ...]:
        """Return the pools that a child of a supervisor is charged to, the nearest first."""
        pools = [own]
        while supervisor is not None:
            pools.append(self.funded.get(pool_of(supervisor)))
            supervisor = supervisor.parent
        return chain_of([*pools, self.funded.get(RUN)])

    def check_limits(self, name: str, harness: AnyHarness, pools: Iterable[str], own: Budget | None) -> None:
        """Refuse a limit, of these pools or its own, that holds nothing for an agent of the harness; raises `UsageError`."""
        limits = [self.funded[pool].budget for pool in pools if pool in self.funded]
        limits = limits if own is None else [*limits, own]
        agents = harness.asked_agents()
        if agents and (why := unheld(agents, reduce(Budget.min, limits, UNLIMITED))):
            raise UsageError(f"harness {name!r}: {why}")


def pool_of(supervisor: Supervisor) -> str:
    """Return the name in the store of a supervisor's pool."""
    path = supervisor.name
    while supervisor.parent is not None and supervisor.parent.parent is not None:
        supervisor = supervisor.parent
        path = f"{supervisor.name}/{path}"
    return pool_name("supervisor", path)
