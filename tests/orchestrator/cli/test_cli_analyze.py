"""`orchestrator analyze`, run as an analyst runs it: words, forms, exit codes; nothing of a run is ever written over."""

from __future__ import annotations

import csv
import gzip
import io
import re
import shutil
from contextlib import redirect_stderr, redirect_stdout
from html.parser import HTMLParser
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from harnesses.diagnostics.extras import install_command
from orchestrator import Orchestrator
from orchestrator.analysis.questions import QUESTIONS
from orchestrator.analysis.questions.compare_question import MATCHES
from orchestrator.cli import main
from tests.orchestrator.commanding import Command, Ended, ended, heads, wait_until
from tests.orchestrator.scripted import STEADY, Scripted, crash, three

HOSTILE = '<script>alert(1)</script> "\x1b[31m =1+1'


async def hostile(harness: Scripted) -> object:
    """Fail with text that a terminal, a browser and a spreadsheet would act upon."""
    yield HOSTILE, HOSTILE
    raise ValueError(HOSTILE)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small run: one harness makes its steps, one crashes twice, one says what it should not."""
    folder = tmp_path_factory.mktemp("analyzed")

    async def record() -> None:
        async with Orchestrator(folder / "run.db", log=folder / "steps.jsonl", handle_signals=False) as orchestrator:
            orchestrator.start(Scripted(three), name="three")
            orchestrator.start(Scripted(crash, until=3), name="crash", backoff=STEADY)
            orchestrator.start(Scripted(hostile), name="hostile", restart="temporary")

    with pytest.raises(ExceptionGroup):
        trio.run(record, clock=MockClock(autojump_threshold=0))
    return folder


@pytest.fixture
def folder(recorded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a copy of the run, in which commands are given."""
    for file in recorded.iterdir():
        shutil.copy(file, tmp_path / file.name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ORCHESTRATOR_STORE", raising=False)
    return tmp_path


def ask(*words: str) -> Ended:
    """Give a command within this process: starting one takes longer than most answers."""
    with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()) as err:
        code = main(["analyze", *words])
    return Ended(code, out.getvalue(), err.getvalue())


def test_without_a_question_it_tells_the_summary(folder: Path) -> None:
    plain, named, elsewhere = ask("run.db"), ask("run.db", "summary"), ask("--store", "run.db")

    assert (plain.code, plain.err) == (0, "")
    assert plain.out == named.out == elsewhere.out
    assert plain.out.startswith("3 harnesses made 7 steps within ")
    assert re.search(r"^HARNESS +STATUS +STEPS", plain.out, re.MULTILINE)


def test_a_question_alone_is_asked_of_the_store(folder: Path) -> None:
    asked, why = ask("failures"), ask("why", "crash")

    assert asked.out.startswith("crash failed 2 times with ValueError: boom")
    assert why.out.startswith("crash is completed at step 3, in attempt 3, since ")


@pytest.mark.parametrize(
    "words",
    [
        *([question] for question in QUESTIONS if question not in ("why", "compare")),
        ["why", "three"],
        ["why", "three", "2"],
        ["compare", "steps.jsonl"],
    ],
    ids=" ".join,
)
@pytest.mark.usefixtures("folder")
def test_every_question_has_an_answer_in_every_form(words: list[str]) -> None:
    told = [ask("run.db", *words, *form) for form in ([], ["--json"], ["--csv"])]

    assert [one.code for one in told] == [0, 0, 0]
    assert all(one.out for one in told)
    assert all(one["table"] for one in told[1].objects)


@pytest.mark.usefixtures("folder")
def test_compare_takes_for_the_same_what_it_is_told_to() -> None:
    told = {match: ask("run.db", "compare", "steps.jsonl", "--match", match, "--csv") for match in MATCHES}

    assert {one.code for one in told.values()} == {0}
    assert told["name"].out == ask("run.db", "compare", "steps.jsonl", "--csv").out
    assert ",3,3,harnesses" in told["class"].out
    assert ",3,3,harnesses" not in told["name"].out


