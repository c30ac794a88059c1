"""Stored steps are judged by a judge of today, beside the verdict of then, and nothing is run for it."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import trio

from orchestrator import MemoryStore, Orchestrator, UnknownHarness, UsageError
from orchestrator.history import Judge, Look, Rejudged, rejudge, state_at
from tests.orchestrator.buying import Account, Buying, run
from tests.orchestrator.scripted import Scripted


async def rejudged(source: Any, judge: Any, name: str = "buying", **options: Any) -> list[Rejudged]:
    return [found async for found in rejudge(source, name, judge, **options)]


def connect() -> None:
    with socket.socket() as one:
        one.connect(("127.0.0.1", 9))


async def bought(steps: int = 5) -> MemoryStore:
    store = MemoryStore()
    await run(store, steps)
    return store


async def test_a_judge_sees_each_step_with_the_state_before_and_after(tmp_path: Path) -> None:
    await run(tmp_path / "run.db", 4)
    seen: list[Look] = []

    await rejudged(tmp_path / "run.db", seen.append)

    assert [look.record.input for look in seen] == [1, 2, 3, 4]
    assert [look.before for look in seen] == [state_at(tmp_path / "run.db", "buying", step) for step in range(4)]
    assert [look.after for look in seen] == [state_at(tmp_path / "run.db", "buying", step) for step in range(1, 5)]


async def test_states_are_typed_where_the_harness_is_given() -> None:
    seen: list[Look] = []

    await rejudged(await bought(2), seen.append, like=Buying)

    assert [look.after for look in seen] == [Account(99, (1,)), Account(97, (1, 2))]


@pytest.mark.parametrize(
    ("after", "until", "steps"), [(0, None, [1, 2, 3, 4, 5]), (3, None, [4, 5]), (1, 3, [2, 3]), (5, None, [])]
)
async def test_only_the_steps_asked_for_are_judged(after: int, until: int | None, steps: list[int]) -> None:
    found = await rejudged(await bought(), lambda look: look.before["cash"], after=after, until=until)

    assert [one.step for one in found] == steps
    assert [one.today for one in found] == [100 - sum(range(step)) for step in steps]


async def test_it_says_where_the_verdict_of_today_differs() -> None:
    judge = Judge("cheap", lambda look: look.after["cash"] > 94, lambda look: True if look.record.step_number > 1 else None)

    found = await rejudged(await bought(4), judge)

    assert [(one.stored, one.today, one.differs) for one in found] == [
        (None, True, False),
        (True, True, False),
        (True, False, True),
        (True, False, True),
    ]


async def test_a_judge_may_be_asynchronous_and_have_no_verdict(autojump_clock: object) -> None:
    async def judge(look: Look) -> object:
        await trio.sleep(60)
        return None if look.record.step_number == 1 else "fine"

    assert [one.today for one in await rejudged(await bought(2), judge)] == [None, "fine"]


async def test_what_a_judge_raises_is_told_of_that_step_only() -> None:
    found = await rejudged(await bought(3), lambda look: 6 // (look.record.step_number - 2))

    assert [(one.today, one.problem) for one in found] == [
        (-6, ""),
        (None, "ZeroDivisionError: integer division or modulo by zero"),
        (6, ""),
    ]


async def test_a_judge_that_changes_what_it_is_shown_changes_no_later_step() -> None:
    def judge(look: Look) -> object:
        found = deepcopy(look.after)
        look.after["cash"] = 0
        look.after["fills"].append("x")
        return found

    found = await rejudged(await bought(2), judge)

    assert [one.today for one in found] == [{"cash": 99, "fills": [1]}, {"cash": 97, "fills": [1, 2]}]


@pytest.mark.parametrize(
    "act",
    [
        lambda: subprocess.run(["true"], check=True),
        lambda: os.system("true"),
        lambda: os.posix_spawn("/bin/true", ["true"], {}),
        lambda: os.waitpid(os.fork(), 0),
        lambda: connect(),
    ],
)
@pytest.mark.parametrize("hides", [False, True])
async def test_a_judge_that_would_run_something_is_refused(act: Callable[[], Any], hides: bool) -> None:
    def judge(look: Look) -> object:
        try:
            return act()
        except UsageError:
            if hides:
                return "fine"
            raise

    with pytest.raises(UsageError, match="tried to run something"):
        await rejudged(await bought(1), judge)


async def test_a_program_started_by_way_of_trio_or_of_a_thread_is_refused_too() -> None:
    async def by_trio(look: Look) -> object:
        return await trio.run_process(["true"])

    async def by_thread(look: Look) -> object:
        return await trio.to_thread.run_sync(lambda: subprocess.run(["true"], check=True))

    for judge in (by_trio, by_thread):
        with pytest.raises(UsageError, match="tried to run something"):
            await rejudged(await bought(1), judge)


async def test_others_run_what_they_like_meanwhile_and_afterwards() -> None:
    done: list[int] = []
    began, ended = trio.Event(), trio.Event()

    async def judge(look: Look) -> object:
        began.set()
        await ended.wait()
        return True

    async def other() -> None:
        await began.wait()
        done.append(await succeeded())
        ended.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(other)
        await rejudged(await bought(1), judge)
    async for _ in rejudge(await bought(2), "buying", judge):
        done.append(await succeeded())

    assert done == [0, 0, 0]


async def succeeded() -> int:
    return (await trio.run_process(["true"])).returncode


async def test_what_was_recorded_for_a_step_is_shown_with_it() -> None:
    store, seen = MemoryStore(), list[Look]()

    async def script(harness: Scripted) -> Any:
        for step in (1, 2):
            await harness.once(f"act-{step}", _act)
            harness.attach("evidence", {"of": step})
            harness.log("a line")
            yield step, None

    async with Orchestrator(store, handle_signals=False) as orchestrator:
        for name in ("one", "other"):
            orchestrator.start(Scripted(script), name=name)
    await rejudged(store, seen.append, "one")

    assert [[(record.kind, record.step) for record in look.beside] for look in seen] == [
        [("intent", step), ("outcome", step), ("evidence", step)] for step in (1, 2)
    ]


async def _act() -> None:
    await trio.lowlevel.checkpoint()


@pytest.mark.parametrize(
    ("options", "error"), [({"after": 6}, UsageError), ({"until": 9}, UsageError), ({"name": "x"}, UnknownHarness)]
)
async def test_what_is_not_there_can_not_be_judged(options: dict[str, Any], error: Any) -> None:
    with pytest.raises(error):
        await rejudged(await bought(), lambda _: None, **options)
