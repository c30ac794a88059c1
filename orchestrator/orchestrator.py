"""The wiring and the user's handle on it: one nursery, one recorder, and a child for each harness.

async with Orchestrator("run.db", log="steps.jsonl") as orchestrator:
    handle = orchestrator.start(harness, name="eurusd")
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from contextvars import Context, copy_context
from functools import partial, reduce
from math import inf
from pathlib import Path
from types import TracebackType
from typing import Any, TextIO, cast

import trio
from attrs import evolve

from harnesses.base import BaseHarness
from harnesses.budget import UNLIMITED, Budget
from harnesses.clock import WallClock
from harnesses.errors import UnknownHarness
from harnesses.governor import Governor
from harnesses.held import unheld
from harnesses.private_files import conceal_file, conceal_key
from harnesses.record_size import MAX_RECORD_BYTES
from harnesses.requests import queries_of
from harnesses.runtime import ApprovalRule
from orchestrator.again import Again, Renew
from orchestrator.approvals import Approvals
from orchestrator.child import Child, Common
from orchestrator.children import ENDED, KEPT_ENDED, Birth, Families, Unmade, has_ended_for_good
from orchestrator.control.beside import Beside, Wanted
from orchestrator.errors import AlreadyRunning, OrchestratorError, ScopeError, StoreLost, SystemTaskFailed, UsageError
from orchestrator.failure import as_error, parted
from orchestrator.handle import Handle, Order, answered
from orchestrator.latch import Latch, NoLatch
from orchestrator.log import LogFollower
from orchestrator.loop_watch import LoopWatch
from orchestrator.mailbox import Mailbox
from orchestrator.pool import RUN, Pool, chain_of, pool_name
from orchestrator.post import PostOffice
from orchestrator.recorder import Recorder
from orchestrator.records import ChildRecord
from orchestrator.restart import Backoff, Restart, Strategy
from orchestrator.signals import heed_signals, say
from orchestrator.store import MemoryStore, SqliteStore, Store
from orchestrator.store.budgets import Fund
from orchestrator.store.capabilities import path_of
from orchestrator.store.secret import secret_path
from orchestrator.supervisor import MAX_DEPTH, Supervisor
from orchestrator.system_faults import raised_so_far, system_fault
from orchestrator.terms import (
    check_budget,
    check_name,
    check_record_bytes,
    check_seconds,
    check_supervisor_name,
    intensity_of,
    restart_of,
    strategy_of,
    terms_of,
)
from orchestrator.till import Teller
from orchestrator.waiting import Lines
from orchestrator.within import is_in_attempt

_LOG_S = 5.0
"""What the log gets at the end to write what is missing; the next run writes the rest."""
_TRACES_S = 3.0
"""The same for the traces; what is missing then can be sent from the store."""


class Orchestrator:
    """Runs many harnesses side by side and never loses a step. An async context manager; leaving it waits for all.

    Args:
        store: a path, a `Store`, or nothing for one in memory. Of a path, the file is closed when the block is left; a
            `Store` that is given stays open, to be read: whoever has made it closes it, with `close()` or `closing(store)`.
        log: where committed records go as JSON lines: a path, or an open text file.
        strategy, intensity, period_s: of the root supervisor. Under `one_for_one` each harness may be restarted
            `intensity` times within `period_s` seconds; otherwise all together.
        backoff: how long to wait before a restart.
        grace_s: seconds that a stopped harness gets, to reach its next step boundary and to clean up.
        drain_s: the same after a first SIGINT or SIGTERM. A second signal cancels at once.
        deadline_s: seconds after which everything is stopped.
        budget: what everything started here may spend together, over all runs on the store. What was spent stays spent: to
            go on, start again with a higher one.
        handle_signals: whether to drain on SIGINT and SIGTERM; by default if in the main thread.
        clock: what tells the wall time, seconds since 1970, to `every`, `sleep_until` and `now` of the harnesses; by default
            the system's clock, and Trio's virtual one where that is in use.
        redact: whether secrets are taken out of what is written: input, output and summary of a step, lines of output, errors,
            and what is attached. The state, messages, and what effects are given and give back have to come back as they
            were, and are stored so. Whatever is shown, logged or exported is without secrets either way.
        max_record_bytes: bytes that one record may have: a step, an effect's arguments or its result, a message, a state. What
            is larger ends the harness that made it, before anything is written. 300,000,000 is the highest that can be chosen.
        control: whether a socket beside the store takes questions and orders from `orchestrator pause`, `metrics` and so on;
            by default if the environment variable `ORCHESTRATOR_CONTROL` is 1, as it is for what `orchestrator run` runs.
        metrics: where the numbers are served for Prometheus, HOST:PORT; a port alone is one of this machine. Or a
            `MetricExporter` of OpenTelemetry, through which they are pushed every minute, and at the end.
        traces: where a span for each attempt, step and effect is sent: a `SpanExporter` of OpenTelemetry, the URL of a
            collector, or True for what OpenTelemetry's variables say.

    Raises, on leaving:
        ExceptionGroup: of a `HarnessFailed` for each harness that failed or gave up, and of `StoreLost`.
        SystemTaskFailed: a `run_sync_soon` callback or system task raised, for which Trio ends the program.
    """

    def __init__(
        self,
        store: str | Path | Store | None = None,
        *,
        log: str | Path | TextIO | None = None,
        strategy: Strategy | str = Strategy.ONE_FOR_ONE,
        intensity: int = 5,
        period_s: float = 60.0,
        backoff: Backoff | None = None,
        grace_s: float = 5.0,
        drain_s: float = 10.0,
        deadline_s: float | None = None,
        handle_signals: bool | None = None,
        clock: Callable[[], float] | None = None,
        budget: Budget | None = None,
        redact: bool = True,
        max_record_bytes: int = MAX_RECORD_BYTES,
        control: bool | None = None,
        metrics: object = None,
        traces: object = None,
    ) -> None:
        if not isinstance(cast(object, redact), bool):
            raise UsageError(f"redact: expected True or False, was {redact!r:.100}")
        self._redact = redact
        self._most = check_record_bytes(max_record_bytes)
        check_seconds(grace_s=grace_s, drain_s=drain_s, deadline_s=deadline_s)
        self._wanted = Wanted(control, metrics, traces)
        self._given_store = store
        self._log = log
        self._root = Supervisor("root", strategy=strategy_of(strategy), intensity=intensity_of(intensity, period_s))
        self._backoff = backoff or Backoff()
        self._grace_s = grace_s
        self.drain_s = drain_s
        """Seconds to the end after a first signal."""
        self._deadline_s = inf if deadline_s is None else deadline_s
        self._handle_signals = handle_signals
        self._clock = clock
        self._post: PostOffice
        self._pools: dict[str, Pool] = {}
        """All that were funded here, by their name in the store."""
        self._run_budget = budget
        self._teller: Teller
        self._watch: LoopWatch
        self._children: dict[str, Child] = {}
        """What was started here, by its name; of children of harnesses that have ended for good, the last ones."""
        self._ended: deque[Child] = deque()
        """Those, oldest first."""
        self._started = 0
        """How many harnesses were started here."""
        self._wired: Common | None = None
        self._again = Again(self._children, self._put, self._handle, lambda: self._end_cause)
        self._lost: StoreLost | None = None
        self._fault: SystemTaskFailed | None = None
        self._children_nursery: trio.Nursery | None = None
        self._services: trio.Nursery | None = None
        self._is_ending = False
        self._end_cause: str | None = None
        """Why everything is to end: what is started from then on is not run."""
        self._context = Context()
        """Of the program, when it was opened: what a harness has set for itself is not for those that it starts."""
        self._running: AbstractAsyncContextManager[None] | None = None
        self._body = trio.CancelScope()
        self.beside: Beside
        """Where it can be watched; there from the beginning of the block on."""
        self.latch: Latch = NoLatch()
        """The kill switch for effects; beside the store, if that is a file."""
        self.signalled: int | None = None
        """The number of the signal that ended the run, if one did."""

    async def __aenter__(self) -> Orchestrator:
        if self._running is not None:
            raise UsageError("this Orchestrator was entered before: expected one `async with` for each; make another")
        self._running = self._serve()
        await self._running.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        assert self._running is not None
        return await self._running.__aexit__(kind, error, trace)

    # orders

    def start(
        self,
        harness: BaseHarness[Any, Any, Any],
        *,
        name: str,
        restart: Restart | str = Restart.TRANSIENT,
        backoff: Backoff | None = None,
        grace_s: float | None = None,
        step_timeout_s: float | None = None,
        deadline_s: float | None = None,
        take_over: bool = False,
        supervisor: Supervisor | None = None,
        budget: Budget | Pool | None = None,
        pool: Pool | None = None,
        governor: Governor | None = None,
        approve: ApprovalRule | None = None,
        renew: Renew | None = None,
    ) -> Handle:
        """Start a harness, or resume it if the store knows the name. Does not wait.

        Args:
            name: the durable identity, `[A-Za-z0-9][A-Za-z0-9._-]*`. Where a harness runs under it that another one has
                started (`start_child`), it is that one: a handle on it is returned, and no other option may be given.
            restart: when it is started again after it has ended: `permanent`, `transient` or `temporary`.
            step_timeout_s: seconds that it may take from one `yield` to the next.
            deadline_s: seconds from now by which it must have ended.
            take_over: take it even from a living process, which then stops it with `OwnershipLost`.
            supervisor: from `supervisor()`; default is the root.
            budget: what it may spend, over all runs and restarts; or a pool, from `pool()`, that it spends from with others.
                It spends from its supervisors' budgets, and from the orchestrator's, too.
            pool: what it spends from with others, beside a budget of its own.
            governor: who watches its steps, such as a `harnesses.governance.Watch`; one for each harness.
            approve: says which of its effects need a person's approval, besides those that say so themselves: gets key and
                arguments, returns an `Action`, a category, or None.
            renew: makes it anew for `restart` and returns what starts it, by this method; without it the same object is
                started again on the same terms.

        Raises:
            AlreadyRunning: a harness of that name runs here.
            UsageError: the name or an option is not as expected; or a limit cannot be held for an agent that it asks.
            Unstorable: the initial state can not be stored.
        """
        self._open_nursery("start")
        options = (backoff, grace_s, step_timeout_s, deadline_s, supervisor, budget, pool, governor, approve, renew)
        is_plain = not any(option is not None for option in options) and not take_over
        is_plain = is_plain and restart_of(restart) is Restart.TRANSIENT
        if (started := self._started_by_parent(name, harness, is_plain)) is not None:
            return started
        self._check_name(name)
        self._check_harness(name, harness)
        grace_s = self._grace_s if grace_s is None else grace_s
        terms = terms_of(restart_of(restart), backoff or self._backoff, grace_s, step_timeout_s, deadline_s, take_over)
        parent = supervisor or self._root
        if name in parent.supervisors:
            raise UsageError(f"name {name!r}: a supervisor under {parent.name!r} has it; choose another for the harness")
        if isinstance(budget, Pool) and pool is not None:
            raise UsageError(f"start {name!r}: expected one pool, got {budget.name!r} as budget and {pool.name!r}; choose one")
        self._check_limits(name, harness, budget, parent)
        self._check_limits(name, harness, pool, parent)
        own = budget if isinstance(budget, Pool) else self._fund(pool_name("harness", name), budget, pool) or pool
        child = Child(name, harness, terms, parent, self._common, self._chain(own, parent), governor, approve)
        child.renew = renew
        child.claim()
        return self._put(child)

    def _put(self, child: Child) -> Handle:
        """Have a child live, in the place of the one of its name before it: its order among its siblings counts."""
        nursery, before = self._open_nursery("start"), self._children.get(child.name)
        if before is not None and before.parent is child.parent:
            child.parent.children[child.parent.children.index(before)] = child
        else:
            if before is not None:
                before.parent.children.remove(before)
            child.parent.children.append(child)
        self._started += before is None
        self._children[child.name] = child
        if child.done:
            # It could not be claimed.
            return self._handle(child)
        if is_in_attempt():
            self._context.copy().run(partial(nursery.start_soon, child.live, name=child.name))
        else:
            nursery.start_soon(child.live, name=child.name)
        if child.has_deadline and self._services is not None:
            self._services.start_soon(_expire, child)
        if self._end_cause is not None:
            child.abort(self._end_cause)
        return self._handle(child)

    def _handle(self, child: Child) -> Handle:
        return Handle(child, self._common)

    def restart(self, name: str, grace: float | None = None) -> Order:
        """Start a harness again that has ended in any way, or stop one that runs and start it then. Its siblings go on.

        It is started on the terms that it was started with, from its last recorded step; no earlier restart counts against it.

        Args:
            grace: seconds until one that runs is cancelled; default is its own.

        Returns:
            An order; awaiting it gives a handle on the next life, when that has begun.

        Raises:
            UsageError: it was not started here, is a child that is forgotten (see `handles`), the program is ending, or it can
                not be made anew. When awaited: it has completed, and `reopens()` does not say that there is more to do.
        """
        check_seconds(grace=grace)
        self._open_nursery("restart")
        return self._again.order(name, grace)

    def _started_by_parent(self, name: str, harness: object, is_plain: bool) -> Handle | None:
        """Return a handle on a child of another harness that runs under a name: it is the one that is to be started."""
        child = self._children.get(name)
        if child is None or child.done or name not in self._common.families.started:
            return None
        parent = self._common.families.parents.get(name)
        if type(child.harness) is not type(harness) or not is_plain:
            raise AlreadyRunning(
                f"harness {name!r} runs already, {parent!r} has started it: expected one of the same class without options "
                f"of its own; start it before {parent!r}, or leave it to {parent!r}"
            )
        return self._handle(child)

    # children of harnesses: the `Starter` of their families

    def running(self, name: str) -> BaseHarness[Any, Any, Any] | None:
        """Return the harness that runs under a name now."""
        child = self._children.get(name)
        return None if child is None or child.done else child.harness

    def has_started(self, name: str) -> bool:
        """Return whether a harness of that name was started in this program, though it may have ended."""
        return name in self._children

    def bear(self, birth: Birth) -> Handle:
        """Start a harness that another has started. For that one's `Family`."""
        return self._bear(birth, self._children[birth.heir_of])

    def _bear(self, birth: Birth, above: Child) -> Handle:
        """Start a child of `above`, or of what has taken its place since."""
        spec, above = birth.spec, self._children.get(birth.heir_of, above)
        name, own = spec.child, self._fund(pool_name("harness", spec.child), spec.limits())
        child = above.bear(birth, () if own is None else own.chain)
        try:
            if not birth.begun:
                raise UsageError(cast(Unmade, birth.harness).cause)
            if name in above.parent.supervisors:
                raise UsageError(f"child {name!r}: a supervisor has its name; choose another")
            self._check_child_limits(birth, above)
            child.claim()
        except OrchestratorError as error:
            child.reject(error)
        child.let_go, plan = self._let_go, evolve(birth, harness=ENDED)
        child.renew = lambda: partial(self._bear, evolve(plan, harness=spec.make(), begun=True), above)
        return self._put(child)

    def _let_go(self, child: Child) -> None:
        """Let a child of a harness go that has ended: its object, and more of those that have ended for good long ago."""
        if self._children.get(child.name) is child and has_ended_for_good(child.harness, child.status, child.restart):
            self._ended.append(child)
        if len(self._ended) > KEPT_ENDED:
            self._forget(self._ended.popleft())
        if not queries_of(type(child.harness)):
            child.harness = ENDED

    def _forget(self, child: Child) -> None:
        """Forget a child that has ended for good, unless it was started again; handles on it stay as they are."""
        name, pool = child.name, pool_name("harness", child.name)
        if self._children.get(name) is not child:
            return
        del self._children[name]
        child.parent.children.remove(child)
        above = self._children.get(self._common.families.forget(name) or "")
        if above is not None:
            above.family.forget(name)
        self._post.forget(name)
        if pool in self._pools and not any(pool in other.pools for other in self._children.values()):
            del self._pools[pool]
            self._teller.lines.forget(pool)

    def check_child_limits(self, birth: Birth) -> None:
        """Refuse a child with an agent for which its own limit, or one of those above it, holds nothing.

        Raises:
            UsageError: there is such a limit.
        """
        self._check_child_limits(birth, self._children[birth.heir_of])

    def _check_child_limits(self, birth: Birth, above: Child) -> None:
        pools = (*birth.pools, *above.pools)
        limits = [self._pools[pool].budget for pool in pools if pool in self._pools]
        _check_held(birth.spec.child, birth.harness, [*limits, birth.spec.limits() or UNLIMITED])

    def children_of(self, name: str | None) -> Sequence[ChildRecord]:
        """Return what is on record of the harnesses that one, or any, has started."""
        return self.store.children(name)

    def is_on_record(self, name: str) -> bool:
        """Return whether the store has a harness of that name."""
        try:
            self.store.room(name)
        except UnknownHarness:
            return False
        return True

    def supervisors_beside(self, name: str) -> Collection[str]:
        """Return the names of the supervisors that share the supervisor of a harness."""
        return self._children[name].parent.supervisors

    def supervisor(
        self,
        name: str,
        *,
        strategy: Strategy | str = Strategy.ONE_FOR_ONE,
        intensity: int = 5,
        period_s: float = 60.0,
        restart: Restart | str = Restart.TRANSIENT,
        parent: Supervisor | None = None,
        budget: Budget | None = None,
    ) -> Supervisor:
        """Make a supervisor below the root, or below `parent`; pass it to `start`.

        It counts the restarts of all its children together. When there are more than `intensity` within `period_s`
        seconds it gives up: its children end, and its own supervisor decides by `restart` whether they are started again.

        Args:
            name: any text without `/`, which stands between the levels in the name of a nested supervisor's pool.
            budget: what its children may spend together.
        """
        check_supervisor_name(name)
        if budget is not None:
            self._open_nursery("supervisor with a budget")
            check_budget(f"supervisor {name!r}", budget)
        above = parent or self._root
        if any(child.name == name for child in above.children):
            raise UsageError(f"supervisor {name!r}: there is one of that name under {above.name!r}; choose another")
        if (depth := above.depth + 1) > MAX_DEPTH:
            raise UsageError(
                f"supervisor {name!r}: expected at most {MAX_DEPTH} levels below the root, got level {depth}; nest less deep"
            )
        made = Supervisor(
            name,
            strategy=strategy_of(strategy),
            intensity=intensity_of(intensity, period_s),
            restart=restart_of(restart),
            parent=above,
        )
        above.children.append(made)
        above.supervisors.add(name)
        self._fund(_pool_of(made), budget)
        return made

    def pool(self, name: str, budget: Budget, parent: Pool | None = None) -> Pool:
        """Set what several harnesses may spend together; pass it to `start` as their `budget`.

        What was spent from a pool of this name, in this or in an earlier run, stays spent.

        Args:
            name: `[A-Za-z0-9][A-Za-z0-9._-]*`.
            parent: another pool that is charged with all that is spent from this one.
        """
        self._open_nursery("pool")
        check_name(name)
        if cast(object, budget) is None:
            raise UsageError(f"pool {name!r}: expected a Budget, was None; a pool without limits is Budget()")
        return cast(Pool, self._fund(pool_name("pool", name), budget, parent))

    def fund_again(self, budgets: Mapping[str, Budget | None]) -> None:
        """Set limits anew while the program runs; what was spent stays spent.

        Args:
            budgets: by the names of their pools in the store; None lifts a limit.
        """
        for name, budget in budgets.items():
            before = self._pools.get(name)
            wanted = budget if budget is not None or before is None else Budget()
            if before is None or before.budget != wanted:
                self._fund(name, wanted, None if before is None else before.parent)

    def _fund(self, name: str, budget: Budget | None, parent: Pool | None = None) -> Pool | None:
        """Have the limits of a pool recorded."""
        if budget is None:
            return None
        check_budget(repr(name), budget)
        pool = self._pools[name] = Pool(name, budget, parent)
        self._recorder.submit(Fund(name, budget, time.time_ns() // 1000), lambda _: self._teller.lines.ring((name,)))
        return pool

    def _chain(self, own: Pool | None, parent: Supervisor | None) -> tuple[str, ...]:
        """Return the pools that a child of `parent` is charged to."""
        pools = [own]
        while parent is not None:
            pools.append(self._pools.get(_pool_of(parent)))
            parent = parent.parent
        return chain_of([*pools, self._pools.get(RUN)])

    def _check_limits(
        self, name: str, harness: BaseHarness[Any, Any, Any], own: Budget | Pool | None, parent: Supervisor | None
    ) -> None:
        """Refuse a limit that holds nothing for an agent of the harness."""
        names = self._chain(own if isinstance(own, Pool) else None, parent)
        limits = [self._pools[pool].budget for pool in names] + ([own] if isinstance(own, Budget) else [])
        _check_held(name, harness, limits)

    @property
    def handles(self) -> tuple[Handle, ...]:
        """A handle on every harness started here, in order; of those that harnesses have started and that have completed or
        returned, on the last thousand."""
        return tuple(Handle(child, self._common) for child in self._children.values())

    @property
    def harnesses(self) -> dict[str, BaseHarness[Any, Any, Any]]:
        """Every harness started here by its name; of those that harnesses have started, the ones that have not ended."""
        return {name: child.harness for name, child in self._children.items() if child.harness is not ENDED}

    @property
    def _common(self) -> Common:
        if self._wired is None:
            raise UsageError("the Orchestrator is not open yet: expected a call within `async with Orchestrator(…)`")
        return self._wired

    @property
    def _recorder(self) -> Recorder:
        return self._common.recorder

    @property
    def store(self) -> Store:
        """The store in use; for readers."""
        return self._recorder.store

    def stop(self, grace: float | None = None) -> None:
        """Stop every harness at its next step boundary, or when `grace` seconds are over. Does not wait."""
        check_seconds(grace=grace)
        self._stop_all(grace, "the orchestrator was stopped")

    def _stop_all(self, grace_s: float | None, cause: str) -> None:
        self._end_cause = self._end_cause or cause
        for child in self._children.values():
            child.stop(grace_s, cause, program_ends=True)

    def approve(self, id: str, *, by: str, reason: str = "") -> Order:
        """Approve what a harness has asked for; `store.approvals()` has it. Awaiting it waits for the disk, and gives
        whether it has changed anything.

        Raises, when awaited:
            UsageError: there is no such request, it has expired, or it was denied.
        """
        return answered(self._common.approvals.respond(id, "approved", by, reason))

    def deny(self, id: str, *, by: str, reason: str = "") -> Order:
        """Deny what a harness has asked for, also if it was approved, as long as that was not used; see `approve`."""
        return answered(self._common.approvals.respond(id, "denied", by, reason))

    def reopen(self, id: str, *, by: str, reason: str = "") -> Order:
        """Withdraw a request that was denied, or has expired, so that the harness asks anew when it is started again; see
        `approve`. It starts nothing."""
        return answered(self._common.approvals.respond(id, "reopened", by, reason))

    # life

    @asynccontextmanager
    async def _serve(self) -> AsyncGenerator[None]:
        store, ours = _open(self._given_store)
        concealed = [conceal_file(path) for path in _files_of(store, self._log)]
        if (path := path_of(store)) is not None:
            concealed.append(conceal_key(secret_path(path)))
        failure: BaseException | None = None
        self._context = copy_context()
        try:
            log = None if self._log is None else LogFollower(store, self._log)
            self.latch = _latch_of(store)
            recorder = Recorder(store, self._store_lost)
            clock = WallClock(self._clock)
            approvals = Approvals(recorder, clock, self._most)
            self._post = PostOffice(recorder, self._mailbox_of, approvals, self._most)
            self._teller = Teller(recorder, Lines())
            self._watch = LoopWatch(recorder, self._children)
            lag_s = time.time() - trio.current_time()
            self.beside = Beside(self._wanted, recorder, lambda: self.handles, self.restart)
            self._wired = Common(
                recorder,
                self._post,
                self.latch.check,
                clock,
                self._teller,
                approvals,
                Families(self),
                lag_s,
                redacted=self._redact,
                most=self._most,
                why_cancelled=self._why_cancelled,
            )
            async with trio.open_nursery() as services:
                # Started without a handshake: it is shielded, and a cancelled `start` would wait for its end.
                services.start_soon(self._recorder.run)
                if log is not None:
                    services.start_soon(log.run, self._recorder)
                try:
                    await self._start_services(services)
                    async with trio.open_nursery() as children:
                        self._children_nursery = children
                        children.start_soon(self._abort_when_cancelled)
                        with self._body:
                            try:
                                yield
                            except BaseException as error:
                                if isinstance(error, GeneratorExit) or parted(error)[0] is not None:
                                    raise
                                failure = error
                                self._abort("the block was left with an error")
                            await self._all_done()
                        with trio.CancelScope(shield=self._body.cancelled_caught):
                            await self._all_done()
                        self._is_ending = True
                        children.cancel_scope.cancel()
                finally:
                    self._children_nursery = None
                    await self._end_services(services, log)
        except BaseException as error:
            if self._fault is not None and parted(error)[1] is None:
                raise self._fault from self._fault.__cause__
            raise
        finally:
            for one in concealed:
                one.reveal()
            if ours:
                store.close()
        self._raise_failures(failure)

    async def _start_services(self, services: trio.Nursery) -> None:
        if self._takes_signals():
            await services.start(heed_signals, self._heed_signal)
        self._post.watch()
        if self._deadline_s != inf:
            services.start_soon(self._heed_deadline)
        services.start_soon(self._teller.lines.watch)
        self._fund(RUN, self._run_budget)
        self._services = services
        self._watch.start()
        await self.beside.start(services)

    async def _end_services(self, services: trio.Nursery, log: LogFollower | None) -> None:
        with trio.CancelScope(shield=True):
            self._watch.stop()
            self._recorder.close()
            await self._recorder.wait_ended()
            await self._post.close()
            async with trio.open_nursery() as telling:
                telling.start_soon(self.beside.finish, _TRACES_S)
                if log is not None:
                    telling.start_soon(log.finish, _LOG_S)
        services.cancel_scope.cancel()

    async def _all_done(self) -> None:
        """Return when every harness has ended, those started meanwhile too."""
        while waiting := [child for child in self._children.values() if not child.done]:
            for child in waiting:
                await child.wait_done()

    async def _abort_when_cancelled(self) -> None:
        """Tell the harnesses of a cancellation that they could not see: held ones wait for events only."""
        try:
            await trio.sleep_forever()
        except trio.Cancelled:
            self._abort(self._why_cancelled())
            raise

    def _why_cancelled(self) -> str:
        """Return why everything is cancelled from outside: for what code that Trio itself runs has raised, or "cancelled"."""
        if self._fault is None and (fault := system_fault(raised_so_far(), self.harnesses)) is not None:
            self._fault = fault
            with suppress(Exception):
                # Trio's own error at the end shows it with its notes.
                BaseException.add_note(cast(BaseException, fault.__cause__), str(fault))
        return "cancelled" if self._fault is None else self._fault.told

    def _abort(self, cause: str) -> None:
        self._end_cause = self._end_cause or cause
        for child in self._children.values():
            child.abort(cause)

    def _store_lost(self, error: StoreLost) -> None:
        self._lost = error
        self._abort("the store is lost")
        self._body.cancel()

    def _takes_signals(self) -> bool:
        if self._handle_signals is None:
            return threading.current_thread() is threading.main_thread()
        return self._handle_signals

    def _heed_signal(self, number: int) -> None:
        """Drain at the first signal, cancel at the second."""
        name = signal.Signals(number).name
        if self.signalled is None:
            self.signalled = number
            say(f"{name}: stopping within {self.drain_s:g} s; a second signal cancels at once")
            self._stop_all(self.drain_s, name)
        else:
            say(f"{name} again: cancelling")
            self._abort(f"{name} again")
        self._body.cancel()

    async def _heed_deadline(self) -> None:
        await trio.sleep(self._deadline_s)
        self._stop_all(self._grace_s, f"the run's deadline of {self._deadline_s:g} s has passed")
        self._body.cancel()

    def _mailbox_of(self, name: str) -> Mailbox | None:
        child = self._children.get(name)
        return None if child is None else child.mailbox

    def _check_name(self, name: str) -> None:
        check_name(name)
        child = self._children.get(name)
        if child is not None and not child.done:
            raise AlreadyRunning(f"harness {name!r} runs already: expected one start for each name; wait for its end first")

    def _check_harness(self, name: str, harness: object) -> None:
        if not isinstance(harness, BaseHarness):
            raise UsageError(f"start {name!r}: expected a BaseHarness, was {harness!r:.200}; pass an instance of your class")
        harness.check_made()
        if harness.runs_as is not None:
            raise UsageError(f"start {name!r}: that object runs as {harness.runs_as!r}: expected another for each name")

    def _open_nursery(self, verb: str) -> trio.Nursery:
        if self._children_nursery is None:
            raise UsageError(f"{verb}: the Orchestrator is not open: expected a call within `async with Orchestrator(…)`")
        return self._children_nursery

    def _raise_failures(self, failure: BaseException | None) -> None:
        """Raise what failed: the block's own error as it is, else all harnesses that failed as one group."""
        errors: list[Exception] = [] if self._lost is None else [self._lost]
        if failure is None and not self._is_ending and not errors:
            errors.append(ScopeError("the Orchestrator's own nursery was cancelled from inside: every harness was stopped"))
        outcomes = {child.name: child.outcome for child in self._children.values() if child.outcome is not None}
        errors += [error for name, outcome in outcomes.items() if (error := as_error(name, outcome)) is not None]
        if failure is not None:
            for error in errors:
                failure.add_note(f"besides: {error}")
            raise failure
        if errors:
            raise ExceptionGroup(f"{len(errors)} of {self._started} harnesses failed", errors)


def _check_held(name: str, harness: BaseHarness[Any, Any, Any], limits: Sequence[Budget]) -> None:
    agents = harness.asked_agents()
    if agents and (why := unheld(agents, reduce(Budget.min, limits, UNLIMITED))):
        raise UsageError(f"harness {name!r}: {why}")


async def _expire(child: Child) -> None:
    """End a child at its deadline; return when it has ended."""

    async def expire() -> None:
        await child.wait_deadline()
        child.expire()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(expire)
        await child.wait_done()
        nursery.cancel_scope.cancel()


def _latch_of(store: Store) -> Latch:
    path = path_of(store)
    return NoLatch() if path is None else Latch(path)


def _files_of(store: Store, log: str | Path | TextIO | None) -> list[str]:
    """Return the files of a run, which nobody in a sandbox is to see."""
    paths: list[object] = [path_of(store), log if isinstance(log, str | Path) else getattr(log, "name", None)]
    named = [os.fspath(path) for path in paths if isinstance(path, str | Path)]
    return [path for path in named if os.path.isfile(path) or (path == str(log) and not os.path.lexists(path))]


def _pool_of(supervisor: Supervisor) -> str:
    """Return the name in the store of a supervisor's pool."""
    path = supervisor.name
    while supervisor.parent is not None and supervisor.parent.parent is not None:
        supervisor = supervisor.parent
        path = f"{supervisor.name}/{path}"
    return pool_name("supervisor", path)


def _open(store: str | Path | Store | None) -> tuple[Store, bool]:
    """Return the store to use, and whether it is ours to close."""
    if store is None:
        return MemoryStore(), True
    if isinstance(store, str | Path):
        return SqliteStore(store), True
    if not hasattr(store, "commit"):
        raise UsageError(f"store: expected a path, a Store or nothing, was {store!r:.200}")
    return store, False