def test_a_log_plain_packed_or_in_parts_is_told_of_like_the_store(folder: Path) -> None:
    lines = (folder / "steps.jsonl").read_text().splitlines(keepends=True)
    (folder / "packed.jsonl.gz").write_bytes(gzip.compress("".join(lines).encode()))
    (folder / "part-1.jsonl").write_text("".join(lines[:7]))
    (folder / "part-2.jsonl").write_text("".join(lines[7:]))

    runs = (["run.db"], ["steps.jsonl"], ["packed.jsonl.gz"], ["part-*.jsonl"], ["part-1.jsonl", "part-2.jsonl"])
    told = [ask(*run, "summary", "--json") for run in runs]

    assert [one.code for one in told] == [0] * 5
    assert len({one.out for one in told}) == 1


def test_json_is_an_object_a_line_tagged_by_its_table(folder: Path) -> None:
    told = ask("run.db", "--json").objects

    first = next(row for row in told if row["table"] == "harnesses" and row["harness"] == "three")
    assert (first["status"], first["steps"], first["attempts"]) == ("finished", 3, 1)
    assert {row["table"] for row in told} >= {"sentences", "harnesses", "latency", "time"}


def test_csv_is_one_table_with_exact_figures(folder: Path) -> None:
    told, other = ask("run.db", "--csv"), ask("run.db", "--csv", "--table", "latency", "--harness", "three")

    rows = list(csv.DictReader(io.StringIO(told.out)))
    assert {row["harness"]: row["steps"] for row in rows} == {"": "7", "crash": "3", "hostile": "1", "three": "3"}
    assert told.err == "table harnesses; with --table NAME: latency, time, effects\n"
    assert [row["harness"] for row in csv.DictReader(io.StringIO(other.out))] == ["three"]


def test_a_limit_is_kept_and_what_it_hides_is_counted(folder: Path) -> None:
    told, exact = ask("run.db", "timeline", "--limit", "2"), ask("run.db", "timeline", "--limit", "2", "--json")

    assert "… and 5 more" in told.out
    assert sum(row["table"] == "spans" for row in exact.objects) == 2


def test_text_from_agents_is_inert_in_every_form(folder: Path) -> None:
    told = [ask("run.db", "failures", *form) for form in ([], ["--json"], ["--csv"], ["--html"])]

    assert all("\x1b" not in one.out + one.err for one in told)
    assert "<script>alert" not in told[-1].out
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in told[-1].out


