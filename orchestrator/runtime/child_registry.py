"""What one program runs, by name: its harnesses and its funded pools."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextvars import Context, copy_context
from functools import partial, reduce
from typing import cast

import trio
from attrs import define, evolve, field

from harnesses.agent import unheld
from harnesses.budgets.budget import UNLIMITED, Budget
from harnesses.errors import UnknownHarness
from harnesses.messages.requests import queries_of
from harnesses.timing.clock import now_us
from orchestrator.child_spec import check_budget
from orchestrator.errors import OrchestratorError, UsageError
from orchestrator.factories import AnyHarness
from orchestrator.mail.mail_delivery import MailDelivery
from orchestrator.recording.attempt import is_in_attempt
from orchestrator.recording.budget_account import RUN, Lines, Pool, chain_of, pool_name
from orchestrator.recording.recorder import Recorder
from orchestrator.records import ChildRecord
from orchestrator.runtime.child import Child
from orchestrator.runtime.run_shutdown import RunShutdown
from orchestrator.runtime.start_burst import StartBurst
from orchestrator.runtime.started_children import ENDED, KEPT_ENDED, ChildStart, Families, Unmade, has_ended_for_good
from orchestrator.runtime.supervisor import Supervisor
from orchestrator.store.store_operations import Fund
from orchestrator.store.store_protocol import Store


@define(eq=False, repr=False)
class PoolBook:
    """All pools that were funded here, by their names in the store."""

    _recorder: Recorder
    _lines: Lines
    funded: dict[str, Pool] = field(factory=dict[str, Pool])

    def fund(self, name: str, budget: Budget | None, parent: Pool | None = None) -> Pool | None:
        """Record the limits of a pool; return None if there are none to record."""
        if budget is None:
            return None
        check_budget(repr(name), budget)
        pool = self.funded[name] = Pool(name, budget, parent)
        self._recorder.submit(Fund(name, budget, now_us()), lambda _: self._lines.ring((name,)))
        return pool

    def fund_again(self, budgets: Mapping[str, Budget | None]) -> None:
        """Replace limits; see `Orchestrator.fund_again`."""
        for name, budget in budgets.items():
            before = self.funded.get(name)
            wanted = budget if budget is not None or before is None else Budget()
            if before is None or before.budget != wanted:
                self.fund(name, wanted, None if before is None else before.parent)

    def forget(self, name: str, pools_in_use: Iterable[Collection[str]]) -> None:
        """Forget the pool of a forgotten harness, unless another harness is charged to it."""
        if name in self.funded and not any(name in pools for pools in pools_in_use):
            del self.funded[name]
            self._lines.forget(name)

    def chain(self, own: Pool | None, supervisor: Supervisor | None) -> tuple[str, ...]:
        """Return the pools that a child of a supervisor is charged to, nearest first."""
        pools = [own]
        while supervisor is not None:
            pools.append(self.funded.get(pool_of(supervisor)))
            supervisor = supervisor.parent
        return chain_of([*pools, self.funded.get(RUN)])

    def check_limits(self, name: str, harness: AnyHarness, pools: Iterable[str], own: Budget | None) -> None:
        """Raise `UsageError` if a limit, of these pools or its own, cannot be enforced for an agent of the harness."""
        limits = [self.funded[pool].budget for pool in pools if pool in self.funded]
        limits = limits if own is None else [*limits, own]
        agents = harness.asked_agents()
        if agents and (why := unheld(agents, reduce(Budget.min, limits, UNLIMITED))):
            raise UsageError(f"harness {name!r}: {why}")


def pool_of(supervisor: Supervisor) -> str:
    """Return the name of a supervisor's pool in the store."""
    return pool_name("supervisor", supervisor.path or supervisor.name)


