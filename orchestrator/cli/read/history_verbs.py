"""The verbs `state`, `diff`, `replay`, `fork` and `rejudge`: what has been. What they do is in `orchestrator.history`."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import aclosing
from functools import partial
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestrator.cli import std_streams as streams
from orchestrator.cli.exit_codes import ExitCode
from orchestrator.cli.parsing import Add, add_common, add_verb, count, print_all, store_of, words
from orchestrator.errors import UsageError
from orchestrator.records import Record
from orchestrator.text.json_text import json_line, json_text
from orchestrator.text.terminal_text import one_line

if TYPE_CHECKING:
    from orchestrator.history import Judge, Rejudged


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


def add_verbs(add: Add) -> None:
    """Add the verbs."""
    _add_states(add)
    _add_replay(add)
    fork = add_verb(add, "fork", "make a new harness whose past is that of another, up to a step", _fork, _FORK)
    fork.add_argument("name", metavar="NAME")
    fork.add_argument("step", metavar="STEP", type=count, help="the last step that it has; 0 for none")
    fork.add_argument("--as", dest="to", metavar="NEW", type=words, required=True, help="the name of the new one")
    fork.add_argument("--into", metavar="OTHER.db", help="the store to make it in, made if it is not there; default: the same")
    add_common(fork)
    _add_rejudge(add)


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


_REJUDGE = """\
JUDGE is one of
  guardrails            those that --file, a run file, has for this harness, against what was found then
  evidence              the evidence that a pipeline has recorded, with --needed as the lowest grade, against its verdicts
  actions               the classifier of commands, against what people were asked for
  package.module:name   a function of a step (`orchestrator.history.Look`), a `Judge`, or a validator of features that only
                        looks; it is looked for in the working directory, too
No agent is asked, no effect is done and no command is run; a judge that would is refused.
exit codes: 0 nothing differs from what is on record, 1 something does, or could not be judged"""


def _add_rejudge(add: Add) -> None:
    """Add the verb."""
    rejudge = add_verb(add, "rejudge", "judge recorded steps by the rules of today, running nothing", _rejudge, _REJUDGE)
    rejudge.add_argument("name", metavar="NAME")
    rejudge.add_argument("judge", metavar="JUDGE")
    rejudge.add_argument("--file", metavar="RUN.toml", type=Path, help="a run file: its harness gives guardrails and types")
    rejudge.add_argument("--needed", metavar="GRADE", default="observed", help="reported, observed (default) or rerun")
    rejudge.add_argument("--after", metavar="N", type=count, default=0, help="leave out the first N steps")
    rejudge.add_argument("--until", metavar="N", type=count, help="the last step to judge")
    rejudge.add_argument("--all", action="store_true", help="show also the steps of which both say the same")
    add_common(rejudge)


def _rejudge(options: argparse.Namespace) -> int:
    import trio

    from orchestrator.history.rejudging import still

    with still("what is named"):
        harness, judge = _load_named(options)
    told: Counter[str] = trio.run(partial(_judged, options, harness, judge))
    streams.say(
        f"{told['judged']} steps judged by {one_line(judge.name)}: {told['differs']} differ from what is on record, "
        f"{told['problem']} could not be judged"
    )
    return ExitCode.FAILED if told["differs"] or told["problem"] else ExitCode.OK


async def _judged(options: argparse.Namespace, harness: Any, judge: Judge) -> Counter[str]:
    from orchestrator.history import rejudge

    told: Counter[str] = Counter()
    found = rejudge(store_of(options), options.name, judge, like=harness, after=options.after, until=options.until)
    async for one in found:
        told["judged"] += one.today is not None
        told["differs"] += one.differs
        told["problem"] += bool(one.problem)
        if options.all or one.differs or one.problem:
            print_all([json_line(_fields(one)) if options.json else _line(one)])
    return told


def _fields(one: Rejudged) -> dict[str, Any]:
    return {
        "harness": one.harness,
        "step_number": one.step,
        "seq": one.seq,
        "differs": one.differs,
        "stored": one.stored,
        "today": one.today,
        "problem": one.problem,
    }


def _line(one: Rejudged) -> str:
    if one.problem:
        return f"{one.step:>7}  could not be judged: {one_line(one.problem, 300)}"
    word = "differs" if one.differs else "same   "
    return f"{one.step:>7}  {word}  stored {one_line(json_text(one.stored), 100)}  today {one_line(json_text(one.today), 100)}"


def _load_named(options: argparse.Namespace) -> tuple[Any, Judge]:
    """Return the harness of the run file, if there is one, and the judge.

    Raises:
        UsageError: one of them cannot be had.
    """
    from orchestrator.presets import ready_made_judges as judges

    made = None if options.file is None else _make_harness(options.file, options.name)
    harness = None if made is None else made.harness
    match options.judge:
        case "guardrails":
            if made is None:
                raise UsageError("guardrails: expected those of a run file; give it with --file")
            figures, moment = (getattr(harness, name, None) for name in ("figures", "moment"))
            return harness, judges.guardrails(made.guardrails, figures, moment=moment)
        case "evidence":
            return harness, judges.evidence(_policy(options.needed))
        case "actions":
            return harness, judges.actions()
        case reference:
            return harness, _load_judge(reference)


def _make_harness(path: Path, name: str) -> Any:
    from orchestrator.cli.run.code_loading import find_modules_in
    from orchestrator.cli.run.harness_factory import make
    from orchestrator.cli.run.run_file import read_run_file

    file = read_run_file(path)
    tables = {table.config.name: table for table in file.harnesses}
    if name not in tables:
        raise UsageError(f"{path} has no harness {name!r}: expected one of {', '.join(tables)}; correct the name or the file")
    find_modules_in(path.parent, Path())
    return make(tables[name])


def _policy(word: str) -> Any:
    from harnesses.governance import EvidencePolicy
    from harnesses.governance.evidence.evidence_ledger import Grade, grade_of

    grade = grade_of(word)
    if grade is None:
        raise UsageError(f"--needed: expected {', '.join(one.word for one in Grade)}, was {word!r}; choose one")
    return EvidencePolicy(needed=grade)


def _load_judge(reference: str) -> Judge:
    from orchestrator.cli.run.code_loading import find_modules_in, load_attribute
    from orchestrator.history import Judge
    from orchestrator.presets import ready_made_judges as judges

    find_modules_in(Path())
    found = load_attribute("rejudge", reference, option="JUDGE")
    if isinstance(found, Judge):
        return found
    if hasattr(found, "validate"):
        return judges.features(found)
    if not callable(found):
        raise UsageError(f"rejudge: {reference} is {found!r:.100}: expected a function of a step, a Judge or a validator")
    return Judge(reference, found)
