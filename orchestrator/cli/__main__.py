"""The `orchestrator` command: what it understands, and what it says when it does not.

The law: standard output is data, standard error is talk; a user's mistake is one line and never a traceback.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from orchestrator.cli import std_streams as streams
from orchestrator.cli.doctor.check_arguments import add_checking
from orchestrator.cli.exit_codes import ExitCode, of_error, of_signal
from orchestrator.cli.export.export_arguments import add_keeping
from orchestrator.cli.export.traces_verb import add_tracing
from orchestrator.cli.operate.ask_verbs import add_questions
from orchestrator.cli.operate.live_verbs import add_controlling
from orchestrator.cli.operate.operator_arguments import TWO_WORDS, add_operating
from orchestrator.cli.parsing import (
    DEFAULT_STORE,
    Add,
    Parser,
    add_common,
    add_verb,
    count,
    join_verb,
    number,
    print_all,
    reader_of,
    seconds,
    split_own,
    store_of,
)
from orchestrator.cli.query.analyze_verb import add_analyze
from orchestrator.cli.query.sql_verb import add_sql
from orchestrator.cli.read.history_verbs import add_history
from orchestrator.cli.read.memory_verbs import MEMORY_VERBS, add_memory_verbs
from orchestrator.cli.read.watch_verb import add_watch
from orchestrator.errors import OrchestratorError
from orchestrator.text.command_hints import for_store
from orchestrator.text.terminal_text import one_line

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


_PROGRAMS = """\
What follows `--` are the arguments of a program: orchestrator run program.py -- --limit 40. A program chooses its own
exit code, store and log. It takes orders from a second terminal, unless it says Orchestrator(control=False), or the
environment ORCHESTRATOR_CONTROL=0."""


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
    parser = _parser()
    ours, own = split_own(sys.argv[1:] if arguments is None else arguments)
    options = parser.parse_args(join_verb(ours, (*TWO_WORDS, *MEMORY_VERBS)))
    options.arguments = own
    if options.verb is None:
        parser.print_help(sys.stderr)
        raise SystemExit(ExitCode.USAGE)
    return options


class _Version(argparse.Action):
    """Looks the version up only when it is asked for."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from importlib.metadata import PackageNotFoundError, version

        try:
            number = version("harness-orchestrator")
        except PackageNotFoundError:
            number = "(not installed: run from its sources)"
        print(f"orchestrator {number}")
        parser.exit()


def _parser() -> argparse.ArgumentParser:
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
    _add_run(verbs.add_parser)
    _add_readers(verbs.add_parser)
    add_watch(verbs.add_parser)
    add_controlling(verbs.add_parser)
    add_questions(verbs.add_parser)
    add_tracing(verbs.add_parser)
    add_keeping(verbs.add_parser)
    add_operating(verbs.add_parser)
    add_memory_verbs(verbs.add_parser)
    add_checking(verbs.add_parser)
    add_analyze(verbs.add_parser)
    add_sql(verbs.add_parser)
    add_history(verbs.add_parser)
    return parser


def _add_run(add: Add) -> None:
    run = add_verb(add, "run", "run a run file (.toml), a supervisor script or a program (.py)", _run, _PROGRAMS)
    run.add_argument(
        "file",
        metavar="FILE",
        type=Path,
        help="a .toml file, or a .py file: with `async def supervise(orchestrator)`, or a program that makes an Orchestrator",
    )
    add_common(run, "write every record to standard output when it is committed, as JSON")
    run.add_argument("--log", metavar="PATH", help="append a JSON line for each record to this file; `-` is stdout")
    run.add_argument(
        "--drain",
        metavar="S",
        type=seconds,
        help="seconds that harnesses get to end after a first Ctrl-C or SIGTERM (default: 10); a second one cancels at once; "
        "5 s later the program ends in any case",
    )
    run.add_argument(
        "--metrics",
        metavar="HOST:PORT",
        help="serve the numbers of the run to Prometheus; a port alone is one that only this machine can reach",
    )
    run.add_argument(
        "--traces",
        metavar="URL",
        help="send a span for each attempt, step and effect to a collector (default: what OTEL_* variables say, or none)",
    )
    run.add_argument("--quiet", action="store_true", help="say nothing but what failed")


