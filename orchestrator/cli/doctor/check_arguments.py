"""The verbs that check: what each takes, and what it says of itself. What they do is in modules of their own."""

from __future__ import annotations

import argparse
from pathlib import Path

from orchestrator.cli import std_streams as streams
from orchestrator.cli.exit_codes import ExitCode
from orchestrator.cli.parsing import Add, add_common, add_verb
from orchestrator.text.terminal_text import one_line

_GUARD = """\
One word is text for a shell; several are a program and its arguments. With --stdin it reads JSON, as coding agents give it to
a hook before they use a tool: {"tool_name": "Bash", "tool_input": {"command": "…"}, "cwd": "…"}; writing tools are judged by
the paths they name.

example, in the settings of an agent that has such hooks:
  {"hooks": {"PreToolUse": [{"matcher": "*", "hooks": [{"type": "command", "command": "orchestrator guard --stdin"}]}]}}

Only what is known to be harmless is allowed: programs, verbs and options in a table. This lets the everyday pass without
asking; it is not a security boundary. Where the agent runs in a sandbox, --allow what that holds: run-code,
unknown, unreadable.

exit codes: 0 allowed, 2 needs an approval or a sandbox; also if it cannot be read, or anything goes wrong"""


_DOCTOR = """\
FILE is a run file: it is read, and each of its harnesses is made, in a process of its own, and none is run.
Nothing is written to the store, and no check waits for long. For each finding it says what to do.

With --repair it checks nothing else. It upgrades a store of an earlier version to this one's schema; and if a known defect of
an earlier version is all that is wrong with what is recorded, it mends that and records what was found, done, by whom and what
cannot be proven any more. Whatever else is wrong, the records are left as they are. No program may run on the store.

exit codes: 0 nothing has failed, 1 something has; with --repair 0 repaired, or nothing to repair, 5 something else is wrong,
75 a program runs on it"""


_CONTRACT = """\
For whoever builds in a pipeline, and for programs that run such an agent: the checks that need no validator.

exit codes: 0 every check passed, 1 one failed"""


def add_checking(add: Add) -> None:
    """Add the verbs."""
    _add_guard(add)
    _add_doctor(add)
    _add_contract(add)


def _add_guard(add: Add) -> None:
    guard = add_verb(add, "guard", "tell whether a command needs a person's approval", _guard, _GUARD)
    guard.add_argument("command", metavar="COMMAND", nargs="*", help="after --, so that its options are its own")
    guard.add_argument("--stdin", action="store_true", help="read the call of a tool, as JSON, from standard input")
    guard.add_argument("--explain", action="store_true", help="also tell how the command was read")
    guard.add_argument("--read-only", action="store_true", help="block whatever changes anything, as for a validator")
    guard.add_argument(
        "--disposable",
        metavar="NAME",
        action="append",
        default=[],
        help="folders of this name may be deleted; can be repeated",
    )
    guard.add_argument(
        "--allow",
        metavar="CATEGORY",
        action="append",
        default=[],
        help="let a category through, such as run-code: tests, builds and all that they run; can be repeated",
    )
    guard.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help="standard output is a JSON object")


def _add_doctor(add: Add) -> None:
    doctor = add_verb(add, "doctor", "check the set-up, the store and a run file, and say what to do", _doctor, _DOCTOR)
    doctor.add_argument("file", metavar="FILE", nargs="?", type=Path, help="a run file to check")
    doctor.add_argument(
        "--repair",
        action="store_true",
        help="upgrade the store from an earlier version, and mend what a known defect left",
    )
    add_common(doctor)


def _add_contract(add: Add) -> None:
    contract = add_verb(add, "contract", "check a builder's contract before it is handed in", _contract, _CONTRACT)
    contract.add_argument("file", metavar="FILE", type=Path, help="the contract, in JSON; - for standard input")
    contract.add_argument("--task", metavar="ID", required=True, help="the task that it is for")
    contract.add_argument("--stage", metavar="ID", action="append", default=[], help="a stage that it covers; can be repeated")
    contract.add_argument("--root", metavar="DIR", type=Path, default=Path(), help="the project's root (default: here)")
    contract.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help="a JSON object for each check")


def _contract(options: argparse.Namespace) -> int:
    from orchestrator.cli.read.contract_verb import contract

    return contract(options)


def _guard(options: argparse.Namespace) -> int:
    # Whatever is wrong with this program itself, what it guards is blocked: so the import too is within.
    try:
        from orchestrator.cli.operate.guard_verb import guard

        return guard(options)
    except Exception as error:
        streams.say(f"orchestrator: guard: blocked, for it cannot judge: {one_line(repr(error), 500)}")
        return ExitCode.USAGE


def _doctor(options: argparse.Namespace) -> int:
    from orchestrator.cli.doctor.doctor_verb import doctor

    return doctor(options)
