"""`Orchestrator`: one nursery, one recorder, and a child for each harness.

async with Orchestrator("run.db", log="steps.jsonl") as orchestrator:
    handle = orchestrator.start(harness, name="eurusd")
"""

from __future__ import annotations

import os
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from contextvars import copy_context
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, TextIO, cast

import trio
from attrs import evolve

from harnesses.base import BaseHarness
from harnesses.budgets.budget import Budget
from harnesses.data.record_size import MAX_RECORD_BYTES
from harnesses.diagnostics.known_errors import check_trio
from harnesses.diagnostics.program_log import Processor
from harnesses.diagnostics.program_log import processors as run_processors
from harnesses.diagnostics.uncaught_errors import note, told_in_a_line
from harnesses.effects.approval import ApprovalRule
from harnesses.files.private_files import conceal_file, conceal_key
from harnesses.governor import Governor
from harnesses.processes.fork_safety import loop_kept_from_forks
from harnesses.redaction.redactor import redact
from harnesses.step import InputT, OutputT, StateT
from harnesses.timing.clock import WallClock, now_s, now_us
from orchestrator.child_spec import (
    ChildSpec,
    check_budget,
    check_callable,
    check_kind,
    check_name,
    check_seconds,
    check_supervisor_name,
    intensity_of,
    restart_of,
    strategy_of,
)
from orchestrator.codec import encode
from orchestrator.control.run_services import RunServices, Wanted
from orchestrator.errors import AlreadyRunning, ScopeError, UsageError
from orchestrator.handle import Handle, Order, answered
from orchestrator.kill_switch import KillSwitch, MemoryKillSwitch
from orchestrator.log import LogFollower
from orchestrator.mail.durable_mailbox import Mailbox
from orchestrator.mail.mail_delivery import MailDelivery
from orchestrator.operator_restart import OperatorRestarts, Renew
from orchestrator.outcome import OutcomeKind
from orchestrator.recording.approval_waits import Approvals
from orchestrator.recording.budget_account import RUN, Lines, Pool, Teller, pool_name
from orchestrator.recording.recorder import Recorder
from orchestrator.records import SUPERVISOR
from orchestrator.restart import Backoff, Restart, Strategy
from orchestrator.run_options import RunOptions
from orchestrator.runtime.actor import RunContext
from orchestrator.runtime.child import Child
from orchestrator.runtime.child_registry import ChildRegistry, PoolBook, pool_of
from orchestrator.runtime.failure_events import as_error, parted
from orchestrator.runtime.loop_watch import LoopWatch
from orchestrator.runtime.run_shutdown import RunShutdown, heed_hangups, heed_signals
from orchestrator.runtime.start_burst import StartBurst
from orchestrator.runtime.started_children import ENDED
from orchestrator.runtime.supervisor import MAX_DEPTH, Supervisor
from orchestrator.store import MemoryStore, Store
from orchestrator.store.places.store_location import open_store
from orchestrator.store.rules.signing_key import secret_path
from orchestrator.store.store_capabilities import kill_switch_of, path_of
from orchestrator.store.store_protocol import Remark
from orchestrator.text.terminal_text import one_line, say

_LOG_S = 5.0
"""Seconds that the log gets at the end to write missing lines; the next run writes the rest."""
_TRACES_S = 3.0
"""Seconds that the traces get at the end; missing ones can be exported from the store."""
_SUPERVISOR = "a Supervisor or None; make one with `orchestrator.supervisor(…)`"
_POOL = "a Pool or None; make one with `orchestrator.pool(…)`"


