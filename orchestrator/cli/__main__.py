"""The `orchestrator` command: what it understands, and what it says when it does not.

The law: standard output is data, standard error is talk; a user's mistake is one line and never a traceback. Of the verbs only
the module of the one that is asked for is imported.
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module

from orchestrator.cli import std_streams as streams
from orchestrator.cli.exit_codes import ExitCode, of_error, of_signal
from orchestrator.cli.parsing import Parser, add_common, join_verb, split_own, verb_of
from orchestrator.errors import OrchestratorError
from orchestrator.text.command_hints import for_store
from orchestrator.text.terminal_text import one_line

VERBS: Mapping[str, tuple[str, ...]] = {
    "run.run_verb": ("run",),
    "read.status_verbs": ("status", "steps", "show", "budgets"),
    "read.verify_verb": ("verify",),
    "read.watch_verb": ("watch",),
    "operate.live_verbs": ("pause", "resume", "stop", "start", "restart", "metrics", "ask", "query"),
    "export.traces_verb": ("traces",),
    "export.export_verb": ("export",),
    "export.prune_verb": ("prune",),
    "operate.approval_verbs": ("approvals", "approve", "deny", "approvals reopen"),
    "operate.effect_verbs": ("effects", "effects settle"),
    "operate.kill_switch_verb": ("kill-switch", "latch"),
    "operate.message_verbs": ("send", "trading"),
    "read.memory_verbs": ("memory", *(f"memory {verb}" for verb in ("list", "show", "retract", "export", "check"))),
    "operate.guard_verb": ("guard",),
    "doctor.doctor_verb": ("doctor",),
    "read.contract_verb": ("contract",),
    "query.analyze_verb": ("analyze",),
    "query.sql_verb": ("sql",),
    "read.history_verbs": ("state", "diff", "replay", "fork", "rejudge"),
}
"""Which verbs a module adds by its function `add_verbs`, in the order of the help."""
_EXAMPLE = """\
example:
  orchestrator run examples/run.toml     run the harnesses that a run file lists; Ctrl-C stops them
  orchestrator status                    how far each one is, also while they run
  orchestrator steps counting            what one of them did
  orchestrator run examples/run.toml     go on where they stopped

exit codes: 0 ok, 1 a harness failed, 2 usage, 3 stopped and resumable, 4 waiting for a person,
5 the store contradicts itself or was changed, 6 effects of unknown outcome, 75 owned by another process,
130 and 143 ended by a signal
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Carry out one command and return its exit code."""
    streams.prepare()
    store = ""
    try:
        options = parse(arguments)
        store = getattr(options, "store", None) or ""
        code: int = options.carry_out(options)
        sys.stdout.flush()
    except OrchestratorError as error:
        _complain(for_store(str(error), store))
        return of_error(error)
    except BrokenPipeError:
        # Whoever read the output has seen enough, as in `orchestrator steps NAME | head`.
        streams.abandon(sys.stdout)
        return ExitCode.OK
    except OSError as error:
        streams.abandon(sys.stdout)
        _complain(f"the output cannot be written: {error.strerror or error}; nothing that is recorded is lost")
        return ExitCode.FAILED
    except KeyboardInterrupt:
        return of_signal(signal.SIGINT)
    return code


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Return the options; `carry_out` is what to do with them.

    Raises:
        UsageError: there is something in them that it does not understand.
    """
    ours, own = split_own(sys.argv[1:] if arguments is None else arguments)
    ours = join_verb(ours, [verb for verbs in VERBS.values() for verb in verbs])
    # What comes after `--` is not for this program: `guard -- rm --help` needs no module but that of `guard`.
    ends = ours.index("--") if "--" in ours else len(ours)
    asked = None if {"-h", "--help"} & set(ours[:ends]) else verb_of(ours)
    parser = _parser([module for module, verbs in VERBS.items() if asked in verbs] or VERBS)
    options = parser.parse_args(ours)
    options.arguments = own
    if options.verb is None:
        parser.print_help(sys.stderr)
        raise SystemExit(ExitCode.USAGE)
    return options


class _Version(argparse.Action):
    """Looks the version up only when it is asked for."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from orchestrator.telemetry.telemetry_meter import own_version

        print(f"orchestrator {own_version() or '(not installed: run from its sources)'}")
        parser.exit()


def _parser(modules: Iterable[str]) -> argparse.ArgumentParser:
    parser = Parser(
        prog="orchestrator",
        description="Run many long-lived harnesses side by side, and never lose a step.",
        epilog=_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="show the version and exit")
    add_common(parser, default=True)
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", title="verbs")
    for module in modules:
        import_module(f"orchestrator.cli.{module}").add_verbs(verbs.add_parser)
    return parser


def _complain(text: str) -> None:
    streams.say(f"orchestrator: {one_line(text, 2000)}")


if __name__ == "__main__":
    sys.exit(main())
