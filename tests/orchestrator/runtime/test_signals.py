"""G7: a first signal drains within a bound that is printed, a second one cancels at once, and all leave an outcome."""

from __future__ import annotations

import signal
import subprocess
import time
from pathlib import Path

import pytest

from orchestrator import SqliteStore
from orchestrator.codec import decode
from tests import ROOT
from tests.orchestrator.scripted import kinds, numbers
from tests.zygote import Program

PROGRAM = """
import sys, trio
from harnesses import BaseHarness
from orchestrator import Orchestrator

class Steady(BaseHarness[None, int, int]):
    async def execute(self):
        try:
            while True:
                yield self.current_step + 1, 0
                if self.current_step == 3:
                    print("ready", flush=True)
                    await trio.sleep(0.3)
                await self.sleep(0.01)
        finally:
            await trio.sleep(0.05)
            print("cleaned up", flush=True)

class Stuck(Steady):
    async def execute(self):
        try:
            yield 1, 1
            print("ready", flush=True)
            await trio.sleep_forever()
        finally:
            print("cancelled", flush=True)

class Held(Steady):
    pass

async def main(kind, path):
    async with Orchestrator(path, drain_s=30 if kind != "Short" else 0.2) as orchestrator:
        handle = orchestrator.start({"Steady": Steady, "Held": Held}.get(kind, Stuck)(None), name="a")
        if kind == "Held":
            await handle.pause()
            print("ready", flush=True)
        await trio.sleep_forever()
    print(handle.outcome.kind, orchestrator.signalled, flush=True)

trio.run(main, *sys.argv[1:])
"""


class Running:
    """A program with one harness, which has said that it is ready."""

    def __init__(self, kind: str, path: Path) -> None:
        self.path = path
        words = ["-c", PROGRAM, kind, str(path)]
        self.process = Program(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT)
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "ready\n"

    def end(self) -> tuple[list[str], str, float]:
        """Return what it printed, what it said, and how long it took to end."""
        begin = time.monotonic()
        out, err = self.process.communicate(timeout=20)
        return out.splitlines(), err, time.monotonic() - begin


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_first_signal_lets_the_step_and_the_clean_up_finish(number: signal.Signals, tmp_path: Path) -> None:
    program = Running("Steady", tmp_path / "run.db")

    program.process.send_signal(number)
    out, err, _ = program.end()

    assert out == ["cleaned up", f"stopped {int(number)}"]
    assert err == f"{number.name}: stopping within 30 s; a second signal cancels at once\n"
    assert program.process.returncode == 0


def test_what_a_signal_stopped_is_on_record_and_can_be_gone_on_with(tmp_path: Path) -> None:
    program = Running("Steady", tmp_path / "run.db")
    program.process.send_signal(signal.SIGTERM)
    program.end()

    store = SqliteStore(tmp_path / "run.db")
    steps = numbers(store, "a")
    [stopped] = [decode(record.body) for record in store.records(limit=1000) if record.kind == "stopped"]
    [harness] = store.harnesses()
    store.close()

    assert steps == list(range(1, len(steps) + 1))
    assert len(steps) >= 3
    assert (stopped["cause"], stopped["program_ended"]) == ("SIGTERM", True)
    assert not harness.owned


def test_a_second_signal_cancels_at_once(tmp_path: Path) -> None:
    program = Running("Stuck", tmp_path / "run.db")

    program.process.send_signal(signal.SIGTERM)
    assert program.process.stderr is not None
    assert "stopping within 30 s" in program.process.stderr.readline()
    program.process.send_signal(signal.SIGTERM)
    out, err, took_s = program.end()

    assert out == ["cancelled", f"stopped {int(signal.SIGTERM)}"]
    assert err == "SIGTERM again: cancelling\n"
    assert took_s < 5


def test_a_harness_that_does_not_stop_is_cancelled_when_the_bound_is_over(tmp_path: Path) -> None:
    program = Running("Short", tmp_path / "run.db")

    program.process.send_signal(signal.SIGTERM)
    out, err, took_s = program.end()

    assert out == ["cancelled", f"stopped {int(signal.SIGTERM)}"]
    assert "stopping within 0.2 s" in err
    assert took_s < 5


def test_a_signal_ends_a_held_harness_which_stays_held(tmp_path: Path) -> None:
    program = Running("Held", tmp_path / "run.db")

    program.process.send_signal(signal.SIGTERM)
    out, _, took_s = program.end()
    store = SqliteStore(tmp_path / "run.db")
    [stopped] = [decode(record.body) for record in store.records() if record.kind == "stopped"]

    assert out[-1] == f"stopped {int(signal.SIGTERM)}"
    assert took_s < 5
    assert stopped["paused"] is True
    assert kinds(store, "a")[-1] == "stopped"
    store.close()
