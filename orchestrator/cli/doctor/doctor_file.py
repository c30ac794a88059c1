"""A run file or a supervisor script: read here, and its code loaded in a process of its own, which may hang or crash."""

from __future__ import annotations

import json
import secrets
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import trio

from harnesses.processes.bounded_command import Ran, run_bounded
from orchestrator.cli.doctor.doctor_model import Check, fail, of_error, well
from orchestrator.cli.run.run_file import read_run_file
from orchestrator.errors import OrchestratorError
from orchestrator.text.terminal_text import one_line

LOAD_S = 30.0
"""What loading the code of a run file and making its harnesses may take."""


def run_file(path: Path, store: Path | None = None, *, load_s: float = LOAD_S) -> Iterator[Check]:
    """Look whether a run file can be read, each of its harnesses made, and gone on with from what the store has of it."""
    if path.suffix != ".py":
        try:
            file = read_run_file(path)
        except OrchestratorError as error:
            yield of_error("run file", error)
            return
        yield well("run file", f"{path} lists {len(file.harnesses)}")
    mark = secrets.token_hex(8)
    said: list[str] = []
    command = [sys.executable, "-m", "orchestrator.cli.doctor.doctor_probe", mark, str(path), str(store or "run.db")]

    async def probe() -> Ran:
        return await run_bounded(command, limit_s=load_s, on_line=lambda line: said.append(line) if mark in line else None)

    ran = trio.run(probe)
    findings = [_finding(line.partition(mark)[2]) for line in said[:1000]]
    yield from (finding for finding in findings if finding is not None)
    if None not in findings:
        yield _report_unfinished(path, ran, load_s, len(findings))


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
