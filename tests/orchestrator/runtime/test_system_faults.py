"""G4: what a harness has Trio itself run may end the program, but not without a name, and every harness goes on afterwards."""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest
import trio
from trio.lowlevel import current_trio_token, spawn_system_task

from orchestrator import Orchestrator, OutcomeKind, SqliteStore
from orchestrator.errors import SystemTaskFailed
from orchestrator.runtime.system_faults import system_fault
from tests.orchestrator.commanding import Command, harnesses
from tests.orchestrator.scripted import Scripted, Steps, numbers


def soon(function: Callable[..., object], *args: object) -> None:
    current_trio_token().run_sync_soon(function, *args)


def boom() -> None:
    raise ValueError("boom")


async def fail() -> None:
    raise ValueError("boom")


async def fail_with(harness: Scripted) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(fail)
        nursery.start_soon(trio.sleep_forever)


async def leave() -> None:
    raise SystemExit(0)


class Bad(Scripted):
    """Does what it is told between its first step and its second."""

    def __init__(self, act: Callable[[Bad], object]) -> None:
        super().__init__(self.act_between, until=3)
        self.act = act

    async def act_between(self, harness: Scripted) -> Steps:
        yield 1, 1
        self.act(self)
        yield 2, 2
        await harness.sleep(1000)

    def fall(self) -> None:
        raise ValueError("boom")


def in_a_thread(bad: Bad) -> None:
    thread = threading.Thread(target=current_trio_token().run_sync_soon, args=(bad.fall,))
    thread.start()
    thread.join()


def many(bad: Bad) -> None:
    for _ in range(1000):
        soon(boom)


def beside(function: Callable[..., object]) -> str:
    """Return what a function is called that is defined in a harness's file and leads to none."""
    place = f"({__file__}:{function.__code__.co_firstlineno})"
    return f"{function.__qualname__!r} {place} in the file of harness 'bad', 'good' raised"


def of_bad(function: Callable[..., object]) -> str:
    """Return what a function is called that leads to a harness."""
    return (
        f"{function.__qualname__!r} ({__file__}:{function.__code__.co_firstlineno}) of harness 'bad' raised ValueError: boom"
    )


