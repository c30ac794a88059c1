"""The verb `doctor`: checks everything that a run depends on, and says what to do about each finding.

A failing check does not stop the others; each takes a bounded time and writes nothing to the store. With `--repair` it checks
nothing, but repairs the store: `orchestrator.cli.doctor.doctor_store`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from attrs import frozen

from orchestrator.cli import std_streams as streams
from orchestrator.cli.doctor import doctor_file, doctor_machine, doctor_server, doctor_store, doctor_work
from orchestrator.cli.doctor.doctor_model import Check, Level, examine, warn, well
from orchestrator.cli.doctor.doctor_server import repair_server
from orchestrator.cli.doctor.doctor_store import repair_lines
from orchestrator.cli.exit_codes import ExitCode
from orchestrator.cli.run.run_file import read_run_file
from orchestrator.cli.verb_options import USUAL, Common, FilePath, print_all
from orchestrator.errors import OrchestratorError
from orchestrator.store.file.server_copy import Server, server_of
from orchestrator.store.places.store_location import place_of, refresh
from orchestrator.text.terminal_text import one_line
from orchestrator.text.value_lines import json_line


@frozen
class Patient:
    """What is checked."""

    store: Path
    store_named: bool
    """Whether somebody has said that it is there."""
    file: Path | None = None
    server: Server | None = None
    """The store, if it is on a server; then `store` is its local copy, as of when it could last be made."""


def doctor(file: FilePath | None = None, /, *, repair: bool = False, common: Common = USUAL) -> int:
    """Check the set-up, the store and a run file.

    The run file is read, and each of its harnesses is created in a separate process but not run. Nothing is
    written to the store, and no check waits for long. Each finding says what to do.

    With --repair it checks nothing else. It upgrades a store of an earlier version to the current schema; and if the only
    errors in the records come from a known defect of an earlier version, it repairs them and records what was found, what
    was done, by whom, and what can no longer be proven. If anything else is wrong, the records are left as they are. No
    program may run on the store.

    Exit codes: 0 no check failed, 1 one failed. With --repair: 0 repaired, or nothing to repair; 5 something else is wrong;
    75 a program runs on the store.

    Args:
        file: a run file to check
        repair: upgrade the store from an earlier version, and repair the damage of a known defect
    """
    patient = _patient(file, common)
    if repair:
        lines_of = partial(repair_lines, patient.store) if patient.server is None else partial(repair_server, patient.server)
        print_all(lines_of(as_json=common.json))
        return ExitCode.OK
    checks: list[Check] = []

    def lines() -> Iterator[str]:
        for check in findings(patient):
            checks.append(check)
            yield from [json_line(fields(check))] if common.json else describe(check)

    print_all(lines())
    streams.say(summary(checks))
    return ExitCode.FAILED if any(check.level is Level.FAIL for check in checks) else ExitCode.OK


def _patient(file: Path | None, common: Common) -> Patient:
    said = common.location
    named = common.store is not None
    if not named and file is not None and file.suffix != ".py":
        try:
            beside = read_run_file(file).store
        except OrchestratorError:
            beside = None  # what is wrong with the file is reported where it is checked
        said = str(beside) if beside is not None else said
    # A run on the file makes its store.
    store = place_of(said)
    return Patient(store, named and file is None, file, server_of(store))


def findings(patient: Patient) -> Iterator[Check]:
    """Yield everything that is found."""
    store = patient.store
    yield from examine(_MACHINE)
    if patient.server is not None:
        yield from _of_server(patient.server, store)
        if patient.file is not None:
            yield from examine({"run file": partial(doctor_file.run_file, patient.file, store)})
        return
    opened = list(examine({"store": partial(doctor_store.opens, store, named=patient.store_named)}))
    yield from opened
    yield from examine({name: partial(look, store) for name, look in _BESIDE.items()})
    if any(check.level is Level.PASS for check in opened):
        yield from examine({name: partial(look, store) for name, look in _WITHIN.items()})
    elif store.exists():
        yield warn("work", "the contents of the store were not checked", "repair the store first")
    if patient.file is not None:
        yield from examine({"run file": partial(doctor_file.run_file, patient.file, store)})


def _of_server(server: Server, store: Path) -> Iterator[Check]:
    opened = list(examine({"server": partial(doctor_server.opens, server)}))
    yield from opened
    if any(check.level is Level.FAIL for check in opened):
        return
    yield from examine({"copy": partial(_refresh, store)})
    yield from examine(
        {"durability": partial(doctor_server.settings, server), "leases": partial(doctor_server.leases, server)}
    )
    yield from examine({"latch": partial(doctor_work.kill_switch, store)})
    yield from examine({name: partial(_WITHIN[name], store) for name in _OF_SERVER})


def _refresh(store: Path) -> Iterator[Check]:
    refresh(store)
    yield well("copy", f"the local copy is up to date: {store}")


_OF_SERVER = ("attempts", "harnesses", "effects", "approvals", "secrets")
"""Checks of `_WITHIN` that read the records alone."""
_MACHINE: Mapping[str, Callable[[], Iterable[Check]]] = {
    "python": doctor_machine.python,
    "packages": doctor_machine.packages,
    "extras": doctor_machine.extras,
    "sqlite": doctor_machine.sqlite,
    "programs": doctor_machine.programs,
    "walls": doctor_machine.check_sandbox,
    "environment": doctor_machine.environment,
    "guards": doctor_machine.guards,
}
_BESIDE: Mapping[str, Callable[[Path], Iterable[Check]]] = {
    "room": doctor_store.room,
    "permissions": doctor_store.permissions,
    "latch": doctor_work.kill_switch,
}
"""Checks that work whatever state the store is in."""
_WITHIN: Mapping[str, Callable[[Path], Iterable[Check]]] = {
    "integrity": doctor_store.whole,
    "seals": doctor_store.seals,
    "files": doctor_store.files,
    "ownership": doctor_work.ownership,
    "attempts": doctor_work.attempts,
    "harnesses": doctor_work.standing,
    "effects": doctor_work.effects,
    "approvals": doctor_work.approvals,
    "secrets": doctor_work.secrets,
}
"""Checks, by name, of a store that can be opened."""


def fields(check: Check) -> dict[str, str]:
    """Return a finding as JSON has it."""
    return {"check": check.check, "level": check.level.value, "finding": check.finding, "fix": check.fix}


def describe(check: Check) -> Iterator[str]:
    """Yield a finding in words: a line, and one for what to do."""
    yield f"{check.level.value}  {check.check:<12} {one_line(check.finding, 2000)}"
    if check.fix:
        yield f"{'':<19}→ {one_line(check.fix, 500)}"


def summary(checks: Sequence[Check]) -> str:
    """Return how many there are of each."""
    counts = Counter(check.level for check in checks)
    warnings = counts[Level.WARN]
    failed = f", {counts[Level.FAIL]} failed" if counts[Level.FAIL] else ""
    return f"{counts[Level.PASS]} passed, {warnings} warning{'' if warnings == 1 else 's'}{failed}"
