"""The `orchestrator` command, from its arguments to its exit code.

Standard output is data, standard error is talk; a user's mistake is one line and never a traceback. Of the verbs only the
module of the one that is asked for is imported.
"""

from __future__ import annotations

import atexit
import gc
import signal
import sys
from collections.abc import Sequence

from orchestrator.cli import std_streams as streams
from orchestrator.cli.command_app import Asked, arrange, check_common, make_app, parse
from orchestrator.cli.exit_codes import ExitCode, of_error, of_signal
from orchestrator.cli.verb_options import print_all
from orchestrator.cli.verb_table import NAMES
from orchestrator.errors import OrchestratorError


def main(arguments: Sequence[str] | None = None) -> int:
    """Carry out one command and return its exit code."""
    streams.prepare()
    # The last collection of a program that has loaded ccxt takes seconds, and the watchdog of a run ends what takes too long.
    atexit.register(gc.freeze)
    asked = arrange(sys.argv[1:] if arguments is None else arguments)
    try:
        code = _carry_out(asked)
        sys.stdout.flush()
    except OrchestratorError as error:
        from orchestrator.text.command_hints import for_store

        _complain(for_store(str(error), asked.store))
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
    except Exception as error:
        if asked.verb != "guard":
            raise
        _complain(f"guard: blocked, because this command itself failed: {error!r}")
        return ExitCode.USAGE
    return code


def _carry_out(asked: Asked) -> int:
    flag = asked.help_flag
    if asked.verb is None:
        check_common(asked)
        if "--version" in asked.options and not flag:
            from harnesses.diagnostics.extras import own_version

            print_all([f"orchestrator {own_version() or '(not installed: run from its sources)'}"])
        else:
            from orchestrator.cli.command_help import long_help, short_help

            print_all(short_help() if flag == "-h" else long_help())
        return ExitCode.OK
    app = make_app()
    if flag and asked.verb in NAMES:
        from orchestrator.cli.command_help import read_help, verb_help

        print_all(verb_help(read_help(app, asked.verb), is_long=flag == "--help"))
        return ExitCode.OK
    return parse(app, asked)()


def _complain(text: str) -> None:
    from orchestrator.text.terminal_text import one_line

    streams.say(f"orchestrator: {one_line(text, 2000)}")


if __name__ == "__main__":
    sys.exit(main())
