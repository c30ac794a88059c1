"""The verb `contract`: whether what a builder is about to hand in can be read, is complete, and names files that are there.

An agent, or the program that runs it, asks before handing in. It is the part of the judgement that needs no validator: a
contract that passes here may still be found wanting.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from harnesses.governance import Check, ContractError, file_checks, read_builder
from harnesses.governance.contracts.completeness import completeness
from harnesses.governance.contracts.contract_fields import MAX_DOCUMENT
from harnesses.governance.evidence.attempt_verdict import unreadable
from orchestrator.cli import std_streams as streams
from orchestrator.cli.exit_codes import ExitCode
from orchestrator.cli.verb_options import USUAL, Common, print_all
from orchestrator.errors import UsageError
from orchestrator.text.terminal_text import one_line
from orchestrator.text.value_lines import json_line


def contract(
    file: Annotated[Path, Parameter(metavar="FILE", allow_leading_hyphen=True)],
    /,
    *,
    task: Annotated[str, Parameter(metavar="ID")],
    stage: Annotated[tuple[str, ...], Parameter(metavar="ID")] = (),
    root: Annotated[Path, Parameter(metavar="DIR")] = Path(),
    common: Common = USUAL,
) -> int:
    """Check a builder's contract before it is handed in.

    For builders of a pipeline, and for programs that run them: makes the checks that need no validator.

    Exit codes: 0 every check passed, 1 one failed.

    Args:
        file: the contract, in JSON; - reads it from standard input
        task: the task of the contract
        stage: a stage that it covers; can be repeated
        root: the folder of its files (default: the working directory)
    """
    checks = contract_checks(_content(file), task, stage, root)
    if common.json:
        print_all(json_line(_fields(check)) for check in checks)
    else:
        print_all(one_line(f"{check.status.value} {check.name}: {check.evidence}".rstrip(": "), 2000) for check in checks)
    wrong = sum(not check.ok for check in checks)
    streams.say(f"{wrong} of {len(checks)} checks failed" if wrong else f"all of {len(checks)} checks passed")
    return ExitCode.FAILED if wrong else ExitCode.OK


def contract_checks(content: bytes, task: str, stages: tuple[str, ...], root: Path) -> tuple[Check, ...]:
    """Return every check of a builder's contract, in JSON, for a task."""
    try:
        read = read_builder(content, task_id=task)
    except ContractError as error:
        return unreadable(error)
    known = [summary.stage_id for summary in read.stage_summaries]
    return (*completeness(read, stages=stages or known), *file_checks(read, root))


def _content(file: Path) -> bytes:
    try:
        if str(file) == "-":
            return sys.stdin.buffer.read(MAX_DOCUMENT + 1)
        with file.open("rb") as opened:
            return opened.read(MAX_DOCUMENT + 1)
    except OSError as error:
        raise UsageError(f"contract {file}: cannot be read: {error.strerror or error}; correct the path") from error


def _fields(check: Check) -> dict[str, Any]:
    return {"name": check.name, "status": check.status.value, "evidence": check.evidence}