def _add_readers(add: Add) -> None:
    status = add_verb(add, "status", "show how far each harness is", _status)
    add_common(status)
    steps = add_verb(add, "steps", "show the recorded steps of a harness", _steps)
    steps.add_argument("name", metavar="NAME")
    add_common(steps)
    steps.add_argument("--after", metavar="N", type=count, default=0, help="leave out the first N steps")
    steps.add_argument("--limit", metavar="N", type=count, help="show at most N steps")
    show = add_verb(add, "show", "show all about one step", _show)
    show.add_argument("name", metavar="NAME")
    show.add_argument("step", metavar="STEP", type=number, help="its number, from 1")
    show.add_argument("--state", action="store_true", help="also the whole state after the step")
    add_common(show)
    budgets = add_verb(add, "budgets", "show what may be spent, what is spent and what is left", _budgets)
    add_common(budgets)
    verify = add_verb(add, "verify", "prove that nobody has changed what is recorded, or name what was changed", _verify)
    verify.add_argument(
        "--head", metavar="FILE|HASH", help="a head that was noted elsewhere; default: the one that lies beside the store"
    )
    verify.add_argument("--deep", action="store_true", help="also derive every state anew; takes longer")
    add_common(verify)


def _run(options: argparse.Namespace) -> int:
    from orchestrator.cli.run.run_verb import RunOptions, run

    store = options.store or os.environ.get("ORCHESTRATOR_STORE") or None
    return run(
        RunOptions(
            file=options.file,
            store=store,
            default_store=DEFAULT_STORE,
            log=options.log,
            as_json=options.json,
            drain_s=options.drain,
            quiet=options.quiet,
            metrics=options.metrics,
            traces=options.traces,
            is_store_given=bool(options.store),
            arguments=tuple(options.arguments),
        )
    )


def _status(options: argparse.Namespace) -> int:
    from orchestrator.cli.operate.kill_switch_verb import in_words
    from orchestrator.cli.read.status_verbs import status_lines
    from orchestrator.kill_switch import KillSwitch

    with closing(reader_of(options)) as reader:
        if not print_all(status_lines(reader, as_json=options.json)):
            streams.say(f"{reader.location} has no harness yet")
    if latched := in_words(KillSwitch(store_of(options))):
        streams.say(latched)
    return ExitCode.OK


def _steps(options: argparse.Namespace) -> int:
    from orchestrator.cli.read.status_verbs import steps_lines

    with closing(reader_of(options)) as reader:
        print_all(steps_lines(reader, options.name, after=options.after, limit=options.limit, as_json=options.json))
    return ExitCode.OK


def _show(options: argparse.Namespace) -> int:
    from orchestrator.cli.read.status_verbs import show_lines

    with closing(reader_of(options)) as reader:
        print_all(show_lines(reader, options.name, options.step, with_state=options.state, as_json=options.json))
    return ExitCode.OK


def _budgets(options: argparse.Namespace) -> int:
    from orchestrator.cli.read.budgets_verb import budgets_lines, read_accounts

    store = store_of(options)
    if not print_all(budgets_lines(read_accounts(store), as_json=options.json)):
        streams.say(f"{store} has no budget")
    return ExitCode.OK


def _verify(options: argparse.Namespace) -> int:
    from orchestrator.cli.read.verify_verb import verified, verify_lines

    store = store_of(options)
    proof = verified(store, options.head, deep=options.deep)
    print_all(verify_lines(store, proof, as_json=options.json))
    return ExitCode.INTEGRITY if proof.findings else ExitCode.OK


def _complain(text: str) -> None:
    streams.say(f"orchestrator: {one_line(text, 2000)}")


if __name__ == "__main__":
    sys.exit(main())
