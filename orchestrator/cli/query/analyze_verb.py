"""`orchestrator analyze`: a question, asked of what was recorded. What the answers are is in `orchestrator.analysis`.

What it writes to files are a page, and pictures. Nothing that is not a page of ours is written over.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from attrs import evolve, frozen
from cyclopts import Parameter

from harnesses.errors import near
from harnesses.files.safe_files import draft_of
from orchestrator.cli import std_streams as streams
from orchestrator.cli.exit_codes import ExitCode
from orchestrator.cli.output_targets import check_target
from orchestrator.cli.verb_options import USUAL, Common, Count, count, print_all
from orchestrator.errors import UsageError
from orchestrator.store.places.store_location import local_path
from orchestrator.text.command_hints import for_store
from orchestrator.text.terminal_text import one_line

if TYPE_CHECKING:
    from orchestrator.analysis.answers.answer import Answer
    from orchestrator.analysis.frames.analysis_run import Run


REPORT = "report"
_REPORT = ("summary", "timeline", "slow", "failures", "restarts", "throughput", "loops", "cost", "progress", "turns")
"""What is in a report: every question about one run."""
_ROWS = 20
"""Of each table, for people."""
_QUESTIONS = (*_REPORT, "compare", "why", REPORT)


@frozen
class Asked:
    """What the words of the command ask for."""

    runs: tuple[str, ...]
    question: str
    arguments: tuple[str, ...]


@Parameter(name="*")
@frozen
class Shape:
    """How the answer is given, and what is left out of it."""

    harness: Annotated[str | None, Parameter(metavar="NAME", help="only this harness (default: all)")] = None
    match: Annotated[
        Literal["name", "prefix", "class"] | None,
        Parameter(
            help="for compare, what belongs together: harnesses of one name (default), of one name but for a final number, "
            "or of one class"
        ),
    ] = None
    limit: Annotated[Count | None, Parameter(help="show N rows of each table (default: 20 for people)")] = None
    csv: Annotated[bool, Parameter(help="write the first table to standard output, as CSV")] = False
    table: Annotated[str | None, Parameter(metavar="NAME", help="this table only")] = None
    html: Annotated[
        str | None, Parameter(metavar="[FILE]", help="write a page that needs no network (default: to standard output)")
    ] = None
    pictures: Annotated[
        Path | None, Parameter(metavar="DIR", help="write the pictures that go with the question to this folder")
    ] = None
    format: Annotated[Literal["svg", "png", "json"] | None, Parameter(help="of the pictures (default: svg)")] = None


TABLES = Shape()


def analyze(*words: Annotated[str, Parameter(metavar="RUN|QUESTION")], shape: Shape = TABLES, common: Common = USUAL) -> int:
    """Answer a question about what was recorded.

    RUN is a store, a log, a pattern or several logs (plain or compressed), or a folder of exported Parquet (default:
    --store). A word that is a question is taken as one; write a file of that name as ./summary. Times are seconds, and moments
    UTC.

    Questions:
        summary      how much each harness has done, how fast, and where its time went (default)
        timeline     what each harness was doing when: running, held, waiting, backing off, gone
        slow         the slowest steps, effects, agents and commits, and the longest times without a step
        failures     what went wrong, grouped, and what happened next
        restarts     restarts, back-off, restart storms, and attempts that died at the same step
        throughput   steps by time, per harness and in total; gaps and trend
        loops        the same output, or the same few outputs, again and again
        cost         what was spent, and on what
        progress     features, trades and equity so far
        turns        what agents asked which models, what it cost, and what was said last
        compare      compare RUN2: what got better or worse from RUN to RUN2; --match decides what belongs together
        why          why NAME [STEP]: the chain of causes behind where a harness is, or behind a step
        report       all of them about one run, best with --html

    Examples:
        orchestrator analyze run.db                          how much each harness has done, how fast, where its time went
        orchestrator analyze steps.jsonl slow --harness a    the same questions are asked of a log
        orchestrator analyze why fix-bugs                    the chain of causes, from run.db
        orchestrator analyze run.db report --html run.html   everything on one page, with pictures

    Exit codes: 0 answered, whatever the answer; 1 it cannot be read to its end; 2 usage.

    Args:
        words: the run, then the question and what it is about
    """
    wanted = read_words(words, _QUESTIONS, common.location)
    wanted = evolve(wanted, runs=tuple(str(local_path(run)) for run in wanted.runs))
    _check(wanted, shape, as_json=common.json)
    page = None if shape.html is None else page_target(shape.html, wanted.runs, _QUESTIONS)
    if wanted.question == "why" and shape.pictures is None and shape.html is None and (answer := _why_of_store(wanted, shape)):
        print_all(_write_answers([answer], wanted, shape, as_json=common.json))
        return ExitCode.OK
    with ExitStack() as opened:
        run = opened.enter_context(_open(wanted.runs))
        other = None
        if wanted.question == "compare":
            other = opened.enter_context(_open(_some(wanted, "another run: compare RUN2")))
        if wanted.question == REPORT:
            run.expect()
        make_page = None if shape.html is None else begin_page(opened, run, other, wanted.question, shape.harness)
        answers = list(_answers(run, other, wanted, shape))
        if shape.pictures is not None:
            save_pictures(run, other, wanted.question, shape.pictures, shape)
        if make_page is not None:
            write_page(page, make_page(answers))
        elif shape.pictures is None:
            print_all(_write_answers(answers, wanted, shape, as_json=common.json))
    return ExitCode.OK


def read_words(words: Sequence[str], questions: Sequence[str], default: str) -> Asked:
    """Return what the words ask: runs, a question, and what it is about.

    Raises:
        UsageError: it cannot be told.
    """
    at = next((place for place, word in enumerate(words) if word in questions), None)
    if at is None:
        for word in words:
            _check_run(word, questions)
        return Asked(tuple(words) or (default,), "summary", ())
    return Asked(tuple(words[:at]) or (default,), words[at], tuple(words[at + 1 :]))


def _check_run(word: str, questions: Sequence[str]) -> None:
    """Refuse a word that is neither a question nor can be a run: no file, pattern, or name with a folder or an ending."""
    if word.isascii() and word.replace("-", "").replace("_", "").isalpha() and not os.path.lexists(word):
        expected = f"expected one of {', '.join(questions)}{near(word, questions)}"
        raise UsageError(f"no such question: {word!r}, and no run of that name; {expected}")


def _check(wanted: Asked, shape: Shape, *, as_json: bool) -> None:
    chosen = shape.csv + as_json + (shape.html is not None)
    if chosen > 1:
        raise UsageError("--json, --csv and --html contradict each other: expected one of them; leave the others out")
    if shape.format is not None and shape.pictures is None:
        raise UsageError("--format is that of pictures: expected --pictures DIR beside it; give both, or neither")
    if shape.pictures is not None:
        check_target(shape.pictures)
    if shape.match is not None and wanted.question != "compare":
        raise UsageError(f"--match is for two runs: expected the question compare, got {wanted.question!r}; leave it out")


def _open(paths: Sequence[str]) -> Run:
    from orchestrator import analysis

    given: Any = paths[0] if len(paths) == 1 else list(paths)
    return analysis.open(given)


def _answers(run: Run, other: Run | None, wanted: Asked, shape: Shape) -> Iterator[Answer]:
    from orchestrator.analysis.questions import QUESTIONS
    from orchestrator.analysis.sources import StoreSource

    names = [name for name in _REPORT if name in QUESTIONS] if wanted.question == REPORT else [wanted.question]
    kept: dict[str, Any] = {} if shape.harness is None else {"harness": shape.harness}
    if shape.match is not None:
        kept["match"] = shape.match
    about: list[Any] = _why(wanted) if wanted.question == "why" else [other] if other is not None else []
    if wanted.question not in ("why", "compare") and wanted.arguments:
        raise UsageError(f"{wanted.question} takes nothing after it: expected options, got {wanted.arguments[0]!r}")
    store = wanted.runs[0] if isinstance(run.source, StoreSource) else None
    for name in names:
        if name not in QUESTIONS:
            raise UsageError(f"the question {name!r} cannot be answered yet: expected one of {', '.join(QUESTIONS)}")
        answer = QUESTIONS[name](run, *about, **kept)
        yield answer if store is None else evolve(answer, sentences=[for_store(said, store) for said in answer.sentences])


def _why_of_store(wanted: Asked, shape: Shape) -> Answer | None:
    """Return the answer to `why` about a store, for which no engine is needed; None if it is about something else."""
    from orchestrator.analysis.frames.analysis_run import source_of
    from orchestrator.analysis.sources import StoreSource

    source = source_of(wanted.runs)
    if not isinstance(source, StoreSource):
        return None
    from orchestrator.analysis.questions.why_question import answer_from
    from orchestrator.analysis.questions.why_store import StoreEvidence

    with closing(StoreEvidence(source.location)) as store:
        answer = answer_from(store, *_why(wanted), harness=shape.harness)
    return evolve(answer, sentences=[for_store(said, wanted.runs[0]) for said in answer.sentences])


def _some(wanted: Asked, what: str) -> tuple[str, ...]:
    if not wanted.arguments:
        raise UsageError(f"{wanted.question} needs {what}; give it")
    return wanted.arguments


def _why(wanted: Asked) -> list[Any]:
    name, *rest = _some(wanted, "the name of a harness: why NAME [STEP]")
    if len(rest) > 1:
        raise UsageError(f"why takes a name and a step: expected nothing more, got {rest[1]!r}")
    try:
        return [name, *map(count, rest)]
    except ValueError as error:
        raise UsageError(f"why {name}: step: {error}") from None


def _write_answers(answers: Sequence[Answer], wanted: Asked, shape: Shape, *, as_json: bool) -> Iterator[str]:
    from orchestrator.cli.query import answer_tables as tables

    if wanted.question == "why" and not (as_json or shape.csv or shape.table):
        answers = [evolve(answer, tables=()) for answer in answers]
    if shape.table is not None:
        answers = [tables.only(answers, shape.table)]
    if shape.csv:
        table, *others = [table for answer in answers for table in answer.tables]
        if others:
            streams.say(f"table {table.name}; with --table NAME: {', '.join(other.name for other in others)}")
        yield from tables.csv_lines(table, limit=shape.limit)
    elif as_json:
        for answer in answers:
            yield from tables.json_lines(answer, limit=shape.limit)
    else:
        width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
        limit = _ROWS if shape.limit is None else shape.limit
        for place, answer in enumerate(answers):
            if len(answers) > 1:
                yield f"{chr(10) if place else ''}== {answer.question} =="
            yield from tables.text_lines(answer, width=width, limit=limit)


_BEGIN = b"<!DOCTYPE html>"
"""What a page begins with."""


def write_page(path: Path | None, text: str) -> None:
    """Write a page to a file, which comes to its name when it is whole, or to standard output.

    Raises:
        OSError: it cannot be written.
    """
    if path is None:
        sys.stdout.write(text)
        return
    with draft_of(path) as file:
        file.write(text.encode())
    streams.say(f"written to {path}")


def page_target(file: str, runs: Sequence[str], questions: Collection[str]) -> Path | None:
    """Return where the page is to go; None for standard output.

    Raises:
        UsageError: there is something else already, such as the run itself.
    """
    if file == "-":
        return None
    path = Path(file)
    if file in questions or file in runs:
        raise UsageError(
            f"--html {file}: expected the name of a page to write, was a question or a run; put --html at the end"
        )
    check_target(path)
    if path.is_dir():
        raise UsageError(f"--html {file} is a folder: expected the name of a page to write; name a file in it")
    if path.exists():
        with path.open("rb") as there:
            if there.read(len(_BEGIN)) not in (_BEGIN, b""):
                raise UsageError(f"--html {file} is there, and is no page: expected another name; choose one")
    return path


def begin_page(
    opened: ExitStack, run: Run, other: Run | None, question: str, harness: str | None
) -> Callable[[Sequence[Answer]], str]:
    """Begin to draw the pictures of a page, and return the function that makes the page with the answers.

    The pictures are drawn in a thread while the questions are answered: both do so without the interpreter.
    """
    from concurrent.futures import ThreadPoolExecutor

    from orchestrator.analysis.analysis_report import html
    from orchestrator.analysis.pictures import pictures

    drawn = pictures(run, question, harness=harness, other=other)
    pool = ThreadPoolExecutor(1)
    opened.callback(pool.shutdown, cancel_futures=True)
    drawing = {one.name: pool.submit(one.svg) for one in drawn}
    title = one_line(f"{question.capitalize()} of {run.location}")
    return lambda answers: html(answers, drawn, title=title, draw=lambda one: drawing[one.name].result())


def save_pictures(run: Run, other: Run | None, question: str, folder: Path, shape: Shape) -> None:
    """Write the pictures of a question to a folder, and say where they are."""
    from orchestrator.analysis import pictures

    format = shape.format or "svg"
    try:
        paths = pictures.save_pictures(run, question, folder, format, harness=shape.harness, other=other)
    except FileExistsError:
        raise UsageError(f"--pictures {folder} is a file: expected a folder; choose another name") from None
    for path in paths:
        streams.say(f"written to {path}")