class Orchestrator:
    """Runs many harnesses side by side without losing a step. An async context manager; leaving it waits for all harnesses.

    Args:
        store: a path, the address of a database on a PostgreSQL server (`postgresql://…`), a `Store`, or None for a store in
            memory. A store opened from a path or address is closed on leaving; a `Store` object stays open for reading, and
            its creator closes it with `close()` or `closing(store)`.
        log: where committed records are written as JSON lines: a path, or an open text file.
        strategy: strategy of the root supervisor.
        intensity: how many restarts the root supervisor allows within `period_s`: for each harness under `one_for_one`,
            otherwise for all of them together.
        period_s: seconds; see `intensity`.
        backoff: delays before restarts.
        grace_s: seconds that a stopped harness gets to reach its next step boundary and clean up.
        drain_s: the same after a first SIGINT or SIGTERM. A second signal cancels at once.
        deadline_s: seconds after which all harnesses are stopped.
        budget: what all harnesses started here may spend together, over all runs on the store. Spending is never reset: to
            continue, start again with a higher budget.
        handle_signals: whether to drain on SIGINT and SIGTERM, and to open the log anew on SIGHUP; default is True in the main
            thread.
        clock: source of wall time, seconds since 1970, for `every`, `sleep_until` and `now` of the harnesses; default is the
            system clock, or Trio's virtual clock where one is in use.
        redact: whether secrets are removed from what is written: input, output and summary of a step, lines of output, errors
            and attachments. States, messages, and arguments and results of effects must be read back unchanged, so they are
            stored unredacted. What is shown, logged or exported is redacted in any case.
        max_record_bytes: limit on the size of one record, bytes: a step, an effect's arguments or result, a message, a state.
            A larger one ends its harness before anything is written. At most 300,000,000.
        control: whether a socket beside the store accepts questions and orders, from `orchestrator pause`, `metrics` etc.
            Default is what the environment variable `ORCHESTRATOR_CONTROL` says, 1 or 0; without it, True if h11 (the extra
            `control`) is installed and the store is a file. On a PostgreSQL store, orders come through the store, unless this
            is False.
        metrics: address to serve Prometheus metrics on, HOST:PORT; a port alone binds to this machine. Or an OpenTelemetry
            `MetricExporter`, which gets them every minute and at the end.
        traces: where spans of attempts, steps and effects go: an OpenTelemetry `SpanExporter`, the URL of a collector, or
            True for the configuration in OpenTelemetry's environment variables.
        processors: structlog processors for the lines of `log`, and for the program's own log messages, which have `harness`,
            `attempt` and `step` bound. They get the fields of a line before rendering, including secrets where those are
            stored. In a file that a later run continues, they must leave the header fields unchanged.

    Raises, on leaving:
        ExceptionGroup: of a `HarnessFailed` for each harness that failed or gave up, and of `StoreLost`.
        SystemTaskFailed: a `run_sync_soon` callback or system task raised, so Trio ends the program.
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
        processors: Sequence[Processor] = (),
    ) -> None:
        check_kind("processors", processors, Sequence, "a list of functions, as structlog has them")
        self._options = RunOptions(
            backoff=Backoff() if backoff is None else backoff,
            grace_s=grace_s,
            drain_s=drain_s,
            deadline_s=deadline_s,
            handle_signals=handle_signals,
            clock=clock,
            budget=budget,
            redact=redact,
            max_record_bytes=max_record_bytes,
            wanted=Wanted(control, metrics, traces),
            processors=tuple(processors),
        )
        self._given_store = store
        self._log = log
        self._root = Supervisor("root", strategy=strategy_of(strategy), intensity=intensity_of(intensity, period_s))
        self._children: dict[str, Child] = {}
        """Children started here, by name; of children started by harnesses that have ended for good, only the most recent."""
        self._shutdown = RunShutdown(self._children, drain_s)
        self._wired: RunContext | None = None
        self._pools: PoolBook
        self._registry: ChildRegistry
        self._again: OperatorRestarts
        self._is_open = False
        self._is_ending = False
        self._running: AbstractAsyncContextManager[None] | None = None
        self.beside: RunServices
        """The run's monitoring services; available from the beginning of the block."""
        self.tells_blocked = True
        """Whether the harnesses that wait for a person are named on standard error when the block is left."""
        self.on_hangup: Callable[[], Awaitable[None]] | None = None
        """What SIGHUP means besides opening the log anew; set before the block is entered. It must not raise."""
        self.elsewhere: frozenset[str] = frozenset()
        """Names of harnesses that other processes start on the same store: a message to one that is not there yet waits for
        it. Set before the block is entered."""
        self.absent: Mapping[str, Callable[[], object]] = {}
        """Functions that start harnesses which were not started here, by name, for an order to start one."""
        self._goes_on = False
        self.latch: KillSwitch = MemoryKillSwitch()
        """The kill switch for effects; beside the store, if that is a file."""

    async def __aenter__(self) -> Orchestrator:
        if self._running is not None:
            raise UsageError("this Orchestrator was entered before: expected one `async with` for each; make another")
        with told_in_a_line():
            check_trio("Orchestrator(…)", "trio.run(main)")
            self._running = self._serve()
            await self._running.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        assert self._running is not None
        with told_in_a_line():
            swallowed = await self._running.__aexit__(kind, error, trace)
        if not swallowed:
            note(error)
        return swallowed

    # orders

    def start(
        self,
        harness: BaseHarness[StateT, InputT, OutputT],
        *,
        name: str,
        restart: Restart | str = Restart.TRANSIENT,
        backoff: Backoff | None = None,
        grace_s: float | None = None,
        step_timeout_s: float | None = None,
        deadline_s: float | None = None,
        take_over: bool = False,
        durability: Literal["step", "group"] | None = None,
        group_s: float | None = None,
        supervisor: Supervisor | None = None,
        budget: Budget | Pool | None = None,
        pool: Pool | None = None,
        governor: Governor | None = None,
        approve: ApprovalRule | None = None,
        renew: Renew | None = None,
    ) -> Handle[StateT, InputT, OutputT]:
        """Start a harness, or resume it if the store knows the name. Does not wait.

        Args:
            name: the durable identity, `[A-Za-z0-9][A-Za-z0-9._-]*`. If a harness that another one started (`start_child`) is
                running under it, a handle on that one is returned, and no other option may be given.
            restart: when it is restarted after it has ended: `permanent`, `transient` or `temporary`.
            step_timeout_s: seconds allowed from one `yield` to the next.
            deadline_s: seconds from now by which it must have ended.
            take_over: take the harness over even from a living process, where it then fails with `OwnershipLost`.
            durability: with `step`, `execute()` goes on when its step is on disk. With `group` it goes on at once, and a crash
                loses the steps of the last `group_s` seconds at most; the harness then resumes at the last step on disk, as if
                the rest had not happened. Effects, messages, approvals, children, pauses and the end first wait for all
                steps before them. It holds for children that the harness starts, too. Default is what each harness prefers:
                `step`, except for a backtest.
            group_s: with `group`, seconds within which a step is on disk, 0.05 by default; if the disk is slower, the harness
                waits.
            supervisor: from `supervisor()`; default is the root.
            budget: what it may spend, over all runs and restarts; or a shared pool, from `pool()`. Budgets of its supervisors
                and of the orchestrator are charged, too.
            pool: a shared pool to charge in addition to a budget of its own.
            governor: watches its steps, such as a `harnesses.governance.Watch`; one for each harness.
            approve: decides which effects need approval, in addition to those that request it themselves. Called with key and
                arguments; returns an `Action`, a category, or None.
            renew: makes the harness anew for `restart` and returns a function that starts it by this method; default starts
                the same object again with the same options.

        Raises:
            AlreadyRunning: a harness of that name is running here.
            UsageError: the name or an option is invalid, or a limit cannot be enforced for an agent that it calls.
            Unstorable: the initial state cannot be stored.
        """
        self._check_open("start")
        options = (backoff, grace_s, step_timeout_s, deadline_s, supervisor, budget, pool, governor, approve, renew)
        is_plain = all(option is None for option in options) and not take_over and restart_of(restart) is Restart.TRANSIENT
        is_plain = is_plain and durability is None and group_s is None
        if (started := self._started_by_parent(name, harness, is_plain)) is not None:
            return started
        self._check_name(name)
        self._check_harness(name, harness)
        check_kind(f"start {name!r}: supervisor", supervisor, Supervisor | None, _SUPERVISOR)
        check_kind(f"start {name!r}: pool", pool, Pool | None, _POOL)
        check_callable(f"start {name!r}: renew", renew, "a function that makes the harness anew, or None")
        grace_s = self._options.grace_s if grace_s is None else grace_s
        limits: Any = {"grace_s": grace_s, "step_timeout_s": step_timeout_s, "deadline_s": deadline_s}
        policy: Any = {
            "restart": restart,
            "backoff": self._options.backoff if backoff is None else backoff,
            "take_over": take_over,
            "durability": durability,
            "group_s": group_s,
        }
        spec = ChildSpec(name=name, governor=governor, rule=approve, **limits, **policy)
        parent = supervisor or self._root
        pools = self._pools_of(name, harness, parent, budget, pool)
        self._record_supervisors(parent)
        child = Child(evolve(spec, pools=pools) if pools else spec, harness, parent, self._context)
        child.renew = renew
        child.claim()
        return self._handle(self._registry.put(child))

    def _pools_of(
        self,
        name: str,
        harness: BaseHarness[Any, Any, Any],
        parent: Supervisor,
        budget: Budget | Pool | None,
        pool: Pool | None,
    ) -> tuple[str, ...]:
        """Record the harness's own budget; return the pools that it is charged to."""
        if name in parent.supervisors:
            raise UsageError(f"name {name!r}: a supervisor under {parent.name!r} has it; choose another for the harness")
        if isinstance(budget, Pool) and pool is not None:
            raise UsageError(f"start {name!r}: expected one pool, got {budget.name!r} as budget and {pool.name!r}; choose one")
        if budget is None and pool is None and not self._pools.funded:
            return ()
        for own in (budget, pool):
            chain = self._pools.chain(own if isinstance(own, Pool) else None, parent)
            self._pools.check_limits(name, harness, chain, own if isinstance(own, Budget) else None)
        own = budget if isinstance(budget, Pool) else self._pools.fund(pool_name("harness", name), budget, pool) or pool
        return self._pools.chain(own, parent)

    def _record_supervisors(self, supervisor: Supervisor) -> None:
        """Record a supervisor that gets its first harness, and those above it."""
        while supervisor.parent is not None and not supervisor.is_recorded:
            supervisor.is_recorded = True
            said = {"supervisor": supervisor.path, "strategy": supervisor.strategy.value, "restart": supervisor.restart.value}
            intensity = supervisor.intensity
            body = encode({**said, "intensity": intensity.restarts, "period_s": float(intensity.period_s)})
            self._context.recorder.submit(Remark("", SUPERVISOR, body, now_us()))
            supervisor = supervisor.parent

    def _handle(self, child: Child) -> Handle:
        return Handle(child, self._context)

    def restart(self, name: str, grace: float | None = None) -> Order[Handle]:
        """Restart a harness that has ended in any way, or stop a running one and start it again. Its siblings are unaffected.

        It is started with the options it was started with, from its last recorded step; earlier restarts no longer count.

        Args:
            grace: seconds until a running one is cancelled; default is its own.

        Returns:
            An order; awaiting it returns a handle on the next life, once that has begun.

        Raises:
            UsageError: it was not started here, is a child that was forgotten (see `handles`), the program is ending, or it
                cannot be made anew. When awaited: it has completed, and `reopens()` returns false.
        """
        check_seconds(grace=grace)
        self._check_open("restart")
        if name not in self._children and (start := self.absent.get(name)) is not None:
            return self._again.order_new(name, start)
        return self._again.order(name, grace)

    def _started_by_parent(self, name: str, harness: object, is_plain: bool) -> Handle | None:
        """Return a handle on the running child of another harness that has this name, if it is of the same class."""
        child = self._children.get(name)
        if child is None or child.done or name not in self._registry.families.started:
            return None
        parent = self._registry.families.parents.get(name)
        if type(child.harness) is not type(harness) or not is_plain:
            raise AlreadyRunning(
                f"harness {name!r} runs already, {parent!r} has started it: expected one of the same class without options "
                f"of its own; start it before {parent!r}, or leave it to {parent!r}"
            )
        return self._handle(child)

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

        It counts the restarts of all its children together. After more than `intensity` restarts within `period_s` seconds it
        gives up: its children end, and its own supervisor decides by `restart` whether they are started again.

        Args:
            name: any text without `/`, which separates levels in the pool name of a nested supervisor.
            budget: what its children may spend together.
        """
        check_supervisor_name(name)
        check_kind(f"supervisor {name!r}: parent", parent, Supervisor | None, _SUPERVISOR)
        if budget is not None:
            self._check_open("supervisor with a budget")
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
        if budget is not None:
            self._pools.fund(pool_of(made), budget)
        return made

    def pool(self, name: str, budget: Budget, parent: Pool | None = None) -> Pool:
        """Define a budget shared by several harnesses; pass it to `start` as their `budget`.

        Amounts already spent from a pool of this name, in this or an earlier run, still count.

        Args:
            name: `[A-Za-z0-9][A-Za-z0-9._-]*`.
            parent: another pool, charged with everything spent from this one.
        """
        self._check_open("pool")
        check_name(name)
        check_kind(f"pool {name!r}: parent", parent, Pool | None, _POOL)
        if cast(object, budget) is None:
            raise UsageError(f"pool {name!r}: expected a Budget, was None; a pool without limits is Budget()")
        return cast(Pool, self._pools.fund(pool_name("pool", name), budget, parent))

    def fund_again(self, budgets: Mapping[str, Budget | None]) -> None:
        """Replace limits while the program is running; amounts already spent still count.

        Args:
            budgets: new limits, by the names of their pools in the store; None removes a limit.
        """
        self._check_open("fund_again")
        self._pools.fund_again(budgets)

    @property
    def handles(self) -> tuple[Handle, ...]:
        """Handles on all harnesses started here, in order; of children that completed or finished, only the last thousand."""
        return tuple(map(self._handle, self._children.values()))

    @property
    def harnesses(self) -> dict[str, BaseHarness[Any, Any, Any]]:
        """All harnesses started here, by name; of those started by other harnesses, only the ones that have not ended."""
        return {name: child.harness for name, child in self._children.items() if child.harness is not ENDED}

    @property
    def drain_s(self) -> float:
        """Seconds until the end after a first signal; can be set until the signal arrives."""
        return self._shutdown.drain_s

    @drain_s.setter
    def drain_s(self, seconds: float) -> None:
        self._shutdown.drain_s = seconds

    @property
    def tells_signals(self) -> bool:
        """Whether a signal that stops the harnesses is told on standard error; can be set."""
        return self._shutdown.tells_signals

    @tells_signals.setter
    def tells_signals(self, tells: bool) -> None:
        self._shutdown.tells_signals = tells

    @property
    def signalled(self) -> int | None:
        """The number of the signal that ended the run, if one did."""
        return self._shutdown.signalled

    @property
    def _context(self) -> RunContext:
        if self._wired is None:
            raise UsageError("the Orchestrator is not open yet: expected a call within `async with Orchestrator(…)`")
        return self._wired

    @property
    def store(self) -> Store:
        """The store in use, for reading."""
        return self._context.recorder.store

    def stop(self, grace: float | None = None) -> None:
        """Stop every harness at its next step boundary, or when `grace` seconds have passed. Does not wait."""
        check_seconds(grace=grace)
        self._shutdown.stop(grace, "the orchestrator was stopped")

    async def hand_over(self, name: str, cause: str, grace_s: float | None = None) -> None:
        """Stop a harness and those that it has started, as at the end of the program, and forget them.

        Another program goes on with them, or this one later. Does nothing if the harness does not run here.

        Args:
            cause: recorded with the end.
            grace_s: seconds until they are cancelled, `math.inf` for no limit; default is their own.
        """
        await self._registry.hand_over(name, cause, grace_s)

    @contextmanager
    def going_on(self) -> Generator[None]:
        """Refuse to start harnesses that have ended, unless their program ended; it is decided when the store is reached.

        Such a harness fails with `OwnedElsewhere`, and nothing is recorded.
        """
        self._goes_on = True
        try:
            yield
        finally:
            self._goes_on = False

    def approve(self, id: str, *, by: str, reason: str = "") -> Order[bool]:
        """Approve a request of a harness; `store.approvals()` lists them. Awaiting the order waits for the disk and returns
        whether it changed anything.

        Raises, when awaited:
            UsageError: there is no such request, it has expired, or it was denied.
        """
        return answered(self._context.approvals.respond(id, "approved", by, reason))

    def deny(self, id: str, *, by: str, reason: str = "") -> Order[bool]:
        """Deny a harness's request, even one that was approved but not used yet; see `approve`."""
        return answered(self._context.approvals.respond(id, "denied", by, reason))

    def reopen(self, id: str, *, by: str, reason: str = "") -> Order[bool]:
        """Withdraw a request that was denied or has expired: the harness asks again when it is next started; see `approve`.
        Nothing is started.
        """
        return answered(self._context.approvals.respond(id, "reopened", by, reason))

    async def remark(self, kind: str, body: Mapping[str, object]) -> int:
        """Record what was done to the run as a whole, and return the `seq` of the record."""
        text = encode(redact(dict(body)) if self._options.redact else dict(body))
        seq: int = await self._context.recorder.submit(Remark("", kind, text, now_us()))
        return seq

    # orders

    @asynccontextmanager
    async def _serve(self) -> AsyncGenerator[None]:
        shutdown = self._shutdown
        failure: BaseException | None = None
        with loop_kept_from_forks(), _opened(self._given_store, self._log) as store, _processing(self._options.processors):
            try:
                log = None if self._log is None else LogFollower(store, self._log, self._options.processors)
                self._wire(store)
                async with trio.open_nursery() as services:
                    # No handshake: the task is shielded, and a cancelled `nursery.start` would wait for its end.
                    services.start_soon(self._context.recorder.run)
                    if log is not None:
                        services.start_soon(log.run, self._context.recorder)
                    try:
                        await self._start_services(services, log)
                        async with trio.open_nursery() as children:
                            self._registry.open(children, services)
                            self._is_open = True
                            children.start_soon(shutdown.abort_when_cancelled)
                            with shutdown.body:
                                try:
                                    yield
                                except BaseException as error:
                                    if isinstance(error, GeneratorExit) or parted(error)[0] is not None:
                                        raise
                                    failure = error
                                    shutdown.abort("the block was left with an error")
                                await self._registry.wait_done()
                            with trio.CancelScope(shield=shutdown.body.cancelled_caught):
                                await self._registry.wait_done()
                            self._is_ending = True
                            children.cancel_scope.cancel()
                    finally:
                        self._is_open = False
                        await self._end_services(services, log)
            except BaseException as error:
                if shutdown.fault is not None and parted(error)[1] is None:
                    raise shutdown.fault from shutdown.fault.__cause__
                raise
        self._raise_failures(failure)

    def _wire(self, store: Store) -> None:
        """Create the parts of the run; none of them is running yet."""
        options, shutdown = self._options, self._shutdown
        self.latch = kill_switch_of(store)
        recorder = Recorder(store, shutdown.lose_store)
        clock = WallClock(options.clock)
        approvals = Approvals(recorder, clock, options.max_record_bytes)
        post = MailDelivery(recorder, self._mailbox_of, approvals, options.max_record_bytes, elsewhere=self.elsewhere)
        teller = Teller(recorder, Lines())
        self._watch = LoopWatch(recorder, self._children)
        self._pools = PoolBook(recorder, teller.lines)
        burst = StartBurst()
        self._registry = ChildRegistry(self._children, self._pools, post, store, shutdown, copy_context(), burst)
        self._again = OperatorRestarts(self._children, self._registry.put, self._handle, lambda: shutdown.cause)
        self.beside = RunServices(
            options.wanted,
            recorder,
            lambda: self.handles,
            lambda: tuple(self._children.values()),
            self.restart,
            lambda name: name in self.absent,
            post.looks,
        )
        self._wired = RunContext(
            recorder=recorder,
            post=post,
            check_latch=self.latch.check,
            clock=clock,
            teller=teller,
            approvals=approvals,
            families=self._registry.families,
            lag_s=now_s() - trio.current_time(),
            start_beside=self._registry.start_beside,
            burst=burst,
            redacted=options.redact,
            most=options.max_record_bytes,
            take_span=lambda: self.beside.take_span,
            why_cancelled=shutdown.why_cancelled,
            goes_on=lambda: self._goes_on,
        )

    async def _start_services(self, services: trio.Nursery, log: LogFollower | None) -> None:
        context, options = self._context, self._options
        is_main = threading.current_thread() is threading.main_thread()
        if options.handle_signals or (options.handle_signals is None and is_main):
            await services.start(heed_signals, self._shutdown.heed_signal)
            if self.on_hangup is not None or (log is not None and log.is_file):
                await services.start(heed_hangups, partial(self._obey_hangup, log), self._shutdown.heed_signal)
        context.post.watch()
        if options.deadline_s is not None:
            services.start_soon(self._shutdown.stop_after, options.deadline_s, options.grace_s)
        services.start_soon(context.teller.lines.watch)
        self._pools.fund(RUN, options.budget)
        self._watch.start()
        await self.beside.start(services)

    async def _end_services(self, services: trio.Nursery, log: LogFollower | None) -> None:
        with trio.CancelScope(shield=True):
            self._watch.stop()
            self._context.recorder.close()
            await self._context.recorder.wait_ended()
            await self._context.post.close()
            async with trio.open_nursery() as telling:
                telling.start_soon(self.beside.finish, _TRACES_S)
                if log is not None:
                    telling.start_soon(log.finish, _LOG_S)
        services.cancel_scope.cancel()

    async def _obey_hangup(self, log: LogFollower | None) -> None:
        """Open the log anew, and do what else SIGHUP means."""
        if log is not None and log.is_file:
            await trio.to_thread.run_sync(log.reopen)
        if self.on_hangup is not None and self._is_open and self._shutdown.cause is None:
            await self.on_hangup()

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

    def _check_open(self, verb: str) -> None:
        if not self._is_open:
            raise UsageError(f"{verb}: the Orchestrator is not open: expected a call within `async with Orchestrator(…)`")

    def _raise_failures(self, failure: BaseException | None) -> None:
        """Raise the block's own error as it is; otherwise all failed harnesses as one group."""
        errors: list[Exception] = [] if self._shutdown.lost is None else [self._shutdown.lost]
        if failure is None and not self._is_ending and not errors:
            errors.append(ScopeError("the Orchestrator's own nursery was cancelled from inside: every harness was stopped"))
        outcomes = {child.name: child.outcome for child in self._children.values() if child.outcome is not None}
        if self.tells_blocked:
            for outcome in outcomes.values():
                if outcome.kind is OutcomeKind.BLOCKED:
                    say(f"orchestrator: {one_line(str(outcome.error or outcome.cause), 2000)}")
        errors += [error for name, outcome in outcomes.items() if (error := as_error(name, outcome)) is not None]
        if failure is not None:
            for error in errors:
                failure.add_note(f"also: {error}")
            raise failure
        if errors:
            raise ExceptionGroup(f"{len(errors)} of {self._registry.started} harnesses failed", errors)


