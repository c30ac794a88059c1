"""The run file of a running program: its harnesses are started, made anew for a restart, and what is added to it is taken up.

    SIGHUP ──► read ──► compare with what runs ──► start what is added ──► say and record it
                 └─ not valid: nothing is changed

Invariant: a reload touches nothing that runs. What is changed in the file or removed from it is only named, with what applies
it.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import trio
from attrs import define, evolve, field

from harnesses.errors import HarnessError
from orchestrator.alerts.alert_rules import Alerts
from orchestrator.cli.run.harness_factory import Made, make, make_all
from orchestrator.cli.run.notify_verb import start_notifier
from orchestrator.cli.run.run_file import RunFile, Table, read_run_file
from orchestrator.cli.run.supervisor_tables import Opened
from orchestrator.cli.std_streams import say
from orchestrator.errors import OrchestratorError, UsageError
from orchestrator.handle import Handle
from orchestrator.orchestrator import Orchestrator
from orchestrator.recording.budget_account import RUN
from orchestrator.records import RELOADED
from orchestrator.text.command_hints import command
from orchestrator.text.terminal_text import one_line

_ENDS_WITHIN_S = 5.0
"""Seconds that a process which tells people has to end before it is killed."""


@define(eq=False)
class RunningFile:
    """A run file and the program that runs it.

    Args:
        read: the file as it was when the program began.
        store: where the run is recorded.
    """

    _file: Path
    _read: RunFile
    _store: Path | str
    _made: tuple[Made, ...] = ()
    _tables: dict[str, Table] = field(factory=dict[str, Table])
    """The table that each harness was last made from."""
    _groups: Opened = field(factory=Opened)
    _alerts: Alerts = field(factory=Alerts)
    """The alerts that are told."""
    _notifier: subprocess.Popen[bytes] | None = None
    _begun: trio.Event = field(factory=trio.Event)

    @classmethod
    def of(cls, read: RunFile, store: Path | str) -> RunningFile:
        """Make the harnesses of a run file; nothing is started yet.

        Raises:
            UsageError: one of them cannot be made.
        """
        tables = {table.config.name: table for table in read.harnesses}
        read_again = evolve(read, store=_absolute(read.store), log=_absolute(read.log))
        return cls(read.path.absolute(), read_again, store, make_all(read, store), tables, Opened(), read.alerts)

    def tell_people(self, store: Path) -> None:
        """Start the process that tells people what needs them, if the file has alerts."""
        self._store = store
        self._notifier = start_notifier(self._alerts, self._file, store)

    async def supervise(self, orchestrator: Orchestrator) -> None:
        """Start everything that is in the file."""
        self._read.groups.open(orchestrator, self._groups)
        for made in self._made:
            self._start(made, orchestrator)
        self._made = ()
        self._begun.set()

    def _start(self, made: Made, orchestrator: Orchestrator) -> Handle:
        return made.start(orchestrator, partial(self._renew, made.config.name, orchestrator), self._groups)

    def _renew(self, name: str, orchestrator: Orchestrator) -> Callable[[], Handle]:
        """Make one harness as the file says now, and return what starts it; imported code stays as it is.

        Raises:
            UsageError: the file cannot be read, or the harness cannot be made.
        """
        read = read_run_file(self._file)
        table = next((table for table in read.harnesses if table.config.name == name), None)
        if table is None:
            raise UsageError(
                f"{self._file} has no harness {name!r} any more: expected its table; put it back, or leave it ended"
            )
        made = make(table, self._store)
        self._groups.supervisor(made.supervisor, name)
        self._groups.pool(made.pool, name)
        budgets = read.groups.budgets()
        budgets[RUN] = read.options.get("budget")

        def start() -> Handle:
            orchestrator.fund_again(budgets)
            self._tables[name] = table
            self._read = _with_budgets(self._read, read)
            return self._start(made, orchestrator)

        return start

    # SIGHUP

    async def reload(self, orchestrator: Orchestrator) -> None:
        """Take up what is added to the file, and say what is not applied."""
        await self._begun.wait()
        added, errors = list[str](), list[str]()
        try:
            read = await trio.to_thread.run_sync(read_run_file, self._file)
            new = [table for table in read.harnesses if table.config.name not in self._tables]
            made = [make(table, self._store) for table in new]
        except (OrchestratorError, HarnessError) as error:
            await self._note(orchestrator, (), (), f"{one_line(str(error), 500)}")
            return
        left = [*self._not_applied(read)]
        try:
            added += read.groups.open(orchestrator, self._groups)
            self._read = evolve(self._read, groups=read.groups.added_to(self._read.groups))
            for table, one in zip(new, made, strict=True):
                self._start(one, orchestrator)
                self._tables[table.config.name] = table
                added.append(f"harness {table.config.name}")
        except (OrchestratorError, HarnessError) as error:
            errors.append(one_line(str(error), 500))
        try:
            added += await self._add_alerts(read)
        except (OrchestratorError, HarnessError, OSError) as error:
            errors.append(one_line(str(error), 500))
        await self._note(orchestrator, added, left, "; ".join(errors))

    async def _note(self, orchestrator: Orchestrator, added: Any, left: Any, error: str) -> None:
        """Say and record what came of a reload."""
        what = f"added {', '.join(added)}" if added else "nothing is added" if not error else "nothing is changed"
        parts = [error, what] if error else [what]
        if left:
            parts.append(f"not applied: {'; '.join(left)}")
        say(f"SIGHUP: {self._file.name}: {'; '.join(parts)}")
        await orchestrator.remark(
            RELOADED, {"run_file": str(self._file), "added": [*added], "not_applied": [*left], "error": error}
        )

    def _not_applied(self, read: RunFile) -> Iterator[str]:
        """Yield what has changed or is gone, with what applies it."""
        tables = {table.config.name: table for table in read.harnesses}
        for name, before in self._tables.items():
            if name not in tables:
                yield f"harness {name} is gone from the file: `{self._order('stop', name)}` ends it"
            elif _own(before) != _own(tables[name]):
                yield f"harness {name} has changed: `{self._order('restart', name)}` applies it"
        yield from read.groups.changes_of(self._read.groups)
        options = self._read.options
        for name in sorted({*options, *read.options}):
            if options.get(name) != read.options.get(name):
                applied = "the next restart of a harness" if name == "budget" else "a new program"
                yield f"{name} has changed: {applied} applies it"
        for name, one, other in (("store", self._read.store, read.store), ("log", self._read.log, read.log)):
            if one != other:
                yield f"{name} has changed: a new program applies it"
        if not _is_only_added(self._alerts, read.alerts):
            yield "alerts have changed or are gone: a new program applies it"

    def _order(self, verb: str, name: str) -> str:
        return command(self._store, verb, name)

    async def _add_alerts(self, read: RunFile) -> list[str]:
        """Have added alerts told too: by another process, since the one so far does not read the file again."""
        if read.alerts == self._alerts or not _is_only_added(self._alerts, read.alerts):
            return []
        started = start_notifier(read.alerts, self._file, Path(self._store))
        before, self._notifier = self._notifier, started
        count, has_ping = len(read.alerts.rules) - len(self._alerts.rules), read.alerts.ping != self._alerts.ping
        self._alerts = read.alerts
        if before is not None:
            before.terminate()
            await trio.to_thread.run_sync(_wait, before)
        alerts = [f"{count} alert{'s' * (count > 1)}"] if count else []
        return [*alerts, *(["ping"] if has_ping else [])]


def _wait(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(_ENDS_WITHIN_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _own(table: Table) -> Table:
    """Return a table without its place, and without what groups add to it, whose changes are named by themselves."""
    return evolve(table, shared_budget=None, beside=Path(), where="")


def _absolute(path: Path | None) -> Path | None:
    """Return a path as it is in a file that is read under its absolute path."""
    return None if path is None else path.absolute()


def _with_budgets(running: RunFile, read: RunFile) -> RunFile:
    """Return what runs, with the budgets of the file as it is now, which the restart of a harness applies."""
    options: Mapping[str, Any] = {**running.options, "budget": read.options.get("budget")}
    return evolve(running, options=options, groups=running.groups.with_budgets(read.groups))


def _is_only_added(before: Alerts, now: Alerts) -> bool:
    """Return whether all alerts so far are there still, unchanged."""
    return all(rule in now.rules for rule in before.rules) and before.ping in (None, now.ping)
