"""A run file or a supervisor script: read here, and its code loaded in a process of its own, which may hang or crash.

Run as a program, this module is that process: it loads the code and makes the harnesses, and runs none.
"""

from __future__ import annotations

import json
import os
import secrets
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import trio

from harnesses.processes.bounded_command import Ran, run_bounded
from harnesses.run_file_harnesses.model_agent_table import missing_parts
from harnesses.run_file_harnesses.table_programs import missing_programs, missing_pytest
from orchestrator.alerts.alert_rules import Alerts
from orchestrator.alerts.query_check import query_problems
from orchestrator.cli.doctor.doctor_model import MOST, Check, fail, of_error, warn, well
from orchestrator.cli.run.code_loading import find_modules_in, is_program, load_script, read_script
from orchestrator.cli.run.harness_factory import make
from orchestrator.cli.run.ready_made import READY_MADE
from orchestrator.cli.run.run_file import read_alerts_alone, read_run_file
from orchestrator.errors import OrchestratorError, StateChanged, StoreUnusable, UnknownHarness
from orchestrator.runtime.started_children import trouble_of
from orchestrator.states.state_migration import ready, version_for
from orchestrator.states.state_types import HarnessTypes
from orchestrator.store.sqlite.sqlite_reader import SqliteReader
from orchestrator.text.terminal_text import one_line

LOAD_S = 30.0
"""What loading the code of a run file and making its harnesses may take."""


def run_file(path: Path, store: Path | None = None, *, load_s: float = LOAD_S) -> Iterator[Check]:
    """Look whether a run file can be read, each of its harnesses made, and gone on with from what the store has of it."""
    if path.suffix != ".py":
        try:
            if (alone := read_alerts_alone(path)) is not None:
                yield well("alerts", f"{path} has only alerts, for `orchestrator notify`")
                yield from _doubtful(path, alone.alerts)
                return
            file = read_run_file(path)
        except OrchestratorError as error:
            yield of_error("run file", error)
            return
        yield well("run file", f"{path} lists {len(file.harnesses)}")
        yield from _doubtful(path, file.alerts)
    mark = secrets.token_hex(8)
    said: list[str] = []
    command = [sys.executable, "-m", "orchestrator.cli.doctor.doctor_file", mark, str(path), str(store or "run.db")]

    async def probe() -> Ran:
        return await run_bounded(command, limit_s=load_s, on_line=lambda line: said.append(line) if mark in line else None)

    ran = trio.run(probe)
    findings = [_finding(line.partition(mark)[2]) for line in said[:1000]]
    yield from (finding for finding in findings if finding is not None)
    if None not in findings:
        yield _report_unfinished(path, ran, load_s, len(findings))


def _doubtful(path: Path, alerts: Alerts) -> Iterator[Check]:
    for problem in query_problems(alerts):
        yield warn("alerts", f"{path}: {problem}", "correct the query: until then this rule sends no alert")


def _finding(text: str) -> Check | None:
    """Return what the other process says of one harness; None at its end."""
    fields: dict[str, Any] = json.loads(text)
    if "end" in fields:
        return None
    if fields.get("problem"):
        return of_error("run file", ValueError(fields["problem"]))
    return well("run file", one_line(str(fields.get("made")), 200))


def _report_unfinished(path: Path, ran: Ran, load_s: float, made: int) -> Check:
    after = f"after {made} were made" if made else "before any was made"
    if ran.code is None:
        return fail(
            "run file",
            f"{path}: loading its code did not end within {load_s:.0f} s, {after}",
            "have modules do nothing when they are imported, and harnesses wait in execute()",
        )
    return fail(
        "run file",
        f"{path}: loading its code ended the program with code {ran.code}, {after}: {one_line(ran.tail[-400:], 300)}",
        "have modules do nothing when they are imported",
    )


def main(mark: str, path: Path, store: Path) -> None:
    """Write a line of JSON for each harness, after `mark`, and one at the end."""
    if path.suffix == ".py" and is_program(path):
        load_script(path)
        _say(mark, {"made": f"{path} is a program, and can be loaded"})
    elif path.suffix == ".py":
        read_script(path)
        _say(mark, {"made": f"{path} has a function supervise"})
    else:
        find_modules_in(path.parent, Path.cwd())
        for table in read_run_file(path).harnesses:
            name = table.config.name
            try:
                made = make(table, store).harness
                resumes = _resumes(store, name, HarnessTypes.of(made))
            except OrchestratorError as error:
                _say(mark, {"problem": str(error)})
            else:
                _say(mark, {"made": f"{name}: {type(made).__qualname__} can be made{resumes}"})
            if table.config.harness in READY_MADE:
                given = table.config.arguments
                programs = (*missing_programs(given, table.beside), *missing_pytest(given, table.beside))
                for missing in (*programs, *missing_parts(given)):
                    _say(mark, {"problem": f"{table.where}: {table.config.harness}: {missing}"})
    _probe_children(mark, store)
    _say(mark, {"end": True})


def _probe_children(mark: str, store: Path) -> None:
    """Tell which harnesses that others have started could not be started again."""
    if not store.exists():
        return
    try:
        with closing(SqliteReader(store)) as reader:
            records = reader.children()
    except StoreUnusable:
        return  # told where the store is looked at
    troubles = [trouble for trouble in map(trouble_of, records) if trouble]
    for trouble in troubles[:MOST]:
        _say(mark, {"problem": trouble})
    if len(troubles) > MOST:
        _say(mark, {"problem": f"… and {len(troubles) - MOST} more children; put what makes them back"})
    if records and not troubles:
        _say(mark, {"made": f"{len(records)} started by others: those that have not ended can be made again"})


def _resumes(store: Path, name: str, types: HarnessTypes) -> str:
    """Return what becomes of the state on record when the harness is started; nothing is written.

    Raises:
        StateChanged: it does not fit.
    """
    if not store.exists():
        return ""
    with closing(SqliteReader(store)) as reader:
        try:
            version, text = reader.goes_on_with(name)
        except (UnknownHarness, StoreUnusable):
            return ""
    try:
        readied = ready(types, text, version)
    except StateChanged as error:
        raise StateChanged(f"harness {name!r}: {error}") from error
    current = version_for(types)
    return "" if readied.migrated is None else f"; its state will be migrated from version {version} to {current}"


def _say(mark: str, fields: dict[str, Any]) -> None:
    # Not by `print`: the user's code may have put anything in the place of standard output.
    os.write(1, f"\n{mark}{json.dumps(fields)}\n".encode())


if __name__ == "__main__":
    try:
        main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
    except OrchestratorError as error:
        _say(sys.argv[1], {"problem": str(error)})
        _say(sys.argv[1], {"end": True})
