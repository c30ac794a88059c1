"""The verb `contract`: whether what a builder is about to hand in can be read, is complete, and names files that are there.

An agent, or the program that runs it, asks before handing in. It is the part of the judgement that needs no validator: a
contract that passes here may still be found wanting.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from harnesses.governance import Check, ContractError, file_checks, read_builder
from harnesses.governance.contracts.completeness import completeness
from harnesses.governance.contracts.contract_fields import MAX_DOCUMENT
from harnesses.governance.evidence.attempt_verdict import unreadable
from orchestrator.cli import std_streams as streams
from orchestrator.cli.exit_codes import ExitCode
from orchestrator.cli.parsing import Add, add_verb, print_all
from orchestrator.cli.value_lines import json_line
from orchestrator.errors import UsageError
from orchestrator.text.terminal_text import one_line

_CONTRACT = """\
For whoever builds in a pipeline, and for programs that run such an agent: the checks that need no validator.

exit codes: 0 every check passed, 1 one failed"""


def add_verbs(add: Add) -> None:
    """Add the verb."""
    contract = add_verb(add, "contract", "check a builder's contract before it is handed in", _contract, _CONTRACT)
    contract.add_argument("file", metavar="FILE", type=Path, help="the contract, in JSON; - for standard input")
    contract.add_argument("--task", metavar="ID", required=True, help="the task that it is for")
    contract.add_argument("--stage", metavar="ID", action="append", default=[], help="a stage that it covers; can be repeated")
    contract.add_argument("--root", metavar="DIR", type=Path, default=Path(), help="the project's root (default: here)")
    contract.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help="a JSON object for each check")


def _contract(options: argparse.Namespace) -> int:
    checks = contract_checks(_content(options.file), options.task, tuple(options.stage), options.root)
    if options.json:
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
