"""The verbs that look at what has been: `state`, `diff`, `replay`, `fork`. What they do is in `orchestrator.history`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from contextlib import aclosing
from functools import partial
from math import inf

from orchestrator.cli import std_streams as streams
from orchestrator.cli.exit_codes import ExitCode
from orchestrator.cli.parsing import Add, add_common, add_verb, count, print_all, store_of, words
from orchestrator.cli.read.rejudge_verb import add_rejudge
from orchestrator.records import Record
from orchestrator.text.json_text import json_line
from orchestrator.text.terminal_text import one_line

_STATE = """\
The hash is that of the state itself, also while the harness was live: `orchestrator.history.state_hash(harness.state)`."""
_DIFF = """\
  account.cash: 100 -> 90             a value is another
  features[3].passes: false -> true
  fills[7]: + {"price":"101.5"}       it was not there
  orders["a b"]: - {"side":"buy"}     it is gone
B may come before A. Nothing is printed if nothing changed."""
_REPLAY = """\
Lines are those of the log, in the order of `seq`, and come when they came then: --speed 10 is ten times as fast, --speed max
as fast as they are read. It ends with what was recorded when it began."""
_FORK = """\
Its steps 1 to STEP are those of NAME, with their times, inputs, outputs and states; 0 is the initial state. Started under its
name it goes on from there. Effects, messages, approvals, output and what was attached stay with NAME, which is not touched
and may be running. More than 100,000 steps within a store that a program runs on are refused: use --into."""


def add_history(add: Add) -> None:
    """Add the verbs."""
    _add_states(add)
    _add_replay(add)
    fork = add_verb(add, "fork", "make a new harness whose past is that of another, up to a step", _fork, _FORK)
    fork.add_argument("name", metavar="NAME")
    fork.add_argument("step", metavar="STEP", type=count, help="the last step that it has; 0 for none")
    fork.add_argument("--as", dest="to", metavar="NEW", type=words, required=True, help="the name of the new one")
    fork.add_argument("--into", metavar="OTHER.db", help="the store to make it in, made if it is not there; default: the same")
    add_common(fork)
    add_rejudge(add)


def _add_states(add: Add) -> None:
    state = add_verb(add, "state", "show the state of a harness after any of its steps", _state, _STATE)
    state.add_argument("name", metavar="NAME")
    state.add_argument("step", metavar="STEP", type=count, help="its number; 0 is before the first one")
    state.add_argument("--hash", action="store_true", help="only its hash")
    add_common(state)
    diff = add_verb(add, "diff", "show what changed in the state of a harness between two steps", _diff, _DIFF)
    diff.add_argument("name", metavar="NAME")
    diff.add_argument("before", metavar="A", type=count)
    diff.add_argument("after", metavar="B", type=count)
    add_common(diff)


def _add_replay(add: Add) -> None:
    replay = add_verb(add, "replay", "print the records of a run again, at the speed of then or another", _replay, _REPLAY)
    replay.add_argument("log", metavar="LOG", nargs="?", help="a log of JSON lines, also with .gz; default: the store")
    replay.add_argument("--speed", metavar="X|max", type=_parse_speed, default=1.0, help="how many times as fast (default: 1)")
    replay.add_argument("--harness", metavar="NAME", action="append", help="of this one only; can be repeated")
    replay.add_argument("--kind", metavar="KIND", action="append", help="only such records, as `step`; can be repeated")
    replay.add_argument("--after", metavar="SEQ", type=count, default=0, help="what was recorded after this `seq`")
    replay.add_argument("--until", metavar="SEQ", type=count, help="what was recorded up to this `seq`")
    replay.add_argument("--longest-gap", metavar="S", type=_gap, help="wait for no gap between two records longer than this")
    add_common(replay, "lines are JSON on a terminal, too")


def _parse_speed(text: str) -> float:
    try:
        speed = inf if text == "max" else float(text)
    except ValueError:
        speed = -1.0
    if not speed > 0:
        raise argparse.ArgumentTypeError(f"expected a number above 0, or max, was {text!r}")
    return speed


def _gap(text: str) -> float:
    try:
        gap = float(text)
    except ValueError:
        gap = -1.0
    if not gap >= 0:
        raise argparse.ArgumentTypeError(f"expected seconds from 0 up, was {text!r}")
    return gap


def _state(options: argparse.Namespace) -> int:
    from orchestrator.cli.value_lines import json_pretty
    from orchestrator.history import state_at, state_hash

    state = state_at(store_of(options), options.name, options.step)
    hash = state_hash(state)
    if options.json:
        said = {"harness": options.name, "step_number": options.step, "hash": hash}
        print_all([json_line(said if options.hash else {**said, "state": state})])
    elif options.hash:
        print_all([hash])
    else:
        print_all([json_pretty(state)])
        streams.say(f"hash {hash}")
    return ExitCode.OK


def _diff(options: argparse.Namespace) -> int:
    from orchestrator.history import diff

    changes = diff(store_of(options), options.name, options.before, options.after)
    print_all(json_line(change.plain()) if options.json else change.line for change in changes)
    if not changes:
        streams.say(f"nothing changed in the state of {one_line(options.name)} between {options.before} and {options.after}")
    return ExitCode.OK


def _replay(options: argparse.Namespace) -> int:
    import trio

    trio.run(partial(_replayed, options))
    return ExitCode.OK


async def _replayed(options: argparse.Namespace) -> None:
    from orchestrator.history import replay

    records = replay(
        store_of(options) if options.log is None else options.log,
        speed=options.speed,
        names=options.harness,
        kinds=options.kind,
        after=options.after,
        until=options.until,
        longest_gap_s=options.longest_gap,
    )
    write = _writer(as_json=options.json)
    async with aclosing(records):
        async for record in records:
            write(record)
            if options.speed < inf:
                sys.stdout.flush()


def _writer(*, as_json: bool) -> Callable[[Record], None]:
    from orchestrator.log import line, line_writer

    if not as_json:
        return line_writer(sys.stdout)

    def write(record: Record) -> None:
        print_all([json_line(line(record))])

    return write


def _fork(options: argparse.Namespace) -> int:
    from orchestrator.history.forking import fork

    made = fork(store_of(options), options.name, options.step, to=options.to, into=options.into)
    if options.json:
        said = {"harness": made.name, "origin": made.origin, "step_number": made.step, "seq": made.seq, "store": made.store}
        print_all([json_line(said)])
    where = f" in {one_line(made.store)}" if options.into else ""
    streams.say(f"{made.name} is made{where} from {one_line(made.origin)} at step {made.step}; start it to go on from there")
    return ExitCode.OK
