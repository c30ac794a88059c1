"""What the store says counts, what was given wrong is told at once, and what comes back is what went in."""

from __future__ import annotations

import fcntl
from collections.abc import AsyncIterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import trio
from attrs import frozen
from trio.testing import MockClock

from harnesses import BaseHarness, Unstorable
from orchestrator import MemoryStore, Orchestrator, OutcomeKind, StoreBusy, UsageError
from orchestrator.codec import decode, encode
from orchestrator.store.file.run_lock import RunLock, is_alive
from orchestrator.store.store_protocol import Claim
from tests.orchestrator.scripted import Scripted, Steps, events, three


@frozen
class Buy:
    amount: int


@frozen
class Sell:
    amount: int


@frozen
class Desk:
    order: Buy | Sell | None = None


class Trading(BaseHarness[Desk, int, int]):
    async def execute(self) -> AsyncIterator[tuple[int, int]]:
        yield 1, 1


class Purse(BaseHarness[dict[str, Any], int, int]):
    async def execute(self) -> AsyncIterator[tuple[int, int]]:
        self.update_state(lambda purse: {**purse, "cash": purse["cash"] + 1})
        yield 1, 1


async def test_the_stored_state_counts_although_its_program_died_before_its_first_attempt(autojump_clock: MockClock) -> None:
    store = MemoryStore()
    store.commit([], [Claim("purse", encode({"cash": "7"}))])
    store.close()

    async with Orchestrator(store, handle_signals=False) as orchestrator:
        orchestrator.start(Purse({"cash": Decimal(100)}), name="purse")

    assert decode(store.state_at("purse", 1)) == {"cash": "8"}


async def test_values_of_a_dict_of_anything_come_back_as_they_were(tmp_path: Path) -> None:
    for _ in range(2):
        purse = Purse({"cash": Decimal(1)})
        async with Orchestrator(tmp_path / "run.db", handle_signals=False) as orchestrator:
            orchestrator.start(purse, name="purse")

    assert purse.state == {"cash": Decimal(3)}


async def test_a_state_that_could_not_be_read_back_is_refused_at_the_start(autojump_clock: MockClock) -> None:
    async with Orchestrator(handle_signals=False) as orchestrator:
        with pytest.raises(Unstorable, match="harness 'desk': its initial state can be stored, but not read back"):
            orchestrator.start(Trading(Desk()), name="desk")


@pytest.mark.parametrize("name", ["grace_s", "step_timeout_s", "deadline_s"])
@pytest.mark.parametrize("value", [-1, float("nan"), float("inf"), "3", True])
async def test_a_time_that_is_none_is_refused_and_hurts_nobody(name: str, value: Any, autojump_clock: MockClock) -> None:
    async with Orchestrator(handle_signals=False) as orchestrator:
        sibling = orchestrator.start(Scripted(three), name="sibling")
        with pytest.raises(UsageError, match=f"{name}: expected a number of seconds from 0 up"):
            orchestrator.start(Scripted(three), name="bad", **{name: value})

        assert (await sibling.wait()).kind is OutcomeKind.FINISHED


async def test_what_is_no_store_is_refused(autojump_clock: MockClock) -> None:
    with pytest.raises(UsageError, match="store: expected a path, a Store or nothing, was 3"):
        async with Orchestrator(3):  # type: ignore[arg-type]
            pass


async def test_an_error_of_some_other_store_is_a_crash_like_any_other(autojump_clock: MockClock) -> None:
    async def busy(harness: Scripted) -> Steps:
        yield 1, 1
        raise StoreBusy("another one")

    store = MemoryStore()
    with pytest.raises(ExceptionGroup, match="1 of 1 harnesses failed"):
        async with Orchestrator(store, handle_signals=False) as orchestrator:
            orchestrator.start(Scripted(busy), name="a", restart="temporary")

    assert events(store, "a") == ["started", "failed"]


def test_two_who_look_at_a_dead_run_do_not_take_each_other_for_its_owner(tmp_path: Path) -> None:
    store = tmp_path / "run.db"
    lock = store.with_name("run.db.run-dead")

    with lock.open("w") as other:
        fcntl.flock(other, fcntl.LOCK_SH)
        alive = is_alive(store, "dead")

    assert not alive


def test_a_run_that_holds_its_lock_is_alive(tmp_path: Path) -> None:
    store = tmp_path / "run.db"
    lock = RunLock(store)

    assert is_alive(store, lock.run)

    lock.release()


async def test_a_message_taken_while_a_step_is_recorded_is_for_the_next_step(autojump_clock: MockClock) -> None:
    seen: list[Any] = []

    async def listen(harness: Scripted) -> None:
        while True:
            seen.append(await harness.receive())

    async def script(harness: Scripted) -> Steps:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(listen, harness)
            await trio.sleep(1)
            yield 1, 1
            await trio.sleep(1)
            yield 2, 2
            nursery.cancel_scope.cancel()

    store = MemoryStore()
    async with Orchestrator(store, handle_signals=False) as orchestrator:
        handle = orchestrator.start(Scripted(script), name="a")
        await handle.send("first")
        await trio.sleep(1.5)
        await handle.send("second")

    assert seen == ["first", "second"]
    assert store.mailbox("a") == []
