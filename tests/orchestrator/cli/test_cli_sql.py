"""`orchestrator sql`, run as a user runs it; the prompt at a terminal of its own."""

from __future__ import annotations

import csv
import os
import pty
import re
import select
import shlex
import shutil
import subprocess
import termios
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("duckdb")
pytest.importorskip("duckdb_ext")

from orchestrator.analysis.sql.sql_room import Room
from orchestrator.cli.query.sql_prompt import EXAMPLES, split
from orchestrator.cli.query.sql_verb import asked
from orchestrator.errors import UsageError
from tests.orchestrator.commanding import PYTHON, ROOT, Command, surroundings
from tests.zygote import run_python

LOG = ROOT / "docs" / "reference" / "run.jsonl"
COUNT = "select harness, count(*) as steps from steps where harness < 'g' group by all order by 1"


@pytest.fixture
def command(tmp_path: Path) -> Iterator[Command]:
    shutil.copy(LOG, tmp_path / "run.jsonl")
    with Command(tmp_path) as command:
        yield command


def test_a_table_is_for_people(command: Command) -> None:
    done = command("sql", "run.jsonl", COUNT)

    assert (done.code, done.err) == (0, "")
    assert done.out == "harness   steps\n--------  -----\nfeatures     13\nflaky        14\n"


def test_money_is_shown_without_the_zeros_behind_it_and_other_numbers_as_they_are(command: Command) -> None:
    done = command(
        "sql",
        "run.jsonl",
        "select 340.50::decimal(38,18) as a, 100::decimal(38,18) as b, 0.10::decimal(4,2) as c, 0::decimal(38,18) as d",
    )

    assert done.out.splitlines()[-1].split() == ["340.5", "100", "0.10", "0"]


def test_json_is_an_object_a_line_and_json_in_it_is_not_text(command: Command) -> None:
    done = command("sql", "run.jsonl", "select step_number, output, output as output from steps where seq = 14", "--json")

    output = {"status": "fetched", "bytes": 100}
    assert done.objects == [{"step_number": 1, "output": output, "output_2": output}]


def test_csv_has_a_head_and_no_formula(command: Command) -> None:
    done = command("sql", "run.jsonl", "select '=1+1' as a, -1.50::decimal(4,2) as b, null as c, 'x,\ny' as d", "--csv")

    assert list(csv.reader(done.out.splitlines())) == [["a", "b", "c", "d"], ["'=1+1", "-1.50", "", "x, y"]]


def test_a_limit_is_told_where_it_does_not_disturb(command: Command) -> None:
    done = command("sql", "run.jsonl", "select seq from records order by seq", "--limit", "2", "--csv")

    assert done.out == "seq\n1\n2\n"
    assert done.err == "the first 2 rows: there are more\n"


def test_no_rows_are_told_of_and_leave_the_head(command: Command) -> None:
    done = command("sql", "run.jsonl", "select seq from steps where false")

    assert (done.out, done.err) == ("seq\n---\n", "no rows\n")


def fed(command: Command, given: str, *options: str) -> Any:
    """Run it with something in its standard input."""
    words = ["-m", "orchestrator", "sql", "run.jsonl", *options]
    return run_python(*words, input=given, cwd=command.folder, env=surroundings(), capture_output=True, text=True, check=True)


def test_the_query_can_come_from_standard_input(command: Command) -> None:
    done = fed(command, "select 1 as a\n-- and no more\n;", "-", "--json")

    assert done.stdout == '{"a":1}\n'


def test_what_agents_wrote_is_inert_in_every_mode(command: Command) -> None:
    line = ["sql", "run.jsonl", "select chr(27) || '[31m' || chr(8238) as a, 'ghp_' || repeat('a1B2', 9) as b"]

    for done in command.each(line, [*line, "--json"], [*line, "--csv"]):
        assert not re.search(r"[\x1b\u202e]|ghp_", done.out)
        assert "[REDACTED]" in done.out


