"""The verbs `state`, `diff`, `replay`, `fork` and `rejudge`: what has been. What they do is in `orchestrator.history`."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from contextlib import aclosing, closing
from functools import partial
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from orchestrator.cli import std_streams as streams
from orchestrator.cli.exit_codes import ExitCode
from orchestrator.cli.verb_options import USUAL, Common, Count, Name, Names, Words, converter, print_all
from orchestrator.errors import UsageError
from orchestrator.records import Record
from orchestrator.text.json_text import json_line, json_text
from orchestrator.text.terminal_text import one_line

if TYPE_CHECKING:
    from orchestrator.history import Judge, Rejudged

AnyStep = Annotated[Count, Parameter(metavar="STEP")]
"""The number of a step, or 0."""
SeqNumber = Annotated[Count, Parameter(metavar="SEQ")]


def _parse_speed(text: str) -> float:
    try:
        speed = inf if text == "max" else float(text)
    except ValueError:
        speed = -1.0
    if not speed > 0:
        raise ValueError(f"expected a number above 0, or max, got {text!r}")
    return speed


def _gap(text: str) -> float:
    try:
        gap = float(text)
    except ValueError:
        gap = -1.0
    if not gap >= 0:
        raise ValueError(f"expected seconds from 0 up, got {text!r}")
    return gap


def state(name: Name, step: AnyStep | None = None, /, *, hash: bool = False, common: Common = USUAL) -> int:
    """Show the state of a harness after any of its steps.

    The hash is that of the state itself, also while the harness was live: `orchestrator.history.state_hash(harness.state)`.

    Args:
        name: the name of the harness
        step: the number of the step; 0 is before the first one (default: the newest)
        hash: print only the hash of the state
    """
    from orchestrator.history import state_at, state_hash
    from orchestrator.text.value_lines import json_pretty

    number = _newest(name, common) if step is None else step
    found = state_at(common.store_path, name, number)
    digest = state_hash(found)
    said = {"harness": name, "step_number": number, "hash": digest}
    if common.json:
        print_all([json_line(said if hash else {**said, "state": found})])
    elif hash:
        print_all([digest])
    else:
        print_all([json_pretty(found)])
        at = f"step {number}, " if step is None else ""
        streams.say(f"{at}hash {digest}")
    return ExitCode.OK


def _newest(name: str, common: Common) -> int:
    from orchestrator.history.past_reader import find_harness

    with closing(common.reader()) as reader:
        return find_harness(reader, name).current_step


def diff(
    name: Name,
    before: Annotated[Count, Parameter(metavar="A")],
    after: Annotated[Count, Parameter(metavar="B")],
    /,
    *,
    common: Common = USUAL,
) -> int:
    """Show what changed in a harness's state between two steps.

    Each line names a part of the state and its change:

        account.cash: 100 -> 90             the value changed
        features[3].passes: false -> true
        fills[7]: + {"price":"101.5"}       it was added
        orders["a b"]: - {"side":"buy"}     it was removed

    B may come before A. Nothing is printed if nothing changed.

    Args:
        name: the name of the harness
        before: the number of a step
        after: the number of another step
    """
    from orchestrator.history import diff

    changes = diff(common.store_path, name, before, after)
    print_all(json_line(change.plain()) if common.json else change.line for change in changes)
    if not changes:
        streams.say(f"nothing changed in the state of {one_line(name)} between {before} and {after}")
    return ExitCode.OK


def replay(
    log: Annotated[str | None, Parameter(metavar="LOG")] = None,
    /,
    *,
    speed: Annotated[float, Parameter(converter=converter(_parse_speed), metavar="X|max")] = 1.0,
    harness: Names = (),
    kind: Annotated[tuple[str, ...], Parameter(metavar="KIND")] = (),
    after: SeqNumber = 0,
    until: SeqNumber | None = None,
    longest_gap: Annotated[float | None, Parameter(converter=converter(_gap), metavar="S")] = None,
    common: Common = USUAL,
) -> int:
    """Print the records of a run again, at any speed.

    The lines are those of the log, in the order of `seq`, with the same time between them as in the run. It ends with what was
    recorded when it began. With --json, lines are JSON on a terminal too.

    Args:
        log: a log of JSON lines, also with .gz (default: the store)
        speed: speed-up factor; max: as fast as they can be read (default: 1)
        harness: only this harness; can be repeated
        kind: only records of this kind, such as `step`; can be repeated
        after: only what was recorded after this `seq`
        until: only what was recorded up to this `seq`
        longest_gap: wait at most S seconds between two records
    """
    import trio

    source = common.store_path if log is None else log
    options = {"names": harness or None, "kinds": kind or None, "after": after, "until": until, "longest_gap_s": longest_gap}
    trio.run(partial(_replayed, source, speed, options, as_json=common.json))
    return ExitCode.OK


async def _replayed(source: str, speed: float, options: dict[str, Any], *, as_json: bool) -> None:
    from orchestrator.history import replay

    write = _writer(as_json=as_json)
    async with aclosing(replay(source, speed=speed, **options)) as records:
        async for record in records:
            write(record)
            if speed < inf:
                sys.stdout.flush()


def _writer(*, as_json: bool) -> Callable[[Record], None]:
    from orchestrator.log import line, line_writer

    if not as_json:
        return line_writer(sys.stdout)

    def write(record: Record) -> None:
        print_all([json_line(line(record))])

    return write


def _point(text: str) -> tuple[int, int]:
    """Return step and number of model calls: `12`, or `12/3`."""
    step, slash, rounds = text.partition("/")
    parts = (step, rounds) if slash else (step,)
    if not all(part.isascii() and part.isdecimal() and len(part) < 10 for part in parts):
        raise ValueError(f"expected STEP, or STEP/CALLS, such as 12 or 12/3, got {text!r}")
    if slash and int(step) == 0:
        raise ValueError(f"expected a step from 1 up before the slash, got {text!r}")
    return (int(step) - 1, int(rounds)) if slash else (int(step), 0)


Point = Annotated[tuple[int, int], Parameter(converter=converter(_point), metavar="STEP[/CALLS]", n_tokens=1)]


def fork(
    name: Name,
    step: AnyStep | None = None,
    /,
    *,
    to: Annotated[Words, Parameter(name="--as", metavar="NEW")],
    at: Point | None = None,
    model: Annotated[Words, Parameter(metavar="MODEL")] = "",
    into: Annotated[str | None, Parameter(metavar="OTHER.db")] = None,
    common: Common = USUAL,
) -> int:
    """Make a new harness from another one, up to a step.

    Its steps 1 to STEP are those of NAME, with their times, inputs, outputs and states; 0 is the initial state. Started under
    its name, it continues from there. Effects, messages, approvals, output and attached records stay with NAME, which is not
    changed and may be running; conversations of agents go on in both. More than 100,000 steps within a store that a program
    runs on are refused: use --into.

    With --at STEP/CALLS it begins within STEP, after so many model calls of it and their tool calls: these are not made again.
    With --model its model agents ask another model from there on, to see what that would have done.

    Examples:
        orchestrator fork builder --at 12 --as builder-b --model anthropic:claude-opus-4-5
        orchestrator fork builder --at 13/2 --as builder-c

    Args:
        name: the name of the harness to copy from
        step: the last step that the new one has; 0 for none
        to: the name of the new harness
        at: the same as STEP; or within a step, after so many of its model calls
        model: provider:model, or the name of a model of the same provider (default: that of each agent)
        into: the store to make it in, created if it is not there (default: the same store)
    """
    from orchestrator.history.forking import fork

    if (step is None) == (at is None):
        raise UsageError(f"fork: expected STEP or --at, got {'neither' if step is None else 'both'}; give one of the two")
    last, rounds = (step or 0, 0) if at is None else at
    made = fork(common.store_path, name, last, to=to, into=into, rounds=rounds, model=model)
    if common.json:
        said = {"harness": made.name, "origin": made.origin, "step_number": made.step, "seq": made.seq, "store": made.store}
        print_all([json_line(said)])
    where = f" in {one_line(made.store)}" if into else ""
    more = f" and {rounds} model call{'s' * (rounds != 1)} of the next" if rounds else ""
    streams.say(
        f"{made.name} is made{where} from {one_line(made.origin)} at step {made.step}{more}; start it to continue from there"
    )
    return ExitCode.OK


def rejudge(
    name: Name,
    judge: Annotated[str, Parameter(metavar="JUDGE")],
    /,
    *,
    file: Annotated[Path | None, Parameter(metavar="RUN.toml")] = None,
    needed: Annotated[str, Parameter(metavar="GRADE")] = "observed",
    after: Count = 0,
    until: Count | None = None,
    all: bool = False,
    common: Common = USUAL,
) -> int:
    """Judge recorded steps by today's rules, without running anything.

    JUDGE is one of:

        guardrails            compares the guardrails in --file with the findings recorded then
        evidence              compares a pipeline's recorded evidence, of grade --needed or higher, with its verdicts
        actions               compares today's classifier of commands with what needed approval then
        package.module:name   a function of a step (`orchestrator.history.Look`), a `Judge`, or a read-only validator of
                              features; also looked for in the working directory

    No agent is called, no effect is done and no command is run; a judge that would is refused.

    Exit codes: 0 nothing differs from what is on record, 1 something does, or could not be judged.

    Args:
        name: the name of the harness
        judge: the judge, see above
        file: a run file: its harness gives guardrails and types
        needed: the lowest grade: reported, observed (default) or rerun
        after: leave out the first N steps
        until: the last step to judge
        all: also show the steps where both agree
    """
    import trio

    from orchestrator.history.rejudging import still

    with still("what is named"):
        like, judge_ = _load_named(name, judge, file, needed)
    judging = partial(_judged, common, name, judge_, like, after=after, until=until, every=all)
    told: Counter[str] = trio.run(judging)
    streams.say(
        f"{told['judged']} steps judged by {one_line(judge_.name)}: {told['differs']} differ from what is on record, "
        f"{told['problem']} could not be judged"
    )
    return ExitCode.FAILED if told["differs"] or told["problem"] else ExitCode.OK


async def _judged(
    common: Common, name: str, judge: Judge, like: Any, *, after: int, until: int | None, every: bool
) -> Counter[str]:
    from orchestrator.history import rejudge

    told: Counter[str] = Counter()
    async for one in rejudge(common.store_path, name, judge, like=like, after=after, until=until):
        told["judged"] += one.today is not None
        told["differs"] += one.differs
        told["problem"] += bool(one.problem)
        if every or one.differs or one.problem:
            print_all([json_line(_fields(one)) if common.json else _line(one)])
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


def _load_named(name: str, judge: str, file: Path | None, needed: str) -> tuple[Any, Judge]:
    """Return the harness of the run file, if there is one, and the judge.

    Raises:
        UsageError: one of them cannot be had.
    """
    from orchestrator.presets import ready_made_judges as judges

    made = None if file is None else _make_harness(file, name)
    harness = None if made is None else made.harness
    match judge:
        case "guardrails":
            if made is None:
                raise UsageError("guardrails: expected those of a run file; give it with --file")
            figures, moment = (getattr(harness, field, None) for field in ("figures", "moment"))
            return harness, judges.guardrails(made.guardrails, figures, moment=moment)
        case "evidence":
            return harness, judges.evidence(_policy(needed))
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
        raise UsageError(f"--needed: expected {', '.join(one.word for one in Grade)}, got {word!r}; choose one")
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
