"""How a run shows itself: a live table on a terminal, lines elsewhere; inert, rare enough, and no harm to the run."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from attrs import frozen

from harnesses.diagnostics.extras import install_command
from orchestrator import Orchestrator, SqliteStore, StoreError
from orchestrator.cli.run.live_display import EventLines, event_line, follow
from orchestrator.kill_switch import Latch
from orchestrator.records import Record
from tests.orchestrator.commanded import HOSTILE, Ticking
from tests.orchestrator.commanding import Command, surroundings
from tests.zygote import Program

WITHOUT_RICH = "import sys; sys.modules['rich'] = None; from orchestrator.cli import main; sys.exit(main(sys.argv[1:]))"
OURS = re.compile(r"\x1b\[(\?25[lh]|2K|\d*A|[0-9;]*m)|\r")
"""What rich draws with: the cursor hidden and shown, lines cleared, the cursor moved up, colours."""


@pytest.fixture
def command(tmp_path: Path) -> Iterator[Command]:
    with Command(tmp_path) as command:
        yield command


@frozen
class Screen:
    """What came out of a terminal."""

    code: int
    raw: str
    seconds: float

    @property
    def frames(self) -> list[str]:
        """Each drawing of the table, and what stands between."""
        return self.raw.split("harness\x1b[0m")[1:]

    @property
    def last_lines(self) -> list[str]:
        """What is left when the table is gone."""
        return self.raw.rpartition("\x1b[?25h")[2].splitlines()


def on_terminal(command: Command, *arguments: str, interrupt_s: float = 0.0, rows: int = 24, **environment: str) -> Screen:
    """Run with standard error, and input, on a terminal of 100 columns; end it so many seconds after the first drawing."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, 100, 0, 0))
    environment = {**surroundings(), "TERM": "xterm", "COLUMNS": "", **environment}
    begin = drawn = time.monotonic()
    process = Program(arguments, cwd=command.folder, env=environment, stdin=slave, stdout=subprocess.DEVNULL, stderr=slave)
    os.close(slave)
    raw, interrupted = b"", not interrupt_s
    os.set_blocking(master, False)
    while process.poll() is None or not interrupted:
        raw += _read(master)
        now = time.monotonic()
        if b"\x1b[?25l" not in raw:
            drawn = now
        elif not interrupted and now - drawn > interrupt_s:
            interrupted = True
            process.terminate()
        assert now - begin < 40, raw
    while rest := _read(master):
        raw += rest
    os.close(master)
    return Screen(process.returncode, raw.decode(), time.monotonic() - drawn)


def _read(master: int) -> bytes:
    time.sleep(0.01)
    try:
        return os.read(master, 1 << 16)
    except (BlockingIOError, OSError):
        return b""


def run(name: str = "run.toml") -> list[str]:
    return ["-m", "orchestrator", "run", name]


def test_a_terminal_gets_a_row_for_each_harness_and_is_given_back(command: Command) -> None:
    command.run_file("Ticking", "Failing", top="intensity = 0")

    screen = on_terminal(command, *run(), interrupt_s=2.0)

    assert screen.code == 143
    text = OURS.sub("", screen.raw)
    assert re.search(r"ticking +running +1 +\d+ +\d+\.\d +tick \d+", text)
    assert re.search(r"failing +gave up +1 +1 +0\.0 .*ValueError: it is broken", text)
    assert re.search(r"all +\d+ +\d+\.\d +1 of 2 ended", text)
    assert screen.raw.count("\x1b[?25l") == screen.raw.count("\x1b[?25h") == 1
    assert any(line.split()[:2] == ["ticking", "stopped"] for line in screen.last_lines)


def test_a_terminal_shows_a_latch_and_what_it_has_blocked(command: Command) -> None:
    tables = (
        f'[[harness]]\nname = "{one.lower()}"\nharness = "tests.orchestrator.operated:{one}"\ninitial_state = 0\n'
        for one in ("Acting", "Listening")
    )
    command.write("run.toml", "".join(tables))
    Latch(command.folder / "run.db").put_on("acting", reason="\x1b[2Jnews")

    screen = on_terminal(command, *run(), interrupt_s=2.0)

    text = OURS.sub("", screen.raw)
    assert screen.code == 143
    assert re.search(r"acting +blocked +1 +0 +0\.0 +Latched: harness 'acting', step 1", text)
    assert re.search(r"all +0 +0\.0 +1 of 2 ended, 1 of them blocked", text)
    assert re.search(r"kill switch +on for acting \(\\x1b\[2Jnews\): no effect begins", text)


def test_the_table_is_drawn_at_most_four_times_a_second(command: Command) -> None:
    command.run_file("Ticking")

    screen = on_terminal(command, *run(), interrupt_s=2.0)

    # Besides the first and the last drawing there is one for each line of talk above the table.
    assert 3 <= len(screen.frames) <= 4 * screen.seconds + 4


