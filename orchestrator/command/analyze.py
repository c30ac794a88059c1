"""`orchestrator analyze`: a question, asked of what was recorded. What the answers are is in `orchestrator.analysis`."""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from attrs import frozen

from orchestrator.command import streams
from orchestrator.command.exits import ExitCode
from orchestrator.command.parsing import Add, add_common, add_verb, count, print_all, store_of
from orchestrator.errors import UsageError

if TYPE_CHECKING:
    from orchestrator.analysis.answer import Answer

_MORE = """\
RUN is a store, a log, a pattern or several logs (plain or compressed), or a folder of exported Parquet; default: --store.
A word that is a question is one; a file called so is written ./summary. Times are seconds, and moments UTC.

questions:
{questions}

example:
  orchestrator analyze run.db                          how much each harness has done, how fast, where its time went
  orchestrator analyze steps.jsonl slow --harness a    the same questions are asked of a log
  orchestrator analyze why fix-bugs                    the chain of causes, from run.db

exit codes: 0 answered, whatever the answer; 1 it can not be read to its end; 2 usage"""
_HELP = {
    "summary": "how much each harness has done, how fast, and where its time went (default)",
    "timeline": "what each harness was doing when: running, held, waiting, backing off, gone",
    "slow": "the slowest steps, effects, agents and commits, and the longest times without a step",
    "failures": "what went wrong, grouped, and what happened next",
    "restarts": "restarts, back-off, restart storms, and attempts that died at the same step",
    "throughput": "steps by time, per harness and in all; gaps and trend",
    "loops": "the same output, or the same few outputs, again and again",
    "cost": "what was spent, and on what",
    "progress": "features, trades and equity: how far it has come",
    "compare": "compare RUN2: what got better or worse from RUN to RUN2",
    "why": "why NAME [STEP]: the chain of causes behind where a harness is, or behind a step",
}


@frozen
class Asked:
    """What the words of the command ask for."""

    runs: tuple[str, ...]
    question: str
    arguments: tuple[str, ...]


def add_analyze(add: Add) -> None:
    """Add the verb."""
    questions = "\n".join(f"  {name:<11} {what}" for name, what in _HELP.items())
    verb = add_verb(add, "analyze", "ask a question of what was recorded", _analyze, _MORE.format(questions=questions))
    verb.add_argument("words", metavar="RUN|QUESTION", nargs="*", help="the run, then the question and what it is about")
    verb.add_argument("--harness", metavar="NAME", help="of this one only; default: of all")
    verb.add_argument("--limit", metavar="N", type=count, help="rows of each table that are shown (default: 20 for people)")
    verb.add_argument("--csv", action="store_true", help="standard output is the first table, as CSV")
    verb.add_argument("--table", metavar="NAME", help="this table only")
    verb.add_argument(
        "--html", metavar="FILE", nargs="?", const="-", help="write a page that needs no network (default: to standard output)"
    )
    add_common(verb)


def asked(words: Sequence[str], questions: Sequence[str], default: str) -> Asked:
    """Return what the words ask: runs, a question, and what it is about.

    Raises:
        UsageError: it can not be told.
    """
    at = next((place for place, word in enumerate(words) if word in questions), None)
    if at is None:
        return Asked(tuple(words) or (default,), "summary", ())
    return Asked(tuple(words[:at]) or (default,), words[at], tuple(words[at + 1 :]))


def _analyze(options: argparse.Namespace) -> int:
    from orchestrator.analysis.questions import QUESTIONS

    if options.csv + options.json + (options.html is not None) > 1:
        raise UsageError("--json, --csv and --html contradict each other: expected one of them; leave the others out")
    wanted = asked(options.words, tuple(_HELP), store_of(options))
    if wanted.question not in QUESTIONS:
        raise UsageError(f"the question {wanted.question!r} can not be answered yet: expected one of {', '.join(QUESTIONS)}")
    answer = _answered(QUESTIONS[wanted.question], wanted, options)
    for line in _written(answer, options):
        print_all([line])
    return ExitCode.OK


def _answered(question: Callable[..., Answer], wanted: Asked, options: argparse.Namespace) -> Answer:
    from orchestrator import analysis

    with ExitStack() as opened:
        run = opened.enter_context(analysis.open(*_paths(wanted.runs)))
        more: list[Any] = []
        if wanted.question == "compare":
            more.append(opened.enter_context(analysis.open(*_paths(_some(wanted, "another run: compare RUN2")))))
        elif wanted.question == "why":
            more.extend(_why(wanted))
        elif wanted.arguments:
            raise UsageError(f"{wanted.question} takes nothing after it: expected options, was {wanted.arguments[0]!r}")
        kept = {} if options.harness is None else {"harness": options.harness}
        return question(run, *more, **kept)


def _paths(paths: Sequence[str]) -> Sequence[Any]:
    return [paths[0] if len(paths) == 1 else list(paths)]


def _some(wanted: Asked, what: str) -> tuple[str, ...]:
    if not wanted.arguments:
        raise UsageError(f"{wanted.question} needs {what}; give it")
    return wanted.arguments


def _why(wanted: Asked) -> list[Any]:
    name, *rest = _some(wanted, "the name of a harness: why NAME [STEP]")
    if len(rest) > 1:
        raise UsageError(f"why takes a name and a step: expected nothing more, was {rest[1]!r}")
    try:
        return [name, *map(count, rest)]
    except argparse.ArgumentTypeError as error:
        raise UsageError(f"why {name}: step: {error}") from None


def _written(answer: Answer, options: argparse.Namespace) -> Iterator[str]:
    from orchestrator.command import tables

    if options.table is not None:
        from attrs import evolve

        answer = evolve(answer, tables=(tables.picked(answer, options.table),), sentences=())
    if options.csv:
        table = answer.tables[0]
        others = [other.name for other in answer.tables[1:]]
        if others:
            streams.say(f"table {table.name}; with --table NAME: {', '.join(others)}")
        yield from tables.csv_lines(table)
    elif options.json:
        yield from tables.json_lines(answer)
    else:
        width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
        yield from tables.text_lines(answer, width=width, limit=20 if options.limit is None else options.limit)
