"""The verb `rejudge`: what a judge of today says of the recorded steps of a harness. Nothing is run for it."""

from __future__ import annotations

import argparse
from collections import Counter
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestrator.cli import std_streams as streams
from orchestrator.cli.exit_codes import ExitCode
from orchestrator.cli.parsing import Add, add_common, add_verb, count, print_all, store_of
from orchestrator.errors import UsageError
from orchestrator.text.json_text import json_line, json_text
from orchestrator.text.terminal_text import one_line

if TYPE_CHECKING:
    from orchestrator.history import Judge, Rejudged

_REJUDGE = """\
JUDGE is one of
  guardrails            those that --file, a run file, has for this harness, against what was found then
  evidence              the evidence that a pipeline has recorded, with --needed as the lowest grade, against its verdicts
  actions               the classifier of commands, against what people were asked for
  package.module:name   a function of a step (`orchestrator.history.Look`), a `Judge`, or a validator of features that only
                        looks; it is looked for in the working directory, too
No agent is asked, no effect is done and no command is run; a judge that would is refused.
exit codes: 0 nothing differs from what is on record, 1 something does, or could not be judged"""


def add_rejudge(add: Add) -> None:
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

    from orchestrator.history.stillness import still

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
