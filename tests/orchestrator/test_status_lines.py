"""The lines that a program keeps for `/status` are those that are made anew."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio
import trio.testing

from orchestrator import Backoff, Orchestrator
from orchestrator.kill_switch import KillSwitch
from orchestrator.runtime.activity import Doing, Facts, Live, activity, known_activity, limit_of
from orchestrator.status_lines import StatusBoard, json_status
from tests.orchestrator.scripted import Scripted, Steps

RECENT = (0.0, 30.0, 60.0)


@pytest.mark.parametrize("recent", [None, (), RECENT])
@pytest.mark.parametrize(
    "live", [Live(*one) for one in product(Doing, (1.0, 61.0, 301.0, 601.0), (None, 5.0, 400.0), ("", "drawdown"))]
)
def test_an_activity_that_is_known_without_the_table_is_that_of_the_table(
    live: Live, recent: tuple[float, ...] | None
) -> None:
    known = known_activity(live, None if recent is None else limit_of(None, recent))
    limits = [limit_of(live.timeout_s, times) for times in ((), RECENT, (1.0, 2.0, 3.0))]
    truths = {activity(Facts("running", live=live, limit_s=limit_s)) for limit_s in limits}

    assert known is None or known in truths
    if recent is None and known is not None:
        assert truths == {known}
    if recent is not None and not live.halted and live.doing is not Doing.APPROVAL:
        assert known == activity(Facts("running", live=live, limit_s=limit_of(live.timeout_s, recent)))


async def push() -> None:
    """Do what a person has to allow."""


async def ticking(harness: Scripted) -> Steps:
    while True:
        await harness.sleep(1)
        yield harness.current_step, None


async def asking(harness: Scripted) -> Steps:
    await harness.once("push", push, approval="publish")
    yield "pushed", None
    await harness.sleep(1e6)


async def blunt(harness: Scripted) -> Steps:
    yield 1, None
    raise ValueError("boom")


async def long(harness: Scripted) -> Steps:
    for _ in range(2):
        yield harness.current_step, None
    await trio.sleep_forever()


def told(orchestrator: Orchestrator, board: StatusBoard) -> dict[str, Any]:
    """Return what the board and the lines made anew both say."""
    lives = {one.name: (live, one.current_step) for one in orchestrator.handles if (live := one.live) is not None}
    kept = [msgspec.json.decode(line) for line in board.text(lives).splitlines()]
    anew = [msgspec.json.decode(line) for line in json_status(orchestrator.store, {name: lives[name][0] for name in lives})]
    for line in (*kept, *anew):
        if line["approval"] is not None:
            del line["approval"]["left_s"]
        if line["live"] is None:
            del line["step_age_s"]
    assert kept == anew
    return {line["harness"]: (line["activity"], line["current_step"], line["latched"]) for line in kept}


@pytest.mark.parametrize("is_in_file", [True, False])
async def test_lines_that_are_kept_are_those_made_anew(
    tmp_path: Path, autojump_clock: trio.testing.MockClock, is_in_file: bool
) -> None:
    path = tmp_path / "run.db"
    backoff, found = Backoff(base_s=1e4, cap_s=1e4), list[dict[str, Any]]()
    async with Orchestrator(path if is_in_file else None, handle_signals=False, backoff=backoff) as orchestrator:
        board = StatusBoard(orchestrator.store)
        scripts = {"ticking": ticking, "asking": asking, "denied": asking, "crashing": blunt, "long": long, "paused": ticking}
        handles = {name: orchestrator.start(Scripted(script), name=name) for name, script in scripts.items()}
        await trio.sleep(2.5)
        await handles["paused"].pause()
        found.append(told(orchestrator, board))
        ids = {one.harness: one.id for one in orchestrator.store.approvals()}
        await orchestrator.approve(ids["asking"], by="ann")
        await orchestrator.deny(ids["denied"], by="ann")
        for seconds in (2, 70, 600):
            await trio.sleep(seconds)
            found.append(told(orchestrator, board))
        await orchestrator.reopen(ids["denied"], by="ann")
        if is_in_file:
            KillSwitch(path).put_on("long")
        found.append(told(orchestrator, board))
        orchestrator.stop(grace=0)
    assert [one["asking"][0] for one in found] == ["waiting_for_approval", *["waiting"] * 4]
    assert [one["long"] for one in found[::2]] == [("working", 2, False), ("working", 2, False), ("hung", 2, is_in_file)]
    assert [one["denied"][0] for one in found] == ["waiting_for_approval", *["blocked"] * 4]
    assert {one["crashing"] for one in found} == {("backing_off", 1, False)}
    assert found[1]["ticking"][1] > found[0]["ticking"][1]
