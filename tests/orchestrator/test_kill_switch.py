"""The kill switch: while it is on no effect begins, of any harness or of one, and what cannot be looked at is on."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from typing import Any

import pytest
from trio.testing import MockClock

from harnesses.errors import Latched
from orchestrator import MemoryStore, Orchestrator, OutcomeKind, SqliteStore
from orchestrator.errors import UsageError
from orchestrator.kill_switch import ALL, Latch, NoLatch
from tests.orchestrator.scripted import Scripted, Steps, kinds, to_the_end
from tests.zygote import run_python

LONG = "n" * 300


@pytest.fixture(params=[Latch, NoLatch])
def latch(request: pytest.FixtureRequest, tmp_path: Path) -> Latch:
    return NoLatch() if request.param is NoLatch else Latch(tmp_path / "run.db")


def is_on(latch: Latch, name: str = "eurusd") -> bool:
    try:
        latch.check(name)
    except Latched:
        return True
    return False


def test_it_is_off_until_it_is_put_on(latch: Latch) -> None:
    assert not is_on(latch)
    assert latch.which() == {}


@pytest.mark.parametrize("name", ["eurusd", "a.b-c_d", LONG])
def test_on_for_one_it_leaves_the_others_alone(latch: Latch, name: str) -> None:
    latch.put_on(name)

    assert is_on(latch, name)
    assert not any(is_on(latch, other) for other in ("other", name[:-1], f"{name}2", "@all"[1:]))


def test_on_for_all_it_is_on_for_each(latch: Latch) -> None:
    latch.put_on()

    assert all(is_on(latch, name) for name in ("eurusd", "other", LONG))


@pytest.mark.parametrize("name", [ALL, "eurusd", LONG])
def test_taken_off_it_is_off(latch: Latch, name: str) -> None:
    latch.put_on(name)
    latch.put_on(name)

    assert [latch.take_off(name), latch.take_off(name)] == [True, False]
    assert not is_on(latch, name)


def test_taking_it_off_for_all_leaves_it_on_for_one(latch: Latch) -> None:
    latch.put_on(ALL)
    latch.put_on("eurusd")

    latch.take_off()

    assert (is_on(latch, "eurusd"), is_on(latch, "other")) == (True, False)


@pytest.mark.parametrize("name", [ALL, "eurusd", LONG])
def test_it_is_known_who_put_it_on_and_why(latch: Latch, name: str) -> None:
    latch.put_on(name, by="anna", reason="flash crash")

    [(found, said)] = latch.which().items()
    assert (found, said["by"], said["reason"]) == (name, "anna", "flash crash")


# beside a store


def test_the_error_says_why_and_what_lifts_it(tmp_path: Path) -> None:
    latch = Latch(tmp_path / "run.db")
    latch.put_on("eurusd", reason="flash crash")

    with pytest.raises(
        Latched, match=r"on for 'eurusd' \(flash crash\); `orchestrator kill-switch off --harness eurusd` lifts it"
    ):
        latch.check("eurusd")


def test_it_is_a_file_beside_the_store_that_anyone_can_make_by_hand(tmp_path: Path) -> None:
    latch = Latch(tmp_path / "run.db")

    (tmp_path / "run.db-latch").mkdir()
    (tmp_path / "run.db-latch" / ALL).touch()

    assert is_on(latch)
    assert latch.which() == {ALL: {}}
    assert latch.take_off()
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("outside", ["../{}", "{}", "../run.db-latch/../{}"])
def test_no_file_outside_of_its_folder_is_made_or_removed(tmp_path: Path, outside: str) -> None:
    latch, precious = Latch(tmp_path / "run.db"), tmp_path / "precious"
    latch.put_on("one")
    precious.write_text("dear")
    name = outside.format(precious if outside == "{}" else precious.name)
    (latch.folder / "two").write_text(json.dumps({"name": name}))

    for turn in (latch.take_off, latch.put_on):
        with pytest.raises(UsageError, match="expected '@all' or the name of a harness"):
            turn(name)
    assert precious.read_text() == "dear"
    assert latch.which().keys() == {"one", "two"}


def test_a_folder_that_a_link_leads_to_is_left_alone(tmp_path: Path) -> None:
    latch, other = Latch(tmp_path / "run.db"), Latch(tmp_path / "other.db")
    other.put_on("one")
    latch.folder.symlink_to(other.folder)

    with pytest.raises(UsageError, match="cannot be taken off"):
        latch.take_off("one")
    assert is_on(other, "one")


def test_it_holds_over_the_life_of_a_program(tmp_path: Path) -> None:
    Latch(tmp_path / "run.db").put_on("eurusd")

    assert is_on(Latch(tmp_path / "run.db"))
    assert not is_on(Latch(tmp_path / "other.db"))


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b"\xff", b'{"reason":7}'])
def test_it_is_on_whatever_is_in_it(tmp_path: Path, content: bytes) -> None:
    latch = Latch(tmp_path / "run.db")
    latch.put_on()
    (latch.folder / ALL).write_bytes(content)

    assert is_on(latch)
    assert list(latch.which()) == [ALL]


def test_a_latch_that_is_a_folder_or_a_broken_link_counts(tmp_path: Path) -> None:
    latch = Latch(tmp_path / "run.db")
    (latch.folder / "eurusd").mkdir(parents=True)
    (latch.folder / "loop").symlink_to(latch.folder / "loop")

    assert [is_on(latch, name) for name in ("eurusd", "loop", "other")] == [True, True, False]


def test_what_can_not_be_looked_at_is_on(tmp_path: Path) -> None:
    latch = Latch(tmp_path / "run.db")
    latch.folder.write_text("in the way")
    loop = Latch(tmp_path / "loop.db")
    loop.folder.symlink_to(loop.folder)

    assert (is_on(latch), is_on(loop)) == (True, True)
    assert latch.which() == {}


def test_one_that_can_not_be_put_on_says_so(tmp_path: Path) -> None:
    latch = Latch(tmp_path / "run.db")
    latch.folder.write_text("in the way")

    with pytest.raises(UsageError, match=r"run\.db-latch/@all cannot be put on: "):
        latch.put_on()


def test_it_can_be_put_on_while_another_is_taken_off(tmp_path: Path) -> None:
    mine, others = Latch(tmp_path / "run.db"), Latch(tmp_path / "run.db")
    ended = threading.Event()

    def meddle() -> None:
        while not ended.is_set():
            others.put_on("other")
            others.take_off("other")

    meddler = threading.Thread(target=meddle)
    meddler.start()
    try:
        for _ in range(200):
            mine.put_on()
            assert is_on(mine)
            mine.take_off()
    finally:
        ended.set()
        meddler.join()


# in an orchestrator


async def buy(harness: Scripted) -> Steps:
    """Do an effect in each step."""
    while True:
        await harness.once("buy", harness.ran.append, f"step {harness.current_step + 1}")
        yield None, None
        await harness.sleep(1)


@pytest.mark.parametrize("kind", [MemoryStore, SqliteStore])
async def test_a_harness_is_blocked_at_its_next_effect_and_goes_on_when_it_is_lifted(
    kind: Any, tmp_path: Path, autojump_clock: MockClock
) -> None:
    store = MemoryStore() if kind is MemoryStore else SqliteStore(tmp_path / "run.db")
    async with to_the_end(store) as (orchestrator, errors):
        harness, sibling = Scripted(buy, until=4), Scripted(buy, until=6)
        handle, other = orchestrator.start(harness, name="a"), orchestrator.start(sibling, name="b")
        await harness_at(orchestrator, 2)
        orchestrator.latch.put_on("a")
        first = await handle.wait()
        orchestrator.latch.take_off("a")
        again = Scripted(buy, until=4)
        second = await orchestrator.start(again, name="a").wait()
        last = await other.wait()
    store.close()

    assert (first.kind, second.kind, last.kind) == (OutcomeKind.BLOCKED, OutcomeKind.COMPLETED, OutcomeKind.COMPLETED)
    assert "the kill switch is on for 'a'" in first.cause
    assert (harness.ran, again.ran) == (["step 1", "step 2"], ["step 3", "step 4"])
    assert errors == []


async def harness_at(orchestrator: Orchestrator, step: int) -> None:
    """Return when the first harness has made so many steps."""
    async for record in orchestrator.handles[0].steps():
        if record.step_number == step:
            return


async def test_under_the_latch_not_even_an_intent_is_recorded(autojump_clock: MockClock) -> None:
    store = MemoryStore()
    async with to_the_end(store) as (orchestrator, _):
        orchestrator.latch.put_on()
        orchestrator.start(Scripted(buy), name="a")

    assert kinds(store, "a") == ["started", "blocked"]


async def test_it_is_put_on_from_outside_although_the_programs_loop_is_wedged(tmp_path: Path) -> None:
    put_on = f"from orchestrator.kill_switch import Latch; Latch({str(tmp_path / 'run.db')!r}).put_on()"

    async def wedged(harness: Scripted) -> Steps:
        await harness.once("before", harness.ran.append, "before")
        run_python("-c", put_on, check=True)
        await harness.once("after", harness.ran.append, "after")
        yield None, None

    harness = Scripted(wedged)
    async with to_the_end(tmp_path / "run.db") as (orchestrator, _):  # type: ignore[arg-type]
        handle = orchestrator.start(harness, name="a")

    assert harness.ran == ["before"]
    assert (await handle.wait()).kind is OutcomeKind.BLOCKED


def test_the_latch_holds_by_whatever_link_the_store_is_reached(tmp_path: Path) -> None:
    (tmp_path / "real.db").touch()
    (tmp_path / "link.db").symlink_to(tmp_path / "real.db")

    Latch(tmp_path / "link.db").put_on()

    with pytest.raises(Latched, match="is on for all"):
        Latch(tmp_path / "real.db").check("any")
