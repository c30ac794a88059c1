"""The reading verbs and the command line itself, run as a user runs them."""

from __future__ import annotations

import json
import shutil
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing
from decimal import Decimal
from pathlib import Path

import pytest
import trio

from orchestrator import Orchestrator
from tests.orchestrator.commanded import HOSTILE, Account, Failing, Hostile, Three, make_saving
from tests.orchestrator.commanding import PYTHON, Command, Ended, heads, surroundings, wait_until

STEP = ["step_number", "timestamp", "input", "output", "state_delta", "harness", "attempt", "seq"]

READING = [
    "",
    "--help",
    "--version",
    "status",
    "status --json",
    "steps three --json",
    "--json steps three",
    "steps three --after 1 --limit 1",
    "steps hostile",
    "steps hostile --json",
    "show three 2 --state",
    "show three 2 --state --json",
    "show three",
    "show three 3",
    "state three --json",
    "state three 3 --json",
    "show hostile 1 --state",
    "show hostile 1 --json",
]
MISTAKES = {
    "show three 4": "harness 'three' has no step 4: expected a number from 1 to 3; see `orchestrator steps three`",
    "show three 0": "harness 'three' has no step 0: expected a number from 1 to 3",
    "show three -1": "show: STEP: expected a step number from 1 up, got '-1'",
    "show three 999999999999999999999999999999": "show: STEP: expected a whole number from 0 up, got '999",
    "show nobody 1": "no harness 'nobody' in run.db: expected one of three, failing, saving, hostile",
    "steps nobody": "no harness 'nobody' in run.db: expected one of three, failing, saving, hostile",
    "export nobody": "no harness 'nobody' in run.db: expected one of three, failing, saving, hostile",
    "steps three --after -1": "steps: --after: expected a whole number from 0 up, got '-1'",
    "steps three --limit x": "steps: --limit: expected a whole number from 0 up, got 'x'",
    "steps": "steps: NAME is missing; see `orchestrator steps --help`",
    "stats": "unknown verb 'stats'; did you mean status?; see `orchestrator --help`",
    "why three": "unknown verb 'why'; did you mean analyze why?; see `orchestrator --help`",
    "kill-switch off --harness thre": "no harness 'thre' in run.db: expected one of three, failing, saving, hostile",
    "--jsn": "unknown option --jsn; did you mean --json?; see `orchestrator --help`",
    "status --sto x": "status: unknown option --sto; did you mean --store?; see `orchestrator status --help`",
    "status x": "status: expected no further argument, got 'x'; see `orchestrator status --help`",
    "memory lst": "memory: expected no further argument, got 'lst'; did you mean list?; see `orchestrator memory --help`",
    "kill-switch no": "kill-switch: on|off: expected one of on, off, got 'no'",
    "steps three --limit": "steps: --limit needs a value; see `orchestrator steps --help`",
    "status --store none.db": "none.db is not there: expected a store; check --store, or run something first",
    "status --store .": "is a folder: expected a file",
    "status --store postgresql://ann:pw@db/desk": "postgresql://ann@db/desk: expected an address without a password",
    "pause one --store postgres://127.0.0.1:9/desk": "postgres://127.0.0.1:9/desk cannot be reached",
    "run none.toml": "none.toml is not there: expected a run file (.toml) or a supervisor script (.py)",
    "run run.db": "run.db: expected a run file (.toml) or a supervisor script (.py)",
    "run none.toml --drain 0": "run: --drain: expected seconds above 0, got '0'",
}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dead run: one harness completed, one failed, one stopped."""
    path = tmp_path_factory.mktemp("cli") / "run.db"

    async def record() -> None:
        async with Orchestrator(path) as orchestrator:
            orchestrator.start(Three(0), name="three")
            orchestrator.start(Failing(0), name="failing", restart="temporary")
            orchestrator.start(make_saving(Account(Decimal(10))), name="saving")
            hostile = orchestrator.start(Hostile(0), name="hostile")
            async for _ in hostile.steps():
                hostile.stop()

    with pytest.raises(ExceptionGroup):
        trio.run(record)
    return path


@pytest.fixture
def command(store: Path, tmp_path: Path) -> Iterator[Command]:
    """The command in a folder that has a copy of the store."""
    shutil.copy(store, tmp_path / "run.db")
    with Command(tmp_path) as command:
        yield command


class Said(dict[str, Ended]):
    """What the command said to each line of arguments."""


@pytest.fixture(scope="module")
def said(store: Path) -> Said:
    """Many commands in one process, for starting one takes longer than most of them."""
    lines = [*READING, *MISTAKES]
    with Command(store.parent) as command:
        return Said(zip(lines, command.each(*(line.split() for line in lines)), strict=True))


def complaint(done: Ended) -> str:
    """Return the one line that a mistake is told in."""
    assert done.out == ""
    (line,) = done.err.splitlines()
    assert line.startswith("orchestrator: ")
    return line.removeprefix("orchestrator: ")


def test_status_has_a_line_for_each_harness(said: Said) -> None:
    done = said["status"]

    head, *rows = [line.split() for line in done.out.splitlines()]
    assert (done.code, done.err) == (0, "")
    assert head == ["HARNESS", "STATUS", "ATTEMPT", "STEP", "LAST", "EVENT", "CAUSE"]
    assert [row[:4] for row in rows] == [
        ["three", "completed", "1", "3"],
        ["failing", "failed", "1", "1"],
        ["saving", "finished", "1", "1"],
        ["hostile", "stopped", "1", "1"],
    ]
    assert rows[1][6:] == ["ValueError:", "it", "is", "broken"]


def test_status_in_json_has_the_traceback_too(said: Said) -> None:
    done = said["status --json"]

    failing = done.objects[1]
    assert (failing["status"], failing["current_step"], failing["owned"]) == ("failed", 1, False)
    assert failing["timestamp"].endswith("Z")
    assert "raise ValueError" in failing["last_event"]["traceback"]


def test_steps_in_json_have_the_fields_of_a_step(said: Said) -> None:
    done = said["steps three --json"]

    assert [list(step) for step in done.objects] == [STEP] * 3
    assert [step["step_number"] for step in done.objects] == [1, 2, 3]
    assert done.objects[1]["state_delta"] == {"modified": ["state"], "summary": "step 2 made"}
    assert (done.objects[1]["input"], done.objects[1]["output"]) == (2, "one of three")


def test_steps_can_be_cut_at_both_ends(said: Said) -> None:
    done = said["steps three --after 1 --limit 1"]

    assert done.out.split()[0] == "2"
    assert "2 → one of three  [state]  step 2 made" in done.out
    assert len(done.out.splitlines()) == 1


def test_options_may_stand_before_the_verb(said: Said) -> None:
    assert said["--json steps three"] == said["steps three --json"]


def test_the_store_is_the_options_then_the_environments_then_run_db(command: Command, tmp_path: Path) -> None:
    shutil.copy(tmp_path / "run.db", tmp_path / "other.db")
    (tmp_path / "run.db").unlink()

    assert command("status").code == 2
    assert command("status", ORCHESTRATOR_STORE="other.db").code == 0
    assert command("status", "--store", "other.db", ORCHESTRATOR_STORE="none.db").code == 0


def test_show_tells_all_about_a_step(said: Said) -> None:
    done = said["show three 2 --state"]

    assert done.code == 0
    assert done.out.splitlines()[1:2] + done.out.splitlines()[5:] == [
        "step_number  2",
        "modified     state",
        "summary      step 2 made",
        "input",
        "2",
        "output",
        '"one of three"',
        "state",
        "2",
    ]


@pytest.mark.parametrize(("newest", "last"), [("show three", "show three 3"), ("state three --json", "state three 3 --json")])
def test_the_newest_step_is_meant_where_none_is_named(said: Said, newest: str, last: str) -> None:
    assert (said[newest].code, said[newest].out) == (0, said[last].out)


def test_show_in_json_adds_the_state_when_asked(said: Said) -> None:
    done = said["show three 2 --state --json"]

    assert list(done.objects[0]) == [*STEP, "state", "parent", "children"]
    assert done.objects[0]["state"] == 2


@pytest.mark.parametrize("line", READING)
def test_what_an_agent_wrote_is_inert(said: Said, line: str) -> None:
    assert said[line].out.replace("\n", "").isprintable()


@pytest.mark.parametrize("line", ["steps hostile --json", "show hostile 1 --json"])
def test_what_an_agent_wrote_is_exact_in_json(said: Said, line: str) -> None:
    (step,) = said[line].objects

    assert (step["input"], step["output"]) == (HOSTILE, HOSTILE)


@pytest.mark.parametrize("line", MISTAKES)
def test_a_mistake_is_told_in_one_line(said: Said, line: str) -> None:
    done = said[line]

    assert done.code == 2
    assert MISTAKES[line] in complaint(done)


def test_a_file_that_is_no_store_is_refused_and_left_alone(command: Command) -> None:
    path = command.write("notes.txt", "these are notes")

    done = command("status", "--store", "notes.txt")

    assert done.code == 2
    assert "is not a database: expected a store made by this program" in complaint(done)
    assert path.read_text() == "these are notes"


def test_a_store_of_a_newer_release_is_refused(command: Command, tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "run.db")) as db:
        db.execute("PRAGMA user_version = 99")

    done = command("status")

    assert done.code == 2
    assert "has schema version 99" in complaint(done)


def test_a_damaged_store_is_a_matter_of_integrity(command: Command, tmp_path: Path) -> None:
    path = tmp_path / "run.db"
    content = bytearray(path.read_bytes())
    content[4096:] = b"\x55" * (len(content) - 4096)
    path.write_bytes(content)

    done = command("status")

    assert done.code == 5
    assert "is damaged" in complaint(done)


def test_a_store_without_harnesses_is_told(command: Command, tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "run.db")) as db, db:
        db.execute("DELETE FROM harnesses")

    done = command("status")

    assert done == Ended(0, "", "run.db has no harness yet\n")


def test_a_closed_pipe_ends_it_quietly(command: Command, tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "run.db")) as db, db:
        body = json.dumps({"input": 1, "output": "x" * 100, "delta": {}})
        db.executemany(
            "INSERT INTO records (harness, epoch, attempt, step, time_us, body) VALUES (1, 1, 1, ?, 1, ?)",
            [(number, body) for number in range(4, 50_000)],
        )
    process = command.start("steps", "three")
    assert process.stdout is not None
    assert process.stderr is not None

    first = process.stdout.readline()
    process.stdout.close()

    assert first.split()[0] == "1"
    assert process.wait(10) == 0
    assert process.stderr.read() == ""


@pytest.mark.parametrize("redirections", ["2>&-", ">&- 2>&-"])
def test_it_bears_closed_streams(command: Command, redirections: str) -> None:
    line = f'"$@" {redirections}'
    arguments = ["sh", "-c", line, "sh", *PYTHON, "-m", "orchestrator", "status"]

    done = subprocess.run(arguments, cwd=command.folder, env=surroundings(), capture_output=True, check=False)

    assert (done.returncode, done.stderr) == (0, b"")


def test_the_newest_steps_are_utf_8_whatever_the_locale_says(command: Command) -> None:
    done = command("steps", "three", "--newest", "2", PYTHONIOENCODING="ascii", LC_ALL="C")

    assert done.code == 0
    assert [line.split()[0] for line in done.out.splitlines()] == ["2", "3"]
    assert "→" in done.out


def test_help_has_an_example_and_the_exit_codes(said: Said) -> None:
    done = said["--help"]

    assert (done.code, done.err) == (0, "")
    assert "orchestrator run examples/run.toml" in done.out
    assert "3    stopped, can be resumed" in done.out


def test_without_a_verb_the_help_is_printed_and_the_code_is_0(said: Said) -> None:
    assert said[""] == said["--help"]


def test_the_version_is_data(said: Said) -> None:
    done = said["--version"]

    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("orchestrator ")


def test_a_running_harness_can_be_read_and_is_interrupted_once_its_program_is_killed(command: Command, tmp_path: Path) -> None:
    (tmp_path / "run.db").unlink()
    process = command.start("run", command.run_file("Ticking"))

    wait_until(lambda: heads(tmp_path / "run.db").get("ticking", 0) > 5)
    live, steps = command("status", "--json").objects, command("steps", "ticking", "--json").objects
    process.kill()
    process.communicate()
    dead = command("status", "--json").objects

    assert (live[0]["status"], live[0]["owned"]) == ("running", True)
    assert [step["step_number"] for step in steps] == list(range(1, len(steps) + 1))
    assert (dead[0]["status"], dead[0]["owned"]) == ("interrupted", False)
    assert dead[0]["current_step"] >= len(steps)
    assert dead[0]["cause"] == "its program is gone; to go on: `orchestrator run FILE`"
