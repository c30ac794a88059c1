"""The verb `doctor`: looks at everything a run stands on, and says what to do about what is not well.

The law: each look is kept from the others' troubles, takes a bounded time, and writes nothing to the store. With `--repair`
it does not look around, but mends the store: `orchestrator.cli.doctor.doctor_store`.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from attrs import frozen

from orchestrator.cli import std_streams as streams
from orchestrator.cli.doctor import doctor_file, doctor_machine, doctor_store, doctor_work
from orchestrator.cli.doctor.doctor_model import Check, Examination, Level, examine, warn
from orchestrator.cli.doctor.doctor_store import repair_lines
from orchestrator.cli.exit_codes import ExitCode
from orchestrator.cli.parsing import print_all, store_of
from orchestrator.cli.run.run_file import read_run_file
from orchestrator.cli.value_lines import json_line
from orchestrator.errors import OrchestratorError
from orchestrator.text.terminal_text import one_line


@frozen
class Patient:
    """What is looked at."""

    store: Path
    store_named: bool
    """Whether somebody has said that it is there."""
    file: Path | None = None


def doctor(options: argparse.Namespace) -> int:
    """Carry the verb out."""
    if options.repair:
        print_all(repair_lines(_patient(options).store, as_json=options.json))
        return ExitCode.OK
    checks: list[Check] = []

    def lines() -> Iterator[str]:
        for check in findings(_patient(options)):
            checks.append(check)
            yield from [json_line(fields(check))] if options.json else describe(check)

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
    store = patient.store
    yield from examine(_of_machine())
    opened = list(examine([Examination("store", partial(doctor_store.opens, store, named=patient.store_named))]))
    yield from opened
    yield from examine(_beside(store))
    if any(check.level is Level.PASS for check in opened):
        yield from examine(_within(store))
    elif store.exists():
        yield warn("work", "what is in the store was not looked at", "mend the store first")
    if patient.file is not None:
        yield from examine([Examination("run file", partial(doctor_file.run_file, patient.file, store))])


def _of_machine() -> Sequence[Examination]:
    return (
        Examination("python", doctor_machine.python),
        Examination("packages", doctor_machine.packages),
        Examination("extras", doctor_machine.extras),
        Examination("sqlite", doctor_machine.sqlite),
        Examination("programs", doctor_machine.programs),
        Examination("walls", doctor_machine.check_sandbox),
        Examination("environment", doctor_machine.environment),
        Examination("guards", doctor_machine.guards),
    )


def _beside(store: Path) -> Sequence[Examination]:
    """Return what can be looked at whatever the store is like."""
    return (
        Examination("room", partial(doctor_store.room, store)),
        Examination("permissions", partial(doctor_store.permissions, store)),
        Examination("latch", partial(doctor_work.kill_switch, store)),
    )


def _within(store: Path) -> Sequence[Examination]:
    """Return what there is to look at in a store that opens."""
    return (
        Examination("integrity", partial(doctor_store.whole, store)),
        Examination("seals", partial(doctor_store.seals, store)),
        Examination("ownership", partial(doctor_work.ownership, store)),
        Examination("attempts", partial(doctor_work.attempts, store)),
        Examination("harnesses", partial(doctor_work.standing, store)),
        Examination("effects", partial(doctor_work.effects, store)),
        Examination("approvals", partial(doctor_work.approvals, store)),
        Examination("secrets", partial(doctor_work.secrets, store)),
    )


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
    return f"{counts[Level.PASS]} well, {counts[Level.WARN]} to look at, {counts[Level.FAIL]} failed"
