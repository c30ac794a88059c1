"""The verb `guard`: whether a command, or the call of a tool, may be made without a person's approval.

The law: it fails closed. Whatever goes wrong, and whatever cannot be read, ends with the code that blocks.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Collection, Iterator, Sequence
from typing import Any

from attrs import frozen

from harnesses.guard import UNREADABLE, Finding, classify, commands_of, read_only_violations
from harnesses.guard.tool_calls import classify_call
from harnesses.redaction.redactor import redact_text
from orchestrator.cli import std_streams as streams
from orchestrator.cli.exit_codes import ExitCode
from orchestrator.cli.parsing import print_all
from orchestrator.cli.value_lines import json_line
from orchestrator.errors import UsageError
from orchestrator.text.terminal_text import one_line

BLOCKED = ExitCode.USAGE
"""2: what the hooks of coding agents take as "do not do this", with what stands on standard error as the reason."""
MAX_CALL = 4_000_000
"""Bytes of a call that are read."""


@frozen
class Verdict:
    """What became of one question."""

    findings: tuple[Finding, ...]
    read: tuple[str, ...] = ()
    """The commands that were read in it."""

    @property
    def allowed(self) -> bool:
        return not self.findings


def guard(options: argparse.Namespace) -> int:
    """Carry the verb out."""
    try:
        verdict = _verdict(options)
        if options.json:
            print_all([json_line(fields(verdict))])
            sys.stdout.flush()
        for line in describe(verdict, explain=options.explain):
            streams.say(line)
    except Exception as error:
        streams.say(f"orchestrator: guard: blocked, for it could not be judged: {one_line(str(error) or repr(error), 500)}")
        return BLOCKED
    return ExitCode.OK if verdict.allowed else BLOCKED


def _verdict(options: argparse.Namespace) -> Verdict:
    if options.stdin:
        if options.command:
            raise UsageError("guard: expected --stdin or a command, was both; leave one out")
        if options.read_only:
            raise UsageError("guard: expected a command with --read-only, was --stdin; give it after --")
        return Verdict(judge_call(sys.stdin.buffer.read(MAX_CALL + 1), options.disposable, options.allow))
    if not options.command:
        raise UsageError("guard: expected a command after --, or --stdin, was neither; see `orchestrator guard --help`")
    return judge_command(options.command, options.disposable, read_only=options.read_only, allow=options.allow)


def judge_command(
    command: Sequence[str], disposable: Collection[str], *, read_only: bool, allow: Collection[str] = ()
) -> Verdict:
    """Return what is to be said of a command: text for a shell if it is one word."""
    given: str | Sequence[str] = command[0] if len(command) == 1 else command
    root = os.getcwd()
    if read_only:
        return Verdict(read_only_violations(given, root=root, allow=allow), commands_of(given))
    return Verdict(classify(given, disposable=disposable, root=root, allow=allow), commands_of(given))


def judge_call(text: bytes, disposable: Collection[str], allow: Collection[str] = ()) -> tuple[Finding, ...]:
    """Return why a tool may not be called as JSON text says."""
    if len(text) > MAX_CALL:
        return (Finding(UNREADABLE, f"the call is longer than {MAX_CALL} bytes", ""),)
    try:
        call: object = json.loads(text)
    except (ValueError, RecursionError) as error:
        return (Finding(UNREADABLE, f"the call is no JSON: {one_line(str(error))}", ""),)
    return classify_call(call, disposable=disposable, root=os.getcwd(), allow=allow)


def fields(verdict: Verdict) -> dict[str, Any]:
    """Return a verdict as JSON has it."""
    return {
        "allowed": verdict.allowed,
        "findings": [
            {"category": finding.category, "why": redact_text(finding.why), "part": redact_text(finding.part)}
            for finding in verdict.findings
        ],
        "read": [redact_text(part) for part in verdict.read],
    }


def describe(verdict: Verdict, *, explain: bool) -> Iterator[str]:
    """Yield a verdict in words, a line for each finding; nothing if it is allowed and nobody asks."""
    if explain:
        yield from (f"read: {one_line(redact_text(part))}" for part in verdict.read)
    if verdict.allowed:
        if explain:
            yield "allowed: all of it is known to be harmless"
        return
    for finding in verdict.findings:
        part = f": {one_line(redact_text(finding.part))}" if finding.part else ""
        yield f"blocked: {finding.category}: {one_line(redact_text(finding.why))}{part}"
    yield "a person has to approve this first, or it has to run in a sandbox; do not try to do the same in another way"
