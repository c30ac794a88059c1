"""The verb `doctor`: looks at everything a run stands on, and says what to do about what is not well.

The law: each look is kept from the others' troubles, takes a bounded time, and writes nothing to the store.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from attrs import frozen

from orchestrator.command import doctor_file, doctor_machine, doctor_store, doctor_work, streams
from orchestrator.command.doctor_nouns import Check, Examination, Level, examined, warn
from orchestrator.command.exits import ExitCode
from orchestrator.command.lines import json_line
from orchestrator.command.parsing import print_all, store_of
from orchestrator.command.runfile import read_run_file
from orchestrator.errors import OrchestratorError
from orchestrator.text import one_line


@frozen
class Patient:
    """What is looked at."""

    store: Path
    store_named: bool
    """Whether somebody has said that it is there."""
    file: Path | None = None


def doctor(options: argparse.Namespace) -> int:
    """Carry the verb out."""
    checks: list[Check] = []

    def lines() -> Iterator[str]:
        for check in findings(_patient(options)):
            checks.append(check)
            yield from [json_line(fields(check))] if options.json else told(check)

    print_all(lines())
    streams.say(summary(checks))
    return ExitCode.FAILED if any(check.level is Level.FAIL for check in checks) else ExitCode.OK


def _patient(options: argparse.Namespace) -> Patient:
    file: Path | None = options.file
    said = store_of(options)
    named = options.store is not None
    if not named and file is not None and file.suffix != ".py":
        try:
            beside = read_run_file(file).store
        except OrchestratorError:
            beside = None  # what is wrong with the file is told where it is looked at
        said = str(beside) if beside is not None else said
    return Patient(Path(said), named, file)


def findings(patient: Patient) -> Iterator[Check]:
    """Yield everything that is found."""
    yield from examined(_of_machine())
    yield from examined(_of_store(patient))
    if patient.file is not None:
        yield from examined([Examination("run file", partial(doctor_file.run_file, patient.file))])


def _of_machine() -> Sequence[Examination]:
    return (
        Examination("python", doctor_machine.python),
        Examination("packages", doctor_machine.packages),
        Examination("extras", doctor_machine.extras),
        Examination("sqlite", doctor_machine.sqlite),
        Examination("programs", doctor_machine.programs),
        Examination("environment", doctor_machine.environment),
        Examination("guards", doctor_machine.guards),
    )


def _of_store(patient: Patient) -> Iterator[Examination]:
    store = patient.store
    yield Examination("store", partial(doctor_store.opens, store, named=patient.store_named))
    yield Examination("room", partial(doctor_store.room, store))
    yield Examination("permissions", partial(doctor_store.permissions, store))
    yield Examination("latch", partial(doctor_work.latch, store))
    if not doctor_store.can_be_read(store):
        if store.exists():
            yield Examination("work", lambda: [warn("work", "what is in the store was not looked at", "mend the store first")])
        return
    for name, look in (
        ("integrity", doctor_store.whole),
        ("ownership", doctor_work.ownership),
        ("attempts", doctor_work.attempts),
        ("harnesses", doctor_work.standing),
        ("effects", doctor_work.effects),
        ("approvals", doctor_work.approvals),
        ("secrets", doctor_work.secrets),
    ):
        yield Examination(name, partial(look, store))


def fields(check: Check) -> dict[str, str]:
    """Return a finding as JSON has it."""
    return {"check": check.check, "level": check.level.value, "finding": check.finding, "fix": check.fix}


def told(check: Check) -> Iterator[str]:
    """Yield a finding in words: a line, and one for what to do."""
    yield f"{check.level.value}  {check.check:<12} {one_line(check.finding, 500)}"
    if check.fix:
        yield f"{'':<19}→ {one_line(check.fix, 500)}"


def summary(checks: Sequence[Check]) -> str:
    """Return how many there are of each."""
    counts = Counter(check.level for check in checks)
    return f"{counts[Level.PASS]} well, {counts[Level.WARN]} to look at, {counts[Level.FAIL]} failed"