MISTAKES = {
    "sql run.jsonl 'select nope from steps'": (2, 'orchestrator: sql: Referenced column "nope" not found'),
    "sql run.jsonl \"from '/etc/passwd'\"": (2, "orchestrator: sql: no view '/etc/passwd': expected one of"),
    "sql none.db 'select 1'": (2, "orchestrator: none.db is not there: expected"),
    "sql run.jsonl": (2, "orchestrator: sql: expected RUN and a query in quotes, got 1 words"),
    "sql run.jsonl a b": (2, "orchestrator: sql: expected RUN and a query in quotes, got 3 words"),
    "sql run.jsonl 'select 1' --csv --json": (2, "orchestrator: --csv contradicts --json"),
    "sql run.jsonl 'select 1' --limit x": (2, "orchestrator: sql: --limit: expected a whole number"),
    "sql run.jsonl 'select 1' --interactive": (2, "orchestrator: sql --interactive takes no query"),
    "sql run.jsonl \"select length(repeat('x', 4000000000))\"": (1, "orchestrator: sql: Failed to allocate"),
    "sql run.jsonl 'select count(*) from range(1000000) a, range(1000000)' --timeout 0.2": (1, "orchestrator: sql: the query"),
}


@pytest.mark.parametrize("part", [slice(0, 3), slice(3, 8), slice(8, None)])
def test_a_mistake_is_one_line_and_a_code(command: Command, part: slice) -> None:
    lines, told = list(MISTAKES)[part], list(MISTAKES.values())[part]

    for done, (code, said) in zip(command.each(*map(shlex.split, lines)), told, strict=True):
        assert done.code == code
        assert done.err.startswith(said)
        assert done.err.count("\n") == 1


def test_who_reads_no_more_ends_it(command: Command) -> None:
    line = f"{' '.join(PYTHON)} -m orchestrator sql run.jsonl 'from range(1000000000000)' --csv | head -3"

    done = subprocess.run(line, shell=True, cwd=command.folder, env=surroundings(), capture_output=True, text=True, check=True)

    assert (done.stdout, done.stderr) == ("range\n0\n1\n", "")


def test_queries_can_be_piped_to_the_prompt(command: Command) -> None:
    done = fed(command, "select 1 as a; select\n 2 as a;\nselec;\n.mode csv\nselect 3 as a", "--interactive", "--json")

    assert done.stdout == '{"a":1}\n{"a":2}\na\n3\n'
    assert done.stderr == 'sql: syntax error at or near "selec" (line 1, column 1)\n'


@pytest.mark.parametrize(("text", "queries", "rest"), [
    ("select 1;", ["select 1"], ""),
    ("select 1; select 2; sel", ["select 1", "select 2"], "sel"),
    ("select ';'", [], "select ';'"),
    ("select 'it''s;';", ["select 'it''s;'"], ""),
    ("select ';", [], "select ';"),
    ('select "a;b";', ['select "a;b"'], ""),
    ("select 1 -- a; b\n;", ["select 1 -- a; b"], ""),
    ("select /* ; */ 1;", ["select /* ; */ 1"], ""),
    ("select /* ;", [], "select /* ;"),
    ("select $$ ; $$;", ["select $$ ; $$"], ""),
    ("select $a$ ; $$ ; $a$;", ["select $a$ ; $$ ; $a$"], ""),
    (";;", [], ""),
])  # fmt: skip
def test_text_is_split_where_a_query_ends(text: str, queries: list[str], rest: str) -> None:
    assert split(text) == (queries, rest)


def test_a_single_word_is_a_query_if_it_can_be_no_run() -> None:
    assert asked(["from steps"], "run.db", interactive=False) == ("run.db", "from steps")
    assert asked(["-"], "run.db", interactive=False) == ("run.db", "-")
    assert asked(["a.jsonl"], "run.db", interactive=True) == ("a.jsonl", "")
    with pytest.raises(UsageError):
        asked([], "run.db", interactive=False)


def test_every_example_can_be_carried_out() -> None:
    with Room(str(LOG)) as room:
        for _, query in EXAMPLES:
            assert list(room.ask(query))