FAULTS: dict[str, tuple[Callable[[Bad], object], str]] = {
    "function": (lambda bad: soon(boom), f"run_sync_soon callback {beside(boom)} ValueError: boom"),
    "method": (lambda bad: soon(bad.fall), f"run_sync_soon callback {of_bad(Bad.fall)}"),
    "lambda": (lambda bad: soon(lambda: bad.fall()), "of harness 'bad' raised ValueError: boom"),
    "partial": (lambda bad: soon(partial(bad.fall)), f"run_sync_soon callback {of_bad(Bad.fall)}"),
    "not python": (lambda bad: soon(int, "x"), "run_sync_soon callback <class 'int'> raised ValueError: invalid literal"),
    "thread": (in_a_thread, f"run_sync_soon callback {of_bad(Bad.fall)}"),
    "many": (many, f"run_sync_soon callback {beside(boom)} ValueError: boom"),
    "task": (lambda bad: spawn_system_task(fail), f"system task {beside(fail)} ValueError: boom"),
    "group": (lambda bad: spawn_system_task(fail_with, bad), f"system task {of_bad(fail_with)}"),
    "exit": (lambda bad: spawn_system_task(leave), f"system task {beside(leave)} SystemExit: 0"),
    "of trio": (lambda bad: spawn_system_task(trio.sleep, "x"), f"system task 'sleep' ({trio.sleep.__code__.co_filename}:"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_code_that_trio_runs_is_named_and_every_harness_can_be_resumed(name: str, tmp_path: Path) -> None:
    act, told = FAULTS[name]
    path, raised = tmp_path / "run.db", list[SystemTaskFailed]()

    async def run(act: Callable[[Bad], object]) -> list[OutcomeKind]:
        orchestrator = Orchestrator(path)
        try:
            async with orchestrator:
                handles = [orchestrator.start(Bad(act), name="bad"), orchestrator.start(Bad(lambda _: None), name="good")]
                await handles[0].wait()
                orchestrator.stop()
        except SystemTaskFailed as error:
            raised.append(error)
        assert all(raised[0].told == handle.outcome.cause for handle in handles if handle.outcome)
        return [handle.outcome.kind for handle in handles if handle.outcome]

    with pytest.raises(trio.TrioInternalError) as failed:
        trio.run(run, act)
    shown = "".join(traceback.format_exception(failed.value))
    kinds = trio.run(resume, path)

    assert told in raised[0].told
    assert raised[0].told in str(raised[0])
    assert str(raised[0]) in shown
    assert kinds == [OutcomeKind.COMPLETED] * 2
    with closing(SqliteStore(path)) as store:
        assert [numbers(store, harness) for harness in ("bad", "good")] == [[1, 2, 3], [1, 2, 3]]


def test_what_is_raised_while_trio_ends_is_named_as_well(tmp_path: Path) -> None:
    async def late(harness: Scripted) -> None:
        is_there.set()
        try:
            await trio.sleep_forever()
        finally:
            boom()

    async def run() -> None:
        async with Orchestrator(tmp_path / "run.db") as orchestrator:
            orchestrator.start(Bad(lambda bad: spawn_system_task(late, bad)), name="bad")
            await is_there.wait()
            orchestrator.stop()
        started.update(orchestrator.harnesses)

    is_there, started = trio.Event(), dict[str, object]()
    with pytest.raises(trio.TrioInternalError) as failed:
        trio.run(run)

    assert f"system task {of_bad(late)}" in str(system_fault([failed.value], started))


async def resume(path: Path) -> list[OutcomeKind]:
    """Run both to their end; nothing acts now."""

    async def three(harness: Scripted) -> Steps:
        while True:
            yield 0, 0

    async with Orchestrator(path) as orchestrator:
        handles = [orchestrator.start(Scripted(three, until=3), name=name) for name in ("bad", "good")]
    return [handle.outcome.kind for handle in handles if handle.outcome]


def test_a_cancellation_from_outside_is_still_called_that(tmp_path: Path) -> None:
    async def run() -> str:
        with trio.CancelScope() as scope:
            async with Orchestrator(tmp_path / "run.db") as orchestrator:
                handle = orchestrator.start(Bad(lambda _: scope.cancel()), name="bad")
        return handle.outcome.cause if handle.outcome else ""

    assert trio.run(run) == "cancelled"


SCRIPT = """
import os, trio
from trio.lowlevel import current_trio_token, wait_task_rescheduled
from tests.orchestrator.scripted import Scripted

class Lying(Exception):
    def __repr__(self):
        raise ZeroDivisionError("asked")

def boom(*_):
    raise ValueError("boom")

async def lie():
    raise Lying

async def bad(harness):
    yield 1, 1
    act = os.environ["ACT"]
    if act == "callback":
        current_trio_token().run_sync_soon(boom)
    elif act == "repr":
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lie)
    elif act == "abort":
        with trio.move_on_after(0.01):
            await wait_task_rescheduled(boom)
    await harness.sleep(1000)

async def good(harness):
    yield 1, 1
    await harness.sleep(1000)

async def supervise(orchestrator):
    for script in (bad, good):
        orchestrator.start(Scripted(script), name=script.__name__)
"""


@pytest.fixture
def command(tmp_path: Path) -> Iterator[Command]:
    with Command(tmp_path) as command:
        command.write("script.py", SCRIPT)
        yield command


@pytest.mark.parametrize(
    ("act", "told", "left"),
    [
        ("callback", "run_sync_soon callback 'boom' ({}:10) raised ValueError: boom", "stopped"),
        # Trio's loop is broken by these: what was running is cut off, as by `kill -9`.
        (
            "repr",
            "function 'Lying.__repr__' ({}:7) of harness 'bad', called by Trio's loop, raised ZeroDivisionError",
            "running",
        ),
        ("abort", "function 'boom' ({}:10) of harness 'bad', called by Trio's loop, raised ValueError: boom", "running"),
    ],
    ids=["callback", "repr", "abort"],
)
def test_the_command_names_it_and_everything_can_be_resumed(command: Command, act: str, told: str, left: str) -> None:
    store = command.folder / "run.db"

    failed = command("run", "script.py", ACT=act)
    found = {one.name: (one.status, one.current_step) for one in harnesses(store)}
    kinds = trio.run(resume, store)

    assert failed.code == 1
    assert f"orchestrator: {told.format(command.folder / 'script.py')}" in failed.err
    assert "TrioInternalError" not in failed.err
    assert found["good"] == (left, 1)
    assert found["bad"][0] == left
    assert kinds == [OutcomeKind.COMPLETED] * 2
