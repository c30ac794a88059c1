"""A process of its own that loads the code of a run file and makes its harnesses, for `orchestrator doctor`; runs none."""

from __future__ import annotations

import json
import os
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

from harnesses.run_file_harnesses.coding_parts import missing_programs
from orchestrator.cli.doctor.doctor_model import MOST
from orchestrator.cli.run.code_loading import find_modules_in, load_script
from orchestrator.cli.run.harness_factory import make
from orchestrator.cli.run.ready_made import READY_MADE
from orchestrator.cli.run.run_file import read_run_file
from orchestrator.cli.run.supervisor_script import is_program, read_script
from orchestrator.errors import OrchestratorError, StateChanged, StoreUnusable, UnknownHarness
from orchestrator.runtime.started_children import trouble_of
from orchestrator.states.state_migration import ready, version_for
from orchestrator.states.state_types import HarnessTypes
from orchestrator.store.sqlite.sqlite_reader import SqliteReader


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
                for missing in missing_programs(table.config.arguments, table.beside):
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
