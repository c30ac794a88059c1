"""The program above the workers of a run file: what one process does for all of them, and what it says at the end."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

import trio
from attrs import frozen

from harnesses.timing.clock import now_us
from orchestrator.cli.exit_codes import ExitCode, of_run
from orchestrator.cli.run.live_display import View, follow
from orchestrator.cli.run.run_report import summary
from orchestrator.cli.run.service_manager import stay_alive, tell_manager
from orchestrator.cli.std_streams import say
from orchestrator.control.metrics_of_all import serve_metrics
from orchestrator.control.run_services import Address
from orchestrator.outcome import Outcome
from orchestrator.store.postgres.postgres_store import PostgresStore
from orchestrator.store.sqlite.sqlite_store import SqliteStore
from orchestrator.text.command_hints import for_store
from orchestrator.workers.run_workers import lead, names_of_ended, outcomes_of
from orchestrator.workers.worker_channel import Share
from orchestrator.workers.worker_pool import WorkerPool


@frozen(kw_only=True)
class Workers:
    """The workers of a run file."""

    file: Path
    text: str
    """Of the file as the run began with it: a worker that is started again reads no other."""
    store: SqliteStore | PostgresStore
    place: Path
    """Path of its file, or of its local copy."""
    shares: Sequence[tuple[str, ...]]
    log: Path | None
    words: Sequence[str]
    """Options of each worker."""
    metrics: Address | None
    view: View | None
    quiet: bool

    def run(self, early: Callable[[], int | None]) -> int:
        """Run them to their end, say how it came out, and return the exit code.

        Args:
            early: returns a signal that came before they could be started.
        """
        command = [sys.executable, "-m", "orchestrator", "run", str(self.file), "--store", str(self.place), *self.words]
        options = {"text": self.text, "all": [name for share in self.shares for name in share]}
        pool = WorkerPool(
            [Share(names=share, options=options) for share in self.shares],
            lambda descriptor: [*command, "--worker", str(descriptor)],
            partial(names_of_ended, self.store, now_us()),
        )
        if not self.quiet:
            counts = ", ".join(str(len(share)) for share in self.shares[:8])
            say(f"{len(self.shares)} workers, with {counts}{' …' if len(self.shares) > 8 else ''} harnesses")
        try:
            trio.run(self._lead, pool, early)
        finally:
            tell_manager("STOPPING=1")
            if self.view is not None:
                with suppress(Exception):
                    self.view.close()
        ended = outcomes_of(pool, self.store)
        if not self.quiet:
            said = dict.fromkeys(line for report in pool.reports.values() for line in report.said)
            for text in (*summary(ended), *said):
                say(for_store(text, self.place))
        return code_of(pool, ended.values())

    async def _lead(self, pool: WorkerPool, early: Callable[[], int | None]) -> None:
        beside: list[Callable[[], Awaitable[object]]] = [stay_alive]
        if self.view is not None:
            beside.append(partial(follow, self.view))
        if self.metrics is not None:
            beside.append(partial(serve_metrics, self.place, self.metrics))
        await lead(pool, self.store, self.log, beside, has_begun=lambda: tell_manager("READY=1"), early=early())


def code_of(pool: WorkerPool, ended: Iterable[Outcome] = ()) -> int:
    """Return the exit code of the run: of those of the workers, the one that must not be overlooked.

    A worker that ended without a result has failed, whatever its code.
    """
    said = [_said(report.code) for report in pool.reports.values()]
    lost = [ExitCode.FAILED for number in pool.codes if number not in pool.reports]
    kept = [ExitCode(code) for number, code in pool.codes.items() if number not in pool.reports and code in {*ExitCode}]
    return of_run(ended, [*said, *lost, *kept], pool.signalled)


def _said(code: int) -> ExitCode:
    """Return a code that a worker reported; one that was ended by a signal, perhaps to it alone, was stopped."""
    return ExitCode(code) if code in {*ExitCode} else ExitCode.STOPPED