def test_what_an_agent_wrote_is_inert_on_a_terminal(command: Command) -> None:
    command.run_file("Hostile", top="intensity = 0")

    screen = on_terminal(command, *run())

    assert screen.code == 1
    assert r"[bold red]x[/] \x1b[31mred\x1b]0;owned\x07" in screen.raw
    assert OURS.sub("", screen.raw).replace("\n", "").replace("\u2028", "").isprintable()
    assert "\x1b[31mred" not in screen.raw
    assert "\x1b[1;31mx" not in screen.raw


def test_of_many_harnesses_as_many_are_shown_as_there_is_room(command: Command) -> None:
    tables = (
        f'[[harness]]\nname = "h{n}"\nharness = "tests.orchestrator.commanded:Ticking"\ninitial_state = 0\n' for n in range(60)
    )
    command.write("run.toml", "".join(tables))

    screen = on_terminal(command, *run(), interrupt_s=2.5)

    rows = [len(re.findall(r"^h\d+ ", OURS.sub("", frame), re.MULTILINE)) for frame in screen.frames[2:4]]
    assert rows == [20, 20]
    assert "40 more not shown, 0 of 60 ended" in screen.raw
    assert "and 20 more: see `orchestrator status`" in screen.raw


@pytest.mark.parametrize("environment", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_a_terminal_that_wants_no_drawing_gets_lines(command: Command, environment: dict[str, str]) -> None:
    command.run_file("Three")

    screen = on_terminal(command, *run(), **environment)

    assert screen.code == 0
    assert "\x1b" not in screen.raw
    assert "three: completed at step 3, attempt 1" in screen.raw


def test_without_rich_there_are_lines_and_a_hint(command: Command) -> None:
    command.run_file("Three")

    screen = on_terminal(command, "-c", WITHOUT_RICH, "run", "run.toml")

    assert screen.code == 0
    assert screen.raw.count(install_command("display")) == 1
    assert "three: completed at step 3, attempt 1" in screen.raw


def test_a_live_table_neither_takes_nor_hides_standard_output(command: Command) -> None:
    command.write("script.py", "async def supervise(orchestrator):\n    print('data')\n")
    with open(command.folder / "out", "w") as out:
        master, slave = pty.openpty()
        environment = {**surroundings(), "TERM": "xterm"}
        process = Program(run("script.py"), cwd=command.folder, env=environment, stdout=out, stderr=slave)
        process.wait(20)
        os.close(slave)
        os.close(master)

    assert (command.folder / "out").read_text() == "data\n"


def test_the_line_of_an_event_is_inert_and_says_why(command: Command) -> None:
    body = '{"cause": "\\u001b[31m' + "a\\nb" + '", "delay_s": 0.125}'

    line = event_line(Record(1, "h", 2, 3, 0, "restarting", body))

    assert line == r"h: restarting in 0.12 s at step 3, attempt 2: \x1b[31ma b"
    assert event_line(Record(1, "h", 1, 0, 0, "gave_up", "{}")) == "h: gave up at step 0, attempt 1"
    assert HOSTILE not in line


def test_the_line_of_a_latch_says_whose_it_is_and_why() -> None:
    on = event_line(Record(1, "", 0, 0, 0, "latch", '{"on": true, "by": "ann", "reason": "a\\u001bb"}'))
    off = event_line(Record(1, "h", 0, 0, 0, "latch", '{"on": false, "reason": "", "by": "ann"}'))

    assert on == r"all harnesses: kill switch on, by ann: a\x1bb"
    assert off == "h: kill switch off, by ann"


class Broken:
    """A view that fails."""

    period_s = 0.1

    def __init__(self, error: Exception) -> None:
        self._error = error

    def open(self) -> None: ...

    def show(self) -> None:
        raise self._error

    def close(self) -> None: ...


@pytest.mark.parametrize("error", [OSError("gone"), IndexError("gone"), StoreError("gone")])
async def test_a_view_that_fails_is_given_up_and_the_run_goes_on(error: Exception, capsys: pytest.CaptureFixture[str]) -> None:
    await follow(Broken(error))

    assert capsys.readouterr().err == "orchestrator: the run is no longer shown: gone; it goes on\n"


async def test_events_are_shown_once_each_and_steps_are_not(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = SqliteStore(tmp_path / "run.db")
    view = EventLines(store)

    async with Orchestrator(store, handle_signals=False) as orchestrator:
        handle = orchestrator.start(Ticking(0), name="a")
        async for step in handle.steps():
            view.show()
            if step.step_number == 5:
                handle.stop()
                break
    view.show()
    view.close()
    store.close()

    lines = capsys.readouterr().err.splitlines()
    assert [line.split(" at ")[0] for line in lines] == ["a: started", "a: stopped"]