@contextmanager
def _processing(given: Sequence[Processor]) -> Generator[None]:
    """Send the program's own log messages through these processors."""
    token = run_processors.set(given)
    try:
        yield
    finally:
        run_processors.reset(token)


@contextmanager
def _opened(given: str | Path | Store | None, log: str | Path | TextIO | None) -> Generator[Store]:
    """Open the store of a run, and hide the run's files from sandboxed processes meanwhile."""
    store, ours = _open(given)
    concealed = [conceal_file(path) for path in _files_of(store, log)]
    if (path := path_of(store)) is not None:
        concealed.append(conceal_key(secret_path(path)))
    try:
        yield store
    finally:
        for one in concealed:
            one.reveal()
        if ours:
            store.close()


def _files_of(store: Store, log: str | Path | TextIO | None) -> list[str]:
    """Return the paths of the run's files."""
    paths: list[object] = [path_of(store), log if isinstance(log, str | Path) else getattr(log, "name", None)]
    named = [os.fspath(path) for path in paths if isinstance(path, str | Path)]
    return [path for path in named if os.path.isfile(path) or (path == str(log) and not os.path.lexists(path))]


def _open(store: str | Path | Store | None) -> tuple[Store, bool]:
    """Return the store to use, and whether this orchestrator has to close it."""
    if store is None:
        return MemoryStore(), True
    if isinstance(store, str | Path):
        return open_store(store), True
    if not hasattr(store, "commit"):
        raise UsageError(f"store: expected a path, a Store or nothing, was {store!r:.200}")
    return store, False
