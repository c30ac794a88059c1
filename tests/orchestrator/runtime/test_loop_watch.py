"""G4: whoever blocks the loop for more than a second is named, on stderr at once and on record; nobody else is."""

from __future__ import annotations

import inspect
import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from orchestrator import MemoryStore, Orchestrator, SqliteStore, Store
from orchestrator.runtime.loop_watch import KIND, Spent, blocked_between, held_between
from tests import ROOT
from tests.orchestrator.scripted import Scripted, Steps
from tests.zygote import Program

BLOCK_S = 1.2


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have it name whoever blocks the loop for 0.6 s, so that tests take less time."""
    monkeypatch.setattr("orchestrator.runtime.loop_watch.LIMIT_S", 0.6)


def blocked(store: Store) -> list[tuple[str, dict[str, Any]]]:
    return [(one.harness, json.loads(one.body)) for one in store.records(limit=10_000) if one.kind == KIND]


async def sleeper(harness: Scripted) -> Steps:
    yield 1, None
    time.sleep(1.8)  # noqa: ASYNC251


async def beside(harness: Scripted) -> Steps:
    for number in range(20):
        yield number, None
        await harness.sleep(0.05)


async def run(store: Store, *scripts: Any, **options: Any) -> None:
    with trio.fail_after(30):
        async with Orchestrator(store, handle_signals=False, **options) as orchestrator:
            for script in scripts:
                orchestrator.start(Scripted(script), name=script.__name__)


def test_a_harness_that_blocks_the_loop_is_named_with_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    store = MemoryStore()

    trio.run(run, store, sleeper, beside)

    line = inspect.getsourcelines(sleeper)[1] + 2
    place = f"test_loop_watch.py:{line} in sleeper (time.sleep)"
    ((name, body),) = blocked(store)
    assert name == "sleeper"
    assert body["place"].endswith(place)
    assert 1.0 < body["seconds"] < 3.5
    assert body["times"] == 1
    said = [line for line in capsys.readouterr().err.splitlines() if "blocked the loop" in line]
    assert len(said) == 1
    assert said[0].startswith("harness 'sleeper' has blocked the loop for ")
    assert place in said[0]


@pytest.mark.usefixtures("impatient")
def test_a_task_of_a_harness_is_the_harness() -> None:
    async def hog() -> None:
        time.sleep(BLOCK_S)  # noqa: ASYNC251

    async def parent(harness: Scripted) -> Steps:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(hog)
        yield 1, None

    store = MemoryStore()

    trio.run(run, store, parent, beside)

    assert [name for name, _ in blocked(store)] == ["parent"]


@pytest.mark.usefixtures("impatient")
def test_many_blocks_of_one_harness_are_one_record_and_a_sum(capsys: pytest.CaptureFixture[str]) -> None:
    async def often(harness: Scripted) -> Steps:
        for number in range(3):
            time.sleep(BLOCK_S)  # noqa: ASYNC251
            yield number, None

    store = MemoryStore()

    trio.run(run, store, often)

    assert [(name, body["times"]) for name, body in blocked(store)] == [("often", 1), ("often", 2)]
    assert capsys.readouterr().err.count("blocked the loop") == 1


@pytest.mark.usefixtures("impatient")
def test_a_slow_commit_in_the_loops_thread_is_the_stores(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    class Slow(SqliteStore):
        blocking = False  # commits are done in the loop's thread
        slow = 0

        def commit(self, steps: Any, operations: Any = (), **named: Any) -> Any:
            if steps and not self.slow:
                self.slow = 1
                time.sleep(BLOCK_S)
            return super().commit(steps, operations, **named)

    with closing(Slow(tmp_path / "run.db")) as store:
        trio.run(run, store, beside)

        ((name, body),) = blocked(store)
    assert name == ""
    assert "in commit (time.sleep)" in body["place"]
    (said,) = [line for line in capsys.readouterr().err.splitlines() if "blocked the loop" in line]
    assert said.startswith("the store ")
    assert "harness 'beside'" not in said


@pytest.mark.usefixtures("impatient")
def test_the_main_program_is_not_a_harness(capsys: pytest.CaptureFixture[str]) -> None:
    async def main(store: Store) -> None:
        async with Orchestrator(store, handle_signals=False) as orchestrator:
            orchestrator.start(Scripted(beside), name="beside")
            await trio.sleep(0.1)
            time.sleep(BLOCK_S)  # noqa: ASYNC251

    store = MemoryStore()

    trio.run(main, store)

    assert [name for name, _ in blocked(store)] == [""]
    assert "the program, in no harness, has blocked the loop" in capsys.readouterr().err


@pytest.mark.usefixtures("impatient")
def test_what_keeps_the_loop_busy_but_lets_others_run_is_not_named() -> None:
    async def busy(harness: Scripted) -> Steps:
        until = time.monotonic() + 1
        while time.monotonic() < until:
            sum(range(20_000))
            await trio.lowlevel.checkpoint()
        yield 1, None

    store = MemoryStore()

    trio.run(run, store, busy)

    assert blocked(store) == []


def test_a_virtual_clock_is_not_watched() -> None:
    found: list[bool] = []

    async def looking(harness: Scripted) -> Steps:
        found.append(any(one.name == "orchestrator-loop-watch" for one in threading.enumerate()))
        yield 1, None

    trio.run(run, MemoryStore(), looking)
    time.sleep(0.05)
    trio.run(run, MemoryStore(), looking, clock=MockClock(autojump_threshold=0))

    assert found == [True, False]


@pytest.mark.parametrize(
    ("seconds", "spent", "blocked_s", "held_s"),
    [
        pytest.param(0.12, Spent(), 0.12, 0.0, id="on time: all of it counts"),
        pytest.param(2.1, Spent(), 0.2, 0.0, id="suspended: next to nothing"),
        pytest.param(2.1, Spent(computed_s=2.1), 2.1, 2.0, id="computing with the lock held: all of it"),
        pytest.param(2.1, Spent(queued_s=2.1), 0.0, 0.0, id="the loop had no processor: nothing"),
        pytest.param(2.1, Spent(computed_s=2.1, own_s=2.0), 2.1, 0.0, id="the watch had no processor: nothing of a new task"),
    ],
)
def test_what_counts_of_the_time_between_two_looks(seconds: float, spent: Spent, blocked_s: float, held_s: float) -> None:
    assert blocked_between(seconds, Spent(), spent) == pytest.approx(blocked_s)
    assert held_between(seconds, Spent(), spent) == pytest.approx(held_s)


@pytest.fixture
def program(tmp_path: Path) -> Any:
    started: list[subprocess.Popen[str]] = []

    def start(mode: str) -> subprocess.Popen[str]:
        command = ["-m", "tests.orchestrator.blocking", mode, str(tmp_path / "run.db")]
        one = Program(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        started.append(one)
        return one

    yield start
    for one in started:
        one.kill()
        one.communicate()


def test_an_endless_loop_is_named_while_it_lasts(program: Any) -> None:
    one = program("endless")

    assert select.select([one.stderr], [], [], 20)[0]
    said = one.stderr.readline()

    assert said.startswith("harness 'eurusd' has blocked the loop for ")
    assert "blocking.py:" in said
    assert "in endless" in said
    assert one.poll() is None


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGSTOP")
def test_a_process_that_was_suspended_accuses_nobody(program: Any, tmp_path: Path) -> None:
    one = program("stopped")
    one.stdout.readline()

    os.kill(one.pid, signal.SIGSTOP)
    time.sleep(2)
    os.kill(one.pid, signal.SIGCONT)
    _, err = one.communicate(timeout=30)

    assert "blocked the loop" not in err
    with closing(SqliteStore(tmp_path / "run.db")) as store:
        assert blocked(store) == []
