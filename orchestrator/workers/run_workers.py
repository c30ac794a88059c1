"""`run_workers`: a program's harnesses in several processes, and what the program does meanwhile."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, Literal, TextIO

import trio

from harnesses.processes.cores import usable_cores
from harnesses.timing.clock import now_us
from orchestrator.errors import OrchestratorError, UsageError
from orchestrator.lifecycle import Status
from orchestrator.log import LogFollower
from orchestrator.outcome import Outcome, OutcomeKind
from orchestrator.records import HarnessRecord
from orchestrator.store import Store
from orchestrator.store.places.store_location import open_store
from orchestrator.text.terminal_text import say
from orchestrator.workers.placement import place
from orchestrator.workers.store_log import StoreNews
from orchestrator.workers.worker_channel import Share
from orchestrator.workers.worker_pool import WorkerPool

_LOG_S = 5.0
_GOING_ON = frozenset((Status.NEW, Status.RUNNING, Status.PAUSED, Status.BACKING_OFF))
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def workers_of(given: object) -> int:
    """Return a number of workers; `auto` is one for each core that this process may use.

    Raises:
        UsageError: it is none.
    """
    if given == "auto":
        return usable_cores()
    if isinstance(given, str) and given.isascii() and given.isdecimal():
        given = int(given)
    if isinstance(given, bool) or not isinstance(given, int) or not 1 <= given <= 512:
        raise UsageError(f"workers: expected a number from 1 to 512, or auto, got {given!r:.100}; correct it")
    return given


async def run_workers(
    start: str,
    names: Collection[str],
    *,
    store: str | Path,
    workers: int | Literal["auto"] = "auto",
    log: str | Path | TextIO | None = None,
    **options: Any,
) -> dict[str, Outcome]:
    """Run harnesses in several processes on one store, until all of them have ended.

    Each process has an orchestrator of its own, and starts its part of the harnesses in it. One that is killed is started
    again, and its harnesses go on from their last recorded steps. SIGINT and SIGTERM are passed on to all.

    Args:
        start: `module:function`, called in each process with its orchestrator and the names of its harnesses; it starts each
            under its name. It may be async.
        names: of all harnesses.
        store: path of the store, or address of one on a server.
        workers: the number of processes; `auto` is one for each core. There are no more than there are names.
        log: as for `Orchestrator`; written by this process.
        options: other keyword arguments of each `Orchestrator`, of values that JSON has.

    Returns:
        How each harness ended, by name; those of harnesses that they started, too.

    Raises:
        UsageError: an argument is wrong.
        OrchestratorError: a worker ended before it had started its harnesses, or was killed once too often; the others have
            come to their end.
    """
    module, _, function = start.partition(":")
    if not module or not function:
        raise UsageError(f"start: expected module:function, got {start!r:.200}; a process of its own imports it")
    if module == "__main__":
        raise UsageError("start: expected a function of a module that can be imported, not of __main__; move it to a module")
    shares = place([(name,) for name in dict.fromkeys(names)], workers_of(workers))
    told = {"path": sys.path, "start": start, "store": os.fspath(store), "options": options, "all": [*names]}
    pool = WorkerPool(
        [Share(names=share, options=told) for share in shares],
        lambda descriptor: [sys.executable, "-m", "orchestrator.workers.worker_program", str(descriptor)],
    )
    with closing(open_store(store)) as opened:
        pool.ended = partial(names_of_ended, opened, now_us())
        await lead(pool, opened, log)
        _check_reported(pool)
        return outcomes_of(pool, opened)


def names_of_ended(store: Store, since_us: int) -> set[str]:
    """Return the names of the harnesses that have ended since a moment, microseconds since 1970."""
    return {one.name for one in store.harnesses() if one.status not in _GOING_ON and one.last_time_us >= since_us}


def outcomes_of(pool: WorkerPool, store: Store) -> dict[str, Outcome]:
    """Return how the harnesses of all workers ended, by name: as the workers said, or else as is on record."""
    told = {one.name: one.outcome for number in sorted(pool.reports) for one in pool.reports[number].ended}
    records = {one.name: one for one in store.harnesses()}
    for number, share in enumerate(pool.shares):
        for name in share.names:
            if name not in told and (record := records.get(name)) is not None:
                told[name] = _as_recorded(record, number)
    return told


def _as_recorded(record: HarnessRecord, worker: int) -> Outcome:
    if record.status in _GOING_ON:
        cause = f"worker {worker + 1} ended without a result"
        return Outcome(OutcomeKind.STOPPED, cause, record.current_step, record.attempt)
    cause = str(record.event.get("cause") or "")
    return Outcome(OutcomeKind(record.status.value), cause, record.current_step, record.attempt)


def _check_reported(pool: WorkerPool) -> None:
    """Raise `OrchestratorError` if a worker has not said how its harnesses ended."""
    lost = [number + 1 for number in range(len(pool.shares)) if number not in pool.reports]
    if lost:
        which = f"workers {', '.join(map(str, lost))}" if len(lost) > 1 else f"worker {lost[0]}"
        codes = ", ".join(str(pool.codes.get(number - 1, 1)) for number in lost)
        raise OrchestratorError(f"{which} ended with code {codes} without a result: see what was said on standard error")


async def lead(
    pool: WorkerPool,
    store: Store,
    log: str | Path | TextIO | None = None,
    beside: Sequence[Callable[[], Awaitable[object]]] = (),
    *,
    has_begun: Callable[[], object] = lambda: None,
    early: int | None = None,
) -> None:
    """Run workers to their end, write the log meanwhile, and pass on signals.

    Args:
        beside: runs beside them, and is cancelled at their end.
        has_begun: called once all of them have started their harnesses.
        early: a signal that came before.
    """
    news = StoreNews(store)
    follower = None if log is None else LogFollower(store, log)
    async with trio.open_nursery() as services:
        await services.start(partial(_pass_on, pool, follower))
        if early is not None:
            signal.raise_signal(early)
        if follower is not None:
            services.start_soon(follower.run, news)
        for one in beside:
            services.start_soon(one)
        services.start_soon(_tell_begun, pool, has_begun)
        try:
            await pool.run()
        finally:
            news.ended = True
            if follower is not None:
                with trio.CancelScope(shield=True):
                    await follower.finish(_LOG_S)
        services.cancel_scope.cancel()


async def _pass_on(
    pool: WorkerPool, log: LogFollower | None, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
) -> None:
    with trio.open_signal_receiver(*_SIGNALS) as signals:
        task_status.started()
        async for number in signals:
            if number == signal.SIGHUP:
                if log is not None and log.is_file:
                    await trio.to_thread.run_sync(log.reopen)
                say("SIGHUP: the log is reopened; what was added to a run file is taken up by the next run")
                continue
            again = " again" if pool.signalled else ""
            say(f"{signal.Signals(number).name}{again}: stopping all workers")
            pool.pass_on(number)


async def _tell_begun(pool: WorkerPool, has_begun: Callable[[], object]) -> None:
    await pool.wait_begun()
    has_begun()