class Links(HTMLParser):
    """Gathers what a page loads, and checks that its tags fit."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.links += [value or "" for name, value in attrs if name in ("src", "href")]
        assert tag != "script"


def test_a_report_is_one_page_that_loads_nothing(folder: Path) -> None:
    told = ask("run.db", "report", "--html", "report.html")

    page = (folder / "report.html").read_text()
    links = Links()
    links.feed(page)
    assert (told.code, told.out, told.err) == (0, "", "written to report.html\n")
    assert all(link.startswith(("#", "data:")) for link in links.links)
    assert all(f">{name}</h2>" in page for name in ("Summary", "Timeline", "Failures", "Throughput"))
    assert page.count("<svg") >= 5


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--html", "run.db", "summary"], "--html run.db: expected the name of a page"),
        (["--html", "run.db", "steps.jsonl"], "run.db is the store"),
        (["run.db", "--html", "summary"], "--html summary: expected the name of a page"),
        (["run.db", "--html", "."], "--html . is a folder"),
    ],
)
def test_a_page_is_never_written_over_something_else(folder: Path, words: list[str], said: str) -> None:
    before = {file: file.read_bytes() for file in folder.iterdir()}

    told = ask(*words)

    assert (told.code, told.out) == (2, "")
    assert said in told.err
    assert {file: file.read_bytes() for file in before} == before


def test_pictures_are_written_to_a_folder(folder: Path) -> None:
    told = ask("run.db", "summary", "--pictures", "pictures", "--format", "png")

    assert told.code == 0
    files = sorted((folder / "pictures").iterdir())
    assert [file.name for file in files] == ["shares.png", "timeline.png"]
    assert all(file.read_bytes().startswith(b"\x89PNG") for file in files)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nowhere.db"], "nowhere.db is not there"),
        (["run.db", "summary", "more"], "summary takes nothing after it: expected options, got 'more'"),
        (["run.db", "why"], "why needs the name of a harness"),
        (["run.db", "why", "three", "x"], "why three: step: expected a whole number"),
        (["run.db", "why", "nobody"], "no harness 'nobody': expected one of crash, hostile, three"),
        (["run.db", "why", "three", "9"], "harness 'three' has no step 9: expected one from 1 to 3, or 4"),
        (["run.db", "compare"], "compare needs another run"),
        (["run.db", "--harness", "nobody"], "no harness 'nobody'"),
        (["run.db", "--csv", "--table", "none"], "summary has no table 'none': expected one of harnesses, latency"),
        (["run.db", "--csv", "--json"], "--json, --csv and --html contradict each other"),
        (["run.db", "--format", "png"], "--format is that of pictures"),
        (["run.db", "slow", "--match", "class"], "--match is for two runs: expected the question compare, got 'slow'"),
        (["sumary"], "no such question: 'sumary', and no run of that name; expected one of summary, timeline, "),
        (["run.db", "thruput"], "no such question: 'thruput'"),
        (["run.db", "sumary"], "did you mean 'summary'?"),
        (["pyproject.toml"], "pyproject.toml is not there"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(folder: Path, words: list[str], said: str) -> None:
    told = ask(*words)

    assert (told.code, told.out) == (2, "")
    assert said in told.err
    assert told.err.startswith("orchestrator: ")
    assert told.err.count("\n") == 1


def test_bad_lines_of_a_log_are_counted_and_named(folder: Path) -> None:
    with (folder / "steps.jsonl").open("a") as log:
        log.write('{"timestamp": "garbage"}\nno json\n{"torn": ')

    told = ask("steps.jsonl", "failures")

    assert told.code == 0
    assert "lines of the log cannot be read" in told.out


def test_asking_changes_nothing_of_the_run(folder: Path) -> None:
    before = {file: file.read_bytes() for file in folder.iterdir()}

    ask("run.db", "summary")

    assert {file: file.read_bytes() for file in before} == before


def test_a_harness_whose_program_was_killed_is_told_as_interrupted(tmp_path: Path) -> None:
    with Command(tmp_path) as command:
        process = command.start("run", command.run_file("Ticking"), "--store", "run.db")
        wait_until(lambda: heads(tmp_path / "run.db").get("ticking", 0) >= 2)
        process.kill()
        process.wait()
    store = str(tmp_path / "run.db")

    why, timeline = ask(store, "why", "ticking"), ask(store, "timeline", "--json")

    assert why.out.startswith("ticking was interrupted: it is on record as alive, in attempt 1, and its program is gone.")
    kinds = [row["kind"] for row in timeline.objects if row["table"] == "spans"]
    assert kinds == ["running", "gone"]


def test_it_is_a_verb_of_the_command(folder: Path) -> None:
    with Command(folder) as command:
        done = command("analyze", "run.db", "failures", ORCHESTRATOR_STORE="elsewhere.db")

    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("crash failed 2 times")


def test_without_the_extra_it_is_one_clear_line(folder: Path) -> None:
    blocked = (
        "import sys; sys.modules['duckdb'] = None\nfrom orchestrator.cli import main\nsys.exit(main(['analyze', 'run.db']))"
    )

    with Command(folder) as command:
        done = ended(command.python("-c", blocked))

    assert (done.code, done.out) == (2, "")
    assert install_command("analysis") in done.err
    assert done.err.count("\n") == 1


@pytest.mark.parametrize("question", sorted(QUESTIONS.keys() - {"compare", "why"}))
def test_a_fork_that_was_not_started_has_made_nothing_and_hinders_no_question(folder: Path, question: str) -> None:
    main(["fork", "three", "2", "--as", "other", "--store", "run.db"])

    assert ask("run.db", question, "--harness", "other").code == 0


def test_a_fork_that_was_not_started_hinders_no_report(folder: Path) -> None:
    main(["fork", "three", "2", "--as", "other", "--store", "run.db"])

    assert ask("run.db", "report").code == 0