@define(eq=False, repr=False)
class ChildRegistry:
    """Runs children, and is the `Starter` for harnesses that start others.

    Args:
        children: children started here, by name; of ended children of harnesses, only the most recent.
        scope: the program's scope when the orchestrator was opened: a scope set by a harness does not apply to its children.
    """

    _children: dict[str, Child]
    _pools: PoolBook
    _post: MailDelivery
    _store: Store
    _shutdown: RunShutdown
    _scope: Context
    _burst: StartBurst
    started: int = 0
    """Number of harnesses started here."""
    families: Families = field(init=False)
    nursery: trio.Nursery | None = None
    """Nursery in which harnesses run; None while none can be started."""
    _services: trio.Nursery | None = None
    _ended: deque[Child] = field(factory=deque[Child])
    """Children of harnesses that have ended for good, oldest first."""

    def __attrs_post_init__(self) -> None:
        self.families = Families(self)

    def open(self, nursery: trio.Nursery, services: trio.Nursery) -> None:
        """Begin to accept harnesses."""
        self.nursery, self._services = nursery, services

    def put(self, child: Child) -> Child:
        """Run a child in place of the earlier one of the same name, keeping its position among its siblings."""
        assert self.nursery is not None
        siblings, before = child.parent.children, self._children.get(child.name)
        if before is not None and before.parent is child.parent:
            siblings[siblings.index(before)] = child
        else:
            if before is not None:
                before.parent.children.remove(before)
            siblings.append(child)
        self.started += before is None
        self._children[child.name] = child
        if child.done:
            # It could not be claimed.
            return child
        context = self._scope.copy() if is_in_attempt() else copy_context()
        start_task: Callable[[], object] = partial(self.nursery.start_soon, child.live, name=child.name)
        self._burst.begin(partial(context.run, start_task), self.nursery)
        child.guard_deadline()
        if self._shutdown.cause is not None:
            child.orders.abort(self._shutdown.cause)
        return child

    def start_beside(self, task: Callable[[], Awaitable[object]]) -> None:
        """Start a task that outlives the harnesses' own, such as one that ends a harness."""
        if self._services is not None:
            self._services.start_soon(task)

    async def wait_done(self) -> None:
        """Wait until every harness has ended, including those started meanwhile."""
        while waiting := [child for child in self._children.values() if not child.done]:
            for child in waiting:
                # Most end together: without this, each would take a pass of the scheduler of its own.
                if not child.done:
                    await child.wait_done()

    async def hand_over(self, name: str, cause: str, grace_s: float | None) -> None:
        """Stop a harness and its children, so that another program can go on with them; see `Orchestrator.hand_over`."""
        while family := [child for child in self._family(name) if not child.done]:
            for child in family:
                child.orders.stop(grace_s, cause, program_ends=True)
            for child in family:
                await child.wait_done()
        # Whoever knows a child takes it for one that an operator may have stopped, and does not start it again.
        for child in self._family(name):
            self._forget(child)

    def _family(self, name: str) -> list[Child]:
        """Return a harness that was started here, and those that it has started, directly or through others."""
        parents = self.families.parents
        below = [child for child in parents if name in _above(child, parents)]
        return [child for one in (name, *below) if (child := self._children.get(one)) is not None]

    # the `Starter`

    def running(self, name: str) -> AnyHarness | None:
        child = self._children.get(name)
        return None if child is None or child.done else child.harness

    def has_started(self, name: str) -> bool:
        return name in self._children

    def bear(self, birth: ChildStart) -> Child:
        return self._bear(birth, self._children[birth.heir_of])

    def _bear(self, birth: ChildStart, above: Child) -> Child:
        """Start a child of `above`, or of the child that has replaced it since."""
        spec, above = birth.spec, self._children.get(birth.heir_of, above)
        name, own = spec.child, self._pools.fund(pool_name("harness", spec.child), spec.limits())
        child = above.bear(birth, () if own is None else own.chain)
        try:
            if not birth.begun:
                raise UsageError(cast(Unmade, birth.harness).cause)
            if name in above.parent.supervisors:
                raise UsageError(f"child {name!r}: a supervisor has its name; choose another")
            self._check_limits(birth, above)
            child.claim()
        except OrchestratorError as error:
            child.reject(error)
        child.let_go, plan = self._let_go, evolve(birth, harness=ENDED)
        child.renew = lambda: partial(self._bear, evolve(plan, harness=spec.make(), begun=True), above)
        return self.put(child)

    def check_child_limits(self, birth: ChildStart) -> None:
        self._check_limits(birth, self._children[birth.heir_of])

    def _check_limits(self, birth: ChildStart, above: Child) -> None:
        pools = (*birth.pools, *above.spec.pools)
        self._pools.check_limits(birth.spec.child, birth.harness, pools, birth.spec.limits() or UNLIMITED)

    def children_of(self, name: str | None) -> Sequence[ChildRecord]:
        return self._store.children(name)

    def is_on_record(self, name: str) -> bool:
        try:
            self._store.room(name)
        except UnknownHarness:
            return False
        return True

    def supervisors_beside(self, name: str) -> Collection[str]:
        return self._children[name].parent.supervisors

    # release

    def _let_go(self, child: Child) -> None:
        """Release the object of a child that has ended, and forget the oldest of those that have ended for good."""
        if self._children.get(child.name) is child and has_ended_for_good(child.harness, child.record.status, child.restart):
            self._ended.append(child)
        if len(self._ended) > KEPT_ENDED:
            self._forget(self._ended.popleft())
        if not queries_of(type(child.harness)):
            child.record.harness = ENDED

    def _forget(self, child: Child) -> None:
        """Forget a child that has ended for good, unless it was started again; existing handles on it stay valid."""
        if self._children.get(child.name) is not child:
            return
        del self._children[child.name]
        child.parent.children.remove(child)
        above = self._children.get(self.families.forget(child.name) or "")
        if above is not None:
            above.family.forget(child.name)
        self._post.forget(child.name)
        self._pools.forget(pool_name("harness", child.name), (other.spec.pools for other in self._children.values()))


def _above(name: str, parents: Mapping[str, str]) -> list[str]:
    """Return the names of the harnesses that have started one, nearest first."""
    above: list[str] = []
    while (parent := parents.get(name)) is not None and parent not in above:
        above.append(parent)
        name = parent
    return above
