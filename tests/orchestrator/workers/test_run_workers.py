"""`run_workers`: several processes run the harnesses of one program on one store, and act as one."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from urllib.request import urlopen

import pytest
import trio

from orchestrator import Orchestrator, Outcome, OutcomeKind, UsageError, run_workers
from orchestrator.control.metrics_of_all import merged, serve_metrics
from orchestrator.control.run_services import Address
from orchestrator.errors import OrchestratorError
from orchestrator.restart import Backoff, Intensity
from orchestrator.workers.run_workers import workers_of
from orchestrator.workers.worker_channel import Ended, Share
from orchestrator.workers.worker_pool import WorkerPool
from tests.orchestrator.commanding import steps_of
from tests.orchestrator.scripted import Scripted, Steps
from tests.orchestrator.workers.worker_harnesses import LIMIT

START = "tests.orchestrator.workers.worker_harnesses:start"
NAMES = ("asking", "other", "first", "second")


async def test_budgets_and_messages_reach_across_processes(tmp_path: Path) -> None:
    store = tmp_path / "run.db"

    outcomes = await run_workers(START, NAMES, store=store, workers=2, control=False)

    kinds = {name: outcome.kind for name, outcome in outcomes.items()}
    spent, ended = OutcomeKind.BUDGET_SPENT, OutcomeKind.FINISHED
    assert kinds == {"asking": ended, "other": ended, "first": spent, "second": spent}
    assert sum(len(steps_of(store, name)) for name in ("first", "second")) == LIMIT
    assert [step.output for step in steps_of(store, "asking")][1] == 40
    processes = {step.output for name in ("first", "other", "second") for step in steps_of(store, name)}
    assert len(processes | {steps_of(store, "asking")[0].output}) == 2


async def test_a_worker_that_cannot_start_its_harnesses_is_told(tmp_path: Path) -> None:
    with pytest.raises(OrchestratorError, match="worker 1 ended with code 1 without a result: see what was said"):
        await run_workers(f"{START}_wrongly", ["first"], store=tmp_path / "run.db", workers=1)


async def test_a_worker_that_is_killed_before_it_begins_still_starts_what_ended_in_an_earlier_run(tmp_path: Path) -> None:
    store = tmp_path / "run.db"
    await run_workers(START, ["first"], store=store, workers=1, control=False)

    outcomes = await run_workers(f"{START}_after_a_kill", ["first"], store=store, workers=1, control=False)

    assert outcomes["first"].attempt == 2


@pytest.mark.parametrize(
    ("start", "workers", "message"),
    [
        ("start", 1, "start: expected module:function, got 'start'"),
        ("__main__:start", 1, "start: expected a function of a module that can be imported"),
        (START, 0, "workers: expected a number from 1 to 512, or auto, got 0"),
        (START, "many", "workers: expected a number from 1 to 512, or auto, got 'many'"),
    ],
)
async def test_wrong_arguments_are_refused_before_anything_is_started(
    tmp_path: Path, start: str, workers: int, message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        await run_workers(start, ["first"], store=tmp_path / "run.db", workers=workers)  # type: ignore[arg-type]
    assert not (tmp_path / "run.db").exists()


def test_auto_is_a_worker_for_each_core() -> None:
    assert workers_of("auto") >= 1
    assert workers_of("3") == 3


async def test_a_worker_that_is_killed_again_and_again_is_given_up() -> None:
    kill = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
    pool = WorkerPool(
        [Share(names=("a",))],
        lambda descriptor: [sys.executable, "-S", "-c", kill],
        intensity=Intensity(1, 60.0),
        backoff=Backoff(base_s=0.0),
    )
    await pool.run()
    assert (pool.codes, pool.reports) == ({0: 1}, {})


async def test_a_signal_reaches_a_worker_that_is_being_started() -> None:
    def command(descriptor: int) -> list[str]:
        pool.pass_on(signal.SIGTERM)
        return [sys.executable, "-S", "-c", "import time; time.sleep(1000)"]

    pool = WorkerPool([Share(names=("a",))], command)
    with trio.move_on_after(10):
        await pool.run()
    assert pool.codes == {0: -signal.SIGTERM}


async def test_workers_are_stopped_and_waited_for_when_the_program_is_cancelled(tmp_path: Path) -> None:
    wait = f"import pathlib, time; pathlib.Path({str(tmp_path / 'ready')!r}).touch(); time.sleep(1000)"
    pool = WorkerPool([Share(names=("a",))], lambda descriptor: [sys.executable, "-S", "-c", wait])
    async with trio.open_nursery() as nursery:
        nursery.start_soon(pool.run)
        while not await trio.Path(tmp_path / "ready").exists():  # noqa: ASYNC110
            await trio.sleep(0.01)
        (process,) = pool.processes.values()
        nursery.cancel_scope.cancel()
    assert not await trio.Path(f"/proc/{process}").exists()


def test_metrics_of_several_programs_are_one_text_that_tells_them_apart() -> None:
    def text(name: str, count: int) -> str:
        steps = f'# HELP steps_total Steps.\n# TYPE steps_total counter\nsteps_total{{harness="{name}"}} {count}\n'
        info = f'# HELP info The source.\n# TYPE info gauge\ninfo{{run="{name}"}} 1\n'
        return f"{steps}{info}# HELP up Up.\n# TYPE up gauge\nup 1\n"

    assert merged({"r2": text("b", 4), "r1": text("a", 3)}).splitlines() == [
        "# HELP steps_total Steps.",
        "# TYPE steps_total counter",
        'steps_total{run="r1",harness="a"} 3',
        'steps_total{run="r2",harness="b"} 4',
        "# HELP info The source.",
        "# TYPE info gauge",
        'info{run="a"} 1',
        'info{run="b"} 1',
        "# HELP up Up.",
        "# TYPE up gauge",
        'up{run="r1"} 1',
        'up{run="r2"} 1',
    ]


def test_an_outcome_is_the_same_after_its_way_through_the_socket() -> None:
    outcome = Outcome(OutcomeKind.STOPPED, "SIGTERM", 7, 2)
    assert Ended("a", outcome.kind.value, outcome.cause, outcome.step, outcome.attempt).outcome == outcome


async def test_the_metrics_of_all_programs_are_served_at_one_address(tmp_path: Path) -> None:
    store = tmp_path / "run.db"
    async with Orchestrator(store, control=True) as one, Orchestrator(store, control=True) as other:
        one.start(Scripted(forever), name="a")
        other.start(Scripted(forever), name="b")
        async with trio.open_nursery() as nursery:
            address = await nursery.start(serve_metrics, store, Address("127.0.0.1", 0))
            text = await trio.to_thread.run_sync(read, f"http://{address}/metrics")
            nursery.cancel_scope.cancel()
        one.stop()
        other.stop()
    runs = {line.partition('run="')[2].partition('"')[0] for line in text.splitlines() if "harness_step{" in line}
    assert len(runs) == 2
    assert all(f'harness="{name}"' in text for name in "ab")


async def forever(harness: Scripted) -> Steps:
    yield 1, None
    await trio.sleep_forever()


def read(url: str) -> str:
    with urlopen(url, timeout=30) as answer:
        return str(answer.read().decode())
