"""A replay gives the records of a run in their order, in the time they took, and never runs ahead of who looks at it."""

from __future__ import annotations

import gzip
from contextlib import aclosing, closing
from datetime import UTC, datetime
from math import nan
from pathlib import Path
from typing import Any

import pytest
import trio

from harnesses import BaseHarness
from orchestrator import MemoryStore, Orchestrator, Record, SqliteStore, UnknownHarness, UsageError
from orchestrator.codec import decode
from orchestrator.history import past_reader, replay, replay_into
from orchestrator.store.conformance import TIME_US, claim
from orchestrator.store.store_protocol import StepRow


def stored(*seconds: float) -> MemoryStore:
    """Return a store with a step at each of these seconds, of two harnesses in turn."""
    store = MemoryStore()
    both = [claim(store, name) for name in ("one", "two")]
    for place, second in enumerate(seconds):
        claimed = both[place % 2]
        time_us = TIME_US + round(second * 1e6)
        store.commit([StepRow(claimed.harness, 1, 1, place // 2 + 1, time_us, '{"input":0,"output":0,"delta":{}}')])
    return store


async def timed(source: Any, **options: Any) -> list[tuple[int, float]]:
    """Return the `seq` of each record, and the seconds after which it came."""
    began = trio.current_time()
    return [(record.seq, round(trio.current_time() - began, 6)) async for record in replay(source, **options)]


async def test_the_time_between_two_records_is_what_it_was_by_the_speed(autojump_clock: object) -> None:
    store = stored(0, 1.5, 4, 4)

    assert await timed(store, speed=1) == [(1, 0), (2, 1.5), (3, 4), (4, 4)]
    assert await timed(store, speed=10) == [(1, 0), (2, 0.15), (3, 0.4), (4, 0.4)]
    assert await timed(store, speed=0.5) == [(1, 0), (2, 3), (3, 8), (4, 8)]


async def test_as_fast_as_it_is_taken_is_what_it_is_unless_told_otherwise(autojump_clock: object) -> None:
    assert await timed(stored(0, 86_400, 2 * 86_400)) == [(1, 0), (2, 0), (3, 0)]


async def test_a_gap_is_waited_for_no_longer_than_asked(autojump_clock: object) -> None:
    assert await timed(stored(0, 86_400, 86_403), speed=2, longest_gap_s=10) == [(1, 0), (2, 5), (3, 6.5)]


async def test_a_clock_that_was_set_back_is_not_waited_for(autojump_clock: object) -> None:
    assert await timed(stored(10, 4, 5), speed=1) == [(1, 0), (2, 0), (3, 1)]


async def test_what_was_late_is_made_up_for(autojump_clock: object) -> None:
    came: list[float] = []
    async for record in replay(stored(0, 1, 2, 3), speed=1):
        came.append(trio.current_time())
        await trio.sleep(2.5 if record.seq == 1 else 0)

    assert [round(time - came[0], 6) for time in came] == [0, 2.5, 2.5, 3]


@pytest.mark.parametrize(
    ("options", "seqs"),
    [
        ({"names": "two"}, [2, 4]),
        ({"names": ["one"]}, [1, 3]),
        ({"kinds": "started"}, []),
        ({"after": 2}, [3, 4]),
        ({"until": 2}, [1, 2]),
        ({"after": 1, "until": 3}, [2, 3]),
        ({"after": datetime.fromtimestamp(TIME_US / 1e6 + 1, UTC)}, [3, 4]),
        ({"until": datetime.fromtimestamp(TIME_US / 1e6 + 1, UTC)}, [1, 2]),
    ],
)
async def test_only_what_is_asked_for_comes(options: dict[str, Any], seqs: list[int]) -> None:
    assert [record.seq async for record in replay(stored(0, 1, 2, 3), **options)] == seqs


async def test_a_run_gives_the_same_from_its_store_and_from_its_log(tmp_path: Path) -> None:
    log, packed = tmp_path / "steps.jsonl", tmp_path / "steps.jsonl.gz"
    await logged(tmp_path / "run.db", log)
    packed.write_bytes(gzip.compress(log.read_bytes()))

    of_store = [told(record) async for record in replay(tmp_path / "run.db")]

    assert len(of_store) > 12
    assert [told(record) async for record in replay(log)] == of_store
    assert [told(record) async for record in replay(packed)] == of_store


async def test_a_torn_last_line_is_left_out(tmp_path: Path) -> None:
    log = tmp_path / "steps.jsonl"
    await logged(tmp_path / "run.db", log)
    whole = [told(record) async for record in replay(log)]

    log.write_bytes(log.read_bytes() + b'{"timestamp":"2026-')

    assert [told(record) async for record in replay(log)] == whole


@pytest.mark.parametrize("line", [b"{", b"[]", b'{"seq":1}', b'{"seq":"x"}', b"\xff"])
async def test_a_line_that_is_none_of_ours_is_named(line: bytes, tmp_path: Path) -> None:
    (tmp_path / "steps.jsonl").write_bytes(line + b"\n")

    with pytest.raises(UsageError, match=r"steps.jsonl, line 1: "):
        await timed(tmp_path / "steps.jsonl")


async def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        await timed(tmp_path / "steps.jsonl")


@pytest.mark.parametrize(
    "options", [{"speed": 0}, {"speed": -1}, {"speed": nan}, {"longest_gap_s": -1}, {"longest_gap_s": nan}]
)
async def test_what_can_not_be_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=r"replay: (speed|longest_gap_s): expected"):
        await timed(stored(0), **options)


async def test_a_name_that_the_store_does_not_know_is_told() -> None:
    with pytest.raises(UnknownHarness, match=r"no harness 'three'.*one, two"):
        await timed(stored(0), names=["one", "three"])


async def test_a_time_without_a_zone_is_refused() -> None:
    with pytest.raises(UsageError, match="expected an aware time"):
        await timed(stored(0), after=datetime(2026, 1, 1))


class Counted(MemoryStore):
    """Notes after which record a page was asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[int] = []

    def records(self, *, after: int = 0, limit: int = 1000) -> list[Record]:
        self.asked.append(after)
        return super().records(after=after, limit=limit)


async def test_no_more_than_a_page_is_read_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(past_reader, "PAGE", 4)
    store = Counted()
    claimed = claim(store, "one")
    store.commit([StepRow(claimed.harness, 1, 1, step, TIME_US, '{"input":0,"output":0,"delta":{}}') for step in range(1, 20)])
    asked: list[list[int]] = []

    async with aclosing(replay(store)) as records:
        async for record in records:
            asked.append(list(store.asked))
            if record.seq == 9:
                break

    assert asked[3] == [0]
    assert asked[8] == [0, 4, 8]


async def test_what_comes_after_it_has_begun_is_not_waited_for() -> None:
    store = stored(0, 1)
    seen: list[int] = []
    async for record in replay(store):
        seen.append(record.seq)
        if len(seen) == 1:
            store.commit([StepRow(1, 1, 1, 2, TIME_US, '{"input":0,"output":0,"delta":{}}')])

    assert seen == [1, 2]


async def test_a_channel_gets_them_all_and_is_closed_and_holds_the_replay_up() -> None:
    send, receive = trio.open_memory_channel[Record](0)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(lambda: replay_into(send, stored(0, 1, 2), kinds="step"))
        seqs = [record.seq async for record in receive]

    assert seqs == [1, 2, 3]


async def logged(store: Path, log: Path) -> None:
    async with Orchestrator(store, log=log, handle_signals=False) as orchestrator:
        for name in ("one", "two"):
            orchestrator.start(Hostile(5), name=name)


class Hostile(BaseHarness[dict[str, int], Any, Any]):
    """Has keys that are called as the fields of a line, and text that would end one."""

    def __init__(self, steps: int) -> None:
        super().__init__({"seq": 0})
        self.steps = steps

    async def execute(self) -> Any:
        while self.current_step < self.steps:
            self.update_state(lambda state: {"seq": state["seq"] + 1})
            yield {"seq": 1, "run": None}, "line\nline\u2028\x1b[31m\x00"


def told(record: Record) -> object:
    return (
        record.seq,
        record.harness,
        record.attempt,
        record.step,
        record.time_us,
        record.kind,
        decode(record.body),
        record.run,
    )


async def test_a_packed_log_that_is_torn_is_replayed_as_far_as_it_reaches(tmp_path: Path) -> None:
    log, packed = tmp_path / "steps.jsonl", tmp_path / "steps.jsonl.gz"
    await logged(tmp_path / "run.db", log)
    whole = [told(record) async for record in replay(log)]

    packed.write_bytes(gzip.compress(log.read_bytes())[:-4])

    assert [told(record) async for record in replay(packed)] == whole


async def test_a_store_that_this_process_writes_is_no_log_whatever_it_is_called(tmp_path: Path) -> None:
    link = tmp_path / "link.jsonl"
    link.symlink_to(tmp_path / "run.db")
    beside = tmp_path / "beside.jsonl"
    beside.symlink_to(tmp_path / "run.db-shm")

    with closing(SqliteStore(tmp_path / "run.db")) as store:
        claim(store, "one")
        assert [record.seq async for record in replay(link)] == [record.seq for record in store.records(limit=9)]
        with pytest.raises(UsageError, match="belongs to the store"):
            await anext(replay(beside))