class Terminal:
    """A command at a terminal of its own, typed to and read."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.folder = folder
        self.fd, there = pty.openpty()
        mode = termios.tcgetattr(there)
        mode[3] |= termios.NOFLSH  # else Ctrl-C drops what either side has written and the other has not read yet
        termios.tcsetattr(there, termios.TCSANOW, mode)
        # Not `pty.fork`: Python code must not run in a fork of a process that has threads. A shell has what it starts in the
        # background ignore SIGINT, so that is undone.
        self.process = subprocess.Popen(
            ["setsid", "--ctty", "env", "--default-signal=INT,QUIT", *PYTHON, "-m", "orchestrator", *arguments],
            cwd=folder,
            env=surroundings(XDG_STATE_HOME=str(folder / "state"), TERM="dumb", HOME=str(folder)),
            stdin=there,
            stdout=there,
            stderr=there,
        )
        os.close(there)
        self.text = ""

    def type(self, text: str) -> None:
        os.write(self.fd, text.encode())

    def interrupt(self) -> None:
        """Type Ctrl-C, and wait for the prompt.

        Again, if it does not come: Python's `input` shows its prompt before it waits in `select`, and a signal between the two
        is seen with the next one (`readline_until_enter_or_signal` in CPython's Modules/readline.c).
        """
        while "sql> " not in self.text:
            self.type("\x03")
            if select.select([self.fd], [], [], 5.0)[0]:
                self.text += self._more()
                while "sql> " not in self.text and select.select([self.fd], [], [], 5.0)[0]:
                    self.text += self._more()
        self.expect("sql> ")

    def expect(self, pattern: str, seconds: float = 60.0) -> str:
        """Read until something is there; return what came until then."""
        end = time.monotonic() + seconds
        while (found := re.search(pattern, self.text)) is None:
            ready, _, _ = select.select([self.fd], [], [], max(0.0, end - time.monotonic()))
            assert ready, f"no {pattern!r} in {self.text[-2000:]!r}"
            self.text += self._more()
        before, self.text = self.text[: found.end()], self.text[found.end() :]
        return before

    def _more(self) -> str:
        try:
            return os.read(self.fd, 65536).decode(errors="replace").replace("\r", "")
        except OSError:
            raise AssertionError(f"it has ended: {self.text[-2000:]!r}") from None

    def ended(self) -> int:
        """Wait for its end, and return the code."""
        return self.process.wait()

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self.fd)


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    shutil.copy(LOG, tmp_path / "run.jsonl")
    opened = Terminal(tmp_path, "sql", "run.jsonl", "--interactive")
    yield opened
    opened.close()


def test_the_prompt_answers_goes_on_after_mistakes_and_ends_with_its_input(terminal: Terminal) -> None:
    terminal.expect("sql> ")
    terminal.type("select count(*) as n\n")
    terminal.expect(r"\.\.\.> ")
    terminal.type("from steps;\n")
    assert "\n115\n" in terminal.expect("sql> ")
    terminal.type("selec;\n")
    assert 'syntax error at or near "selec"' in terminal.expect("sql> ")
    terminal.type(".nope\n")
    assert ".nope is not known: expected one of .tables" in terminal.expect("sql> ")
    terminal.type("\x04")

    assert terminal.ended() == 0


def test_ctrl_c_ends_a_query_or_forgets_what_was_typed_and_not_the_prompt(terminal: Terminal) -> None:
    terminal.expect("sql> ")
    terminal.type("select 1 as a; select count(*) from range(1000000) x, range(1000000) y;\n")
    terminal.expect(r"\n1\n")
    terminal.interrupt()
    terminal.type("select 'half\n")
    terminal.expect(r"\.\.\.> ")
    terminal.interrupt()
    terminal.type("select 41 + 1 as n;\n")

    assert "\n42\n" in terminal.expect("sql> ")


def test_the_prompt_says_what_there_is(terminal: Terminal) -> None:
    terminal.expect("sql> ")
    terminal.type(".tables\n")
    assert "feature_standing" in terminal.expect("sql> ")
    terminal.type(".schema attempts\n")
    assert re.search(r"took_s +DOUBLE +s +from", terminal.expect("sql> "))
    terminal.type(".examples\n")
    assert "GROUP BY ALL" in terminal.expect("sql> ")
    terminal.type(".help\n")
    assert ".schema VIEW" in terminal.expect("sql> ")
    terminal.type(".mode json\nselect 1 as a;\n")
    terminal.expect('{"a":1}')
    terminal.type(".limit 2\nselect * from range(5);\n")
    terminal.expect("the first 2 rows: there are more")


def test_what_was_typed_is_kept_for_the_user_alone_and_without_secrets(terminal: Terminal) -> None:
    terminal.expect("sql> ")
    terminal.type("select 1,\n 2;\n")
    terminal.expect("sql> ")
    terminal.type(f"select 'ghp_{'a1B2' * 9}';\n")
    terminal.expect("sql> ")
    terminal.type(".quit\n")
    assert terminal.ended() == 0

    kept = terminal.folder / "state" / "durable-harnesses" / "sql_history"
    assert kept.read_text().splitlines()[-3:] == ["select 1, 2;", "select '[REDACTED]';", ".quit"]
    assert kept.stat().st_mode & 0o777 == 0o600
    assert {path.name for path in terminal.folder.iterdir()} == {"run.jsonl", "state"}
