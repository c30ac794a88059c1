"""The verb `guard`: whether a command, or the call of a tool, may be made without a person's approval.

Invariant: it fails closed. Any error, and any input that cannot be read, ends with the exit code that blocks. That includes
errors of this program itself, so the modules that judge are imported inside the function.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from attrs import frozen
from cyclopts import Parameter

from harnesses.redaction.redactor import redact_text
from orchestrator.cli import std_streams as streams
from orchestrator.cli.exit_codes import ExitCode
from orchestrator.cli.verb_options import USUAL, Common, Names, print_all
from orchestrator.errors import UsageError
from orchestrator.text.terminal_text import one_line
from orchestrator.text.value_lines import json_line

if TYPE_CHECKING:
    from harnesses.guard import Finding

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


def guard(
    *command: Annotated[str, Parameter(metavar="COMMAND")],
    stdin: bool = False,
    explain: bool = False,
    read_only: bool = False,
    disposable: Names = (),
    allow: Annotated[tuple[str, ...], Parameter(metavar="CATEGORY")] = (),
    common: Common = USUAL,
) -> int:
    """Tell whether a command needs human approval.

    One word is text for a shell; several are a program and its arguments. With --stdin it reads JSON, as coding agents give
    it to a hook before they use a tool: {"tool_name": "Bash", "tool_input": {"command": "…"}, "cwd": "…"}; tools that write
    are judged by the paths that they name.

    Only what is known to be harmless is allowed: programs, verbs and options in a table. This lets everyday commands pass
    without asking; it is not a security boundary. Where the agent runs in a sandbox, --allow what the sandbox holds:
    run-code, unknown, unreadable.

    Example, in the settings of an agent that has such hooks:

        {"hooks": {"PreToolUse": [{"matcher": "*", "hooks": [{"type": "command", "command": "orchestrator guard --stdin"}]}]}}

    Exit codes: 0 allowed, 2 needs approval or a sandbox; also if it cannot be read, or if anything goes wrong.

    Args:
        command: the command, after --, so that its options are its own
        stdin: read the call of a tool, as JSON, from standard input
        explain: also tell how the command was read
        read_only: block whatever changes anything, as for a validator
        disposable: folders of this name may be deleted; can be repeated
        allow: allow a category, such as run-code: tests, builds and all that they run; can be repeated
    """
    try:
        if stdin:
            _check_stdin(command, read_only=read_only)
            verdict = Verdict(judge_call(sys.stdin.buffer.read(MAX_CALL + 1), disposable, allow))
        elif command:
            verdict = judge_command(command, disposable, read_only=read_only, allow=allow)
        else:
            raise UsageError("guard: expected a command after --, or --stdin, got neither; see `orchestrator guard --help`")
        if common.json:
            print_all([json_line(fields(verdict))])
            sys.stdout.flush()
        for line in describe(verdict, explain=explain):
            streams.say(line)
    except Exception as error:
        streams.say(f"orchestrator: guard: blocked, for it could not be judged: {one_line(str(error) or repr(error), 500)}")
        return BLOCKED
    return ExitCode.OK if verdict.allowed else BLOCKED


def _check_stdin(command: Sequence[str], *, read_only: bool) -> None:
    if command:
        raise UsageError("guard: expected --stdin or a command, got both; leave one out")
    if read_only:
        raise UsageError("guard: expected a command with --read-only, got --stdin; give it after --")


def judge_command(
    command: Sequence[str], disposable: Collection[str], *, read_only: bool, allow: Collection[str] = ()
) -> Verdict:
    """Return what is to be said of a command: text for a shell if it is one word."""
    from harnesses.guard import classify, commands_of, read_only_violations

    given: str | Sequence[str] = command[0] if len(command) == 1 else command
    root = os.getcwd()
    if read_only:
        return Verdict(read_only_violations(given, root=root, allow=allow), commands_of(given))
    return Verdict(classify(given, disposable=disposable, root=root, allow=allow), commands_of(given))


def judge_call(text: bytes, disposable: Collection[str], allow: Collection[str] = ()) -> tuple[Finding, ...]:
    """Return why a tool may not be called as JSON text says."""
    from harnesses.guard import UNREADABLE, Finding
    from harnesses.guard.tool_calls import classify_call

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
