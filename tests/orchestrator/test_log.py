"""G9: the log has a line for every record and for records only, whatever happened to it or to the program."""

from __future__ import annotations

import json
import os
import pty
import signal
import threading
from collections.abc import Callable, MutableMapping
from contextlib import ExitStack, closing
from io import FileIO, StringIO
from pathlib import Path
from typing import Any

import pytest
import structlog
import trio
from attrs import evolve
from trio.testing import MockClock

from harnesses.diagnostics.program_log import get_logger
from orchestrator import MemoryStore, Orchestrator, OutcomeKind, SqliteStore, Status, Store, UsageError
from orchestrator.codec import encode
from orchestrator.log import HEADER, LogFollower, json_line_of, line, line_writer, record_of
from orchestrator.log_file import Stream
from orchestrator.records import Record
from tests.orchestrator.scripted import STEADY, Scripted, Steps, crash, poll, three, to_the_end

FIRST_FIELDS = ["timestamp", "level", "event", "run", "harness", "attempt", "step", "seq"]
HOSTILE = "\x1b[2J\x1b]0;owned\x07\u202etxt.exe\u2066\x9b31m\r\nline two\x00\x7f"


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def seqs(store: Store) -> list[int]:
    return [record.seq for record in store.records(limit=1_000_000)]


async def record_some(store: Store, log: Path | StringIO | None, name: str = "a", script: Any = three) -> None:
    """Run a harness to its end."""
    async with Orchestrator(store, log=log, handle_signals=False) as orchestrator:
        orchestrator.start(Scripted(script), name=name)
    store.close()


async def test_every_record_has_a_line_with_the_same_seq(tmp_path: Path, autojump_clock: MockClock) -> None:
    store, log = MemoryStore(), tmp_path / "log.jsonl"
    async with to_the_end(store, log=log, intensity=2) as (orchestrator, _):
        orchestrator.start(Scripted(crash), name="a").send({"hello": "world"})
        orchestrator.start(Scripted(three), name="b")

    by_seq = {line["seq"]: line for line in lines(log)}
    assert [line["seq"] for line in lines(log)] == seqs(store)
    for record in store.records():
        line = by_seq[record.seq]
        assert (line["harness"], line["attempt"], line["step"]) == (record.harness, record.attempt, record.step)
        assert (line["event"], line["run"]) == (f"harness.{record.kind}", record.run)


async def test_the_fields_of_a_line_come_in_one_order(tmp_path: Path, autojump_clock: MockClock) -> None:
    log = tmp_path / "log.jsonl"

    await record_some(MemoryStore(), log)

    assert all(list(line)[:8] == FIRST_FIELDS for line in lines(log))
    step = lines(log)[1]
    assert step["event"] == "harness.step"
    assert step["timestamp"].endswith("Z")
    assert len(step["timestamp"]) == len("2026-01-01T00:00:00.000000Z")
    assert step["input"] == 1


async def test_failures_are_errors_and_restarts_are_warnings(tmp_path: Path, autojump_clock: MockClock) -> None:
    log = tmp_path / "log.jsonl"
    async with to_the_end(MemoryStore(), log=log, intensity=1) as (orchestrator, _):
        orchestrator.start(Scripted(crash), name="a")

    levels = {line["event"]: line["level"] for line in lines(log)}
    assert levels == {
        "harness.started": "info",
        "harness.step": "info",
        "harness.failed": "error",
        "harness.restarting": "warning",
        "harness.gave_up": "error",
    }


async def test_a_later_program_goes_on_in_the_same_file(tmp_path: Path, autojump_clock: MockClock) -> None:
    store, log = MemoryStore(), tmp_path / "log.jsonl"

    for name in "abc":
        await record_some(store, log, name)

    assert [line["seq"] for line in lines(log)] == seqs(store)


@pytest.mark.parametrize("kept_bytes", [1, 40, -1])
async def test_a_torn_last_line_is_written_anew(kept_bytes: int, tmp_path: Path, autojump_clock: MockClock) -> None:
    store, log = MemoryStore(), tmp_path / "log.jsonl"
    await record_some(store, log)
    *whole, last = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join(whole) + last[:kept_bytes])

    await record_some(store, log, "b")

    assert [line["seq"] for line in lines(log)] == seqs(store)


@pytest.mark.parametrize("kept", [0, 1, 3])
async def test_lines_that_a_kill_kept_out_are_written_at_the_next_start(
    kept: int, tmp_path: Path, autojump_clock: MockClock
) -> None:
    store, log = MemoryStore(), tmp_path / "log.jsonl"
    await record_some(store, log)
    log.write_bytes(b"".join(log.read_bytes().splitlines(keepends=True)[:kept]))

    await record_some(store, log, "b")

    assert [line["seq"] for line in lines(log)] == seqs(store)


async def test_a_last_line_of_megabytes_is_found(tmp_path: Path, autojump_clock: MockClock) -> None:
    async def large(harness: Scripted) -> Steps:
        yield "x" * (2 << 20), None

    store, log = MemoryStore(), tmp_path / "log.jsonl"
    await record_some(store, log, script=large)
    log.write_bytes(b"".join(log.read_bytes().splitlines(keepends=True)[:2]))

    await record_some(store, log, "b")

    assert [line["seq"] for line in lines(log)] == seqs(store)


@pytest.mark.parametrize("foreign", ["", "not a log\n", "[]\n", '{"seq": 3}\n', '{"seq": "x", "timestamp": ""}\n', "\n\n"])
async def test_a_file_that_is_not_the_log_of_this_store_is_kept_and_added_to(
    foreign: str, tmp_path: Path, autojump_clock: MockClock
) -> None:
    store, log = MemoryStore(), tmp_path / "log.jsonl"
    log.write_text(foreign)

    await record_some(store, log)

    text = log.read_text()
    assert text.startswith(foreign)
    assert [json.loads(line)["seq"] for line in text[len(foreign) :].splitlines()] == seqs(store)


async def test_the_log_of_another_store_is_added_to_from_the_first_record(tmp_path: Path, autojump_clock: MockClock) -> None:
    log, other = tmp_path / "log.jsonl", MemoryStore()
    await record_some(other, log)
    store = MemoryStore()

    await record_some(store, log, "b")

    assert [line["seq"] for line in lines(log)] == seqs(other) + seqs(store)


async def test_a_log_beside_a_real_file_is_whole_too(tmp_path: Path) -> None:
    async def quick(harness: Scripted) -> Steps:
        while harness.current_step < 500:
            yield harness.current_step + 1, None

    path, log = tmp_path / "run.db", tmp_path / "log.jsonl"
    await record_some(SqliteStore(path), log, script=quick)
    store = SqliteStore(path)

    assert [line["seq"] for line in lines(log)] == seqs(store)
    store.close()


async def test_an_open_stream_gets_what_happens_from_now_on(autojump_clock: MockClock) -> None:
    store, stream = MemoryStore(), StringIO()
    await record_some(store, None)
    before = len(seqs(store))

    await record_some(store, stream, "b")

    assert [json.loads(line)["seq"] for line in stream.getvalue().splitlines()] == seqs(store)[before:]
    assert not stream.closed


# what is no file


@pytest.mark.parametrize("folder", ["/dev/fd", "/proc/self/fd"])
@pytest.mark.parametrize("is_file", [False, True])
async def test_a_descriptor_that_is_open_gets_what_happens_from_now_on(
    folder: str, is_file: bool, tmp_path: Path, autojump_clock: MockClock
) -> None:
    store, kept = MemoryStore(), tmp_path / "kept"
    await record_some(store, None)
    before = len(seqs(store))
    given, taken = (os.open(kept, os.O_RDWR | os.O_CREAT),) * 2 if is_file else os.pipe()[::-1]
    os.write(given, b"title\n")

    await record_some(store, Path(f"{folder}/{given}"), "b")

    os.fstat(given)
    said = kept.read_text() if is_file else os.read(taken, 1_000_000).decode()
    for descriptor in {given, taken}:
        os.close(descriptor)
    title, *told = said.splitlines()
    assert title == "title"
    assert [json.loads(line)["seq"] for line in told] == seqs(store)[before:]


async def test_a_pipe_with_a_name_gets_what_happens_from_now_on(tmp_path: Path, autojump_clock: MockClock) -> None:
    store, pipe = MemoryStore(), tmp_path / "pipe"
    os.mkfifo(pipe)
    taken = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)

    await record_some(store, pipe)

    said = os.read(taken, 1_000_000).decode()
    os.close(taken)
    assert [json.loads(line)["seq"] for line in said.splitlines()] == seqs(store)


async def test_a_pipe_that_nobody_reads_is_an_error_before_anything_is_started(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")

    with pytest.raises(UsageError, match="nobody reads it"):
        async with Orchestrator(log=tmp_path / "pipe", handle_signals=False):
            pytest.fail("the block was entered")


async def test_a_reader_of_a_pipe_that_stands_still_does_not_hurt_the_run(
    tmp_path: Path, autojump_clock: MockClock, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orchestrator.orchestrator._LOG_S", 0.1)
    taken, given = os.pipe()

    async def talk(harness: Scripted) -> Steps:
        while harness.current_step < 20:
            yield "x" * 20_000, None

    async with Orchestrator(log=Path(f"/dev/fd/{given}"), handle_signals=False) as orchestrator:
        handle = orchestrator.start(Scripted(talk), name="a")

    assert handle.current_step == 20
    assert "nobody reads it" in capfd.readouterr().err
    os.close(taken)
    os.close(given)


def test_a_descriptor_is_closed_when_the_last_write_to_it_is_done(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    stream = Stream(writer)
    thread = threading.Thread(target=stream.write, args=("x" * 1_000_000,))
    thread.start()
    left = 1_000_000 - len(os.read(reader, 1))

    stream.close()
    other = os.open(tmp_path / "other", os.O_RDWR | os.O_CREAT)

    assert other != writer
    while left:
        left -= len(os.read(reader, left))
    thread.join()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(writer)
    with pytest.raises(ValueError, match="closed"):
        stream.write("x")
    os.close(other)
    os.close(reader)


async def test_a_device_is_written_to(autojump_clock: MockClock) -> None:
    await record_some(MemoryStore(), Path("/dev/null"))


# a log that fails


def _full() -> Any:
    return Path("/dev/full").open("w", encoding="utf-8", buffering=1)


def _closed() -> Any:
    stream = StringIO()
    stream.close()
    return _NeverClosedYet(stream)


class _NeverClosedYet:
    """A stream that breaks at its first line."""

    def __init__(self, stream: StringIO) -> None:
        self.stream = stream

    def isatty(self) -> bool:
        return False

    def write(self, text: str) -> int:
        return self.stream.write(text)

    def flush(self) -> None:
        self.stream.flush()


@pytest.mark.parametrize("broken", [_full, _closed])
async def test_a_log_that_fails_does_not_hurt_the_run(
    broken: Callable[[], Any], autojump_clock: MockClock, capfd: pytest.CaptureFixture[str]
) -> None:
    stream = broken()
    async with Orchestrator(log=stream, handle_signals=False, backoff=STEADY) as orchestrator:
        handle = orchestrator.start(Scripted(poll, until=5), name="a")

    assert handle.status is Status.COMPLETED
    assert "log: writing failed" in capfd.readouterr().err
    if broken is _full:
        with pytest.raises(OSError, match="No space left"):
            stream.close()


@pytest.mark.parametrize("path", ["missing/log.jsonl", "."])
async def test_a_log_that_can_not_be_opened_is_an_error_before_anything_is_started(path: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be written"):
        async with Orchestrator(log=tmp_path / path, handle_signals=False):
            pytest.fail("the block was entered")


# for people, and against hostile agents


async def hostile(harness: Scripted) -> Steps:
    yield HOSTILE, {HOSTILE: HOSTILE}
    raise ValueError(HOSTILE)


async def test_hostile_text_is_inert_in_the_file_and_means_the_same(tmp_path: Path, autojump_clock: MockClock) -> None:
    log = tmp_path / "log.jsonl"
    async with to_the_end(MemoryStore(), log=log) as (orchestrator, _):
        orchestrator.start(Scripted(hostile), name="a", restart="temporary")

    text = log.read_text(encoding="utf-8")
    assert not set(text) & set("\x1b\x07\u202e\u2066\x9b\r\x00\x7f")
    assert lines(log)[1]["input"] == HOSTILE
    assert len(lines(log)) == 3


def _read_terminal(screen: FileIO) -> bytes:
    """What the terminal shows next; empty at its end, which Linux reports as an error once nobody writes to it."""
    try:
        return screen.read(1 << 16)
    except OSError:
        return b""


async def test_a_terminal_gets_a_short_inert_line_for_each_record(autojump_clock: MockClock) -> None:
    leader, follower = pty.openpty()
    with os.fdopen(follower, "w", encoding="utf-8") as terminal:
        async with to_the_end(MemoryStore(), log=terminal) as (orchestrator, _):
            handle = orchestrator.start(Scripted(hostile), name="a", restart="temporary")
    with FileIO(leader) as screen:
        shown = b"".join(iter(lambda: _read_terminal(screen), b"")).decode()

    rows = shown.splitlines()
    assert handle.outcome is not None
    assert handle.outcome.kind is OutcomeKind.FAILED
    assert [row.split()[2] for row in rows] == ["harness.started", "harness.step", "harness.failed"]
    assert not set(shown) & set("\x1b\x07\u202e\u2066\x9b\x00\x7f")
    assert all(len(row) < 300 for row in rows)


@pytest.mark.parametrize("name", [*HEADER, "level_", "seq__", "task"])
def test_a_line_is_read_back_into_its_record_whatever_its_fields_are_called(name: str) -> None:
    body = json.dumps({name: "own", "other": 1}, separators=(",", ":"))
    record = Record(7, "h", 2, 3, 1_700_000_000_123_456, "evidence", body, "run")

    assert record_of(line(record)) == record


async def test_the_end_of_a_log_needs_none_of_the_threads_that_harnesses_have_taken() -> None:
    taken = trio.to_thread.current_default_thread_limiter()
    for _ in range(int(taken.total_tokens)):
        taken.acquire_on_behalf_of_nowait(object())

    with trio.move_on_after(20) as waited:
        await LogFollower(MemoryStore(), StringIO()).finish(0)

    assert not waited.cancelled_caught


@pytest.mark.parametrize("end", ["", "-wal", "-shm", "-head"])
@pytest.mark.parametrize("by", ["name", "link", "open file"])
def test_a_log_is_not_written_into_the_store(tmp_path: Path, end: str, by: str) -> None:
    store, place = SqliteStore(tmp_path / "run.db"), tmp_path / f"run.db{end}"
    if by == "link":
        place = tmp_path / "steps.jsonl"
        place.symlink_to(tmp_path / f"run.db{end}")

    with closing(store), ExitStack() as stack:
        target = stack.enter_context(place.open("a")) if by == "open file" and place.exists() else place
        with pytest.raises(UsageError, match="or a file that belongs to it"):
            LogFollower(store, target)


# processors


async def odd(harness: Scripted) -> Steps:
    """Make a step of odd fields, and have the program log something."""
    get_logger("tests").warning("%r is odd", harness.current_step)
    yield {"step": 1, "near": 2, "text": "ü \u202e"}, None
    yield {}, 2.0


async def test_processors_get_the_fields_of_every_line(tmp_path: Path, autojump_clock: MockClock) -> None:
    def mark(logger: object, method: str, fields: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        if fields["event"] == "harness.started":
            raise structlog.DropEvent
        fields["mark"] = f"{method} {fields['seq']}"
        return fields

    store, log = MemoryStore(), tmp_path / "log.jsonl"
    async with Orchestrator(store, log=log, processors=[mark]) as orchestrator:
        orchestrator.start(Scripted(three), name="a")

    kept = [record for record in store.records() if record.kind != "started"]
    assert [line["mark"] for line in lines(log)] == [f"info {record.seq}" for record in kept]
    assert all(list(line)[: len(FIRST_FIELDS)] == FIRST_FIELDS for line in lines(log))


async def test_a_line_is_the_same_whether_or_not_a_processor_asks_for_its_fields(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    store, plain, processed = MemoryStore(), tmp_path / "plain.jsonl", StringIO()
    async with to_the_end(store, log=plain, intensity=1) as (orchestrator, _):
        orchestrator.start(Scripted(odd), name="a")
        orchestrator.start(Scripted(crash), name="b").send({"password": "hunter2hunter2", "over": HOSTILE})

    write = line_writer(processed, [lambda logger, method, fields: fields])
    for record in store.records():
        write(record)
    assert plain.read_text(encoding="utf-8") == processed.getvalue()


async def test_what_the_program_logs_names_the_harness_at_work_and_goes_through_the_processors(
    caplog: pytest.LogCaptureFixture, autojump_clock: MockClock
) -> None:
    def mark(logger: object, method: str, fields: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        return {**fields, "mark": "m"}

    async with Orchestrator(MemoryStore(), processors=[mark]) as orchestrator:
        orchestrator.start(Scripted(odd), name="a")
    get_logger("tests").warning("outside")

    inside, outside = caplog.records
    assert (inside.getMessage(), inside.funcName) == ("0 is odd", "odd")
    assert vars(inside)["fields"] == {"level": "warning", "harness": "a", "attempt": 1, "step": 1, "mark": "m"}
    assert vars(outside)["fields"] == {"level": "warning"}


def test_processors_that_are_no_functions_are_refused() -> None:
    with pytest.raises(UsageError, match="processors: expected functions"):
        Orchestrator(processors=["upper"])  # type: ignore[list-item]


# what collectors rely on


LEVELS: list[tuple[str, dict[str, Any], str]] = [
    ("step", {"output": {"risk": "halted"}}, "warning"),
    ("step", {"output": {"risk": "active"}, "summary": "bought"}, "info"),
    ("outcome", {"key": "pay", "outcome": "confirmed"}, "info"),
    *(("outcome", {"key": "pay", "outcome": one}, "warning") for one in ("refused", "unknown", "failed", "interrupted")),
    ("blocked", {"cause": "unknown"}, "error"),
    ("guardrail", {"limit_name": "max_drawdown", "policy": "block"}, "warning"),
    ("latch", {"on": True}, "warning"),
    ("latch", {"on": False}, "info"),
    ("approval_answered", {"verdict": "denied"}, "warning"),
    ("budget", {"change": "settled", "near": ["a"]}, "warning"),
    ("transcript", {"rounds": [{"message": 1}]}, "debug"),
    ("restarting", {"cause": "boom", "delay_s": 1.5, "due": 17.5, "restarts": [16.0]}, "warning"),
    ("restarting", {"delay_s": "odd", "due": None}, "warning"),
    ("gave_up", {"restarts": 3}, "error"),
    ("message", {"from": "a", "message": {"text": 1}, "message_": 2, "host": 3}, "info"),
    ("approval_requested", {"arguments": {"a": 1}, "harness": "a", "step": 3}, "info"),
    ("forked", {"rounds": 2, "origin": "b"}, "info"),
    ("pruned", {"keep": 3}, "info"),
    ("evidence", {"attached": 1, "level": "x", "rounds": "y"}, "info"),
    ("task", {}, "info"),
    ("unheard_of", {"message": 1, "service": 2}, "info"),
]


def recorded(kind: str, body: dict[str, Any]) -> Record:
    return Record(
        seq=9, harness='a"b', attempt=2, step=4, time_us=1_772_366_400_000_007, kind=kind, body=encode(body), run="r"
    )


@pytest.mark.parametrize(("kind", "body", "level"), LEVELS)
def test_a_line_has_a_level_and_a_sentence_and_is_the_record(kind: str, body: dict[str, Any], level: str) -> None:
    record = recorded(kind, body)
    fields = json.loads(json_line_of(record))

    assert fields == json.loads(json.dumps(line(record)))
    assert list(fields)[: len(HEADER)] == list(HEADER)
    assert (fields["level"], fields["schema"], fields["timestamp"]) == (level, 2, "2026-03-01T12:00:00.000007Z")
    assert fields["message"].startswith('a"b: ')
    again = record_of(fields)
    assert json.loads(again.body) == body
    assert evolve(again, body="") == evolve(record, body="")


def test_a_line_of_an_earlier_version_is_the_same_record() -> None:
    old = {"timestamp": "2026-03-01T12:00:00.000007Z", "level": "info", "event": "harness.message", "run": "r", "harness": "a"}
    old |= {"attempt": 1, "step": 2, "seq": 3, "message": {"text": 1}, "restarts": 3, "harness_": "x", "host": "mine"}

    assert json.loads(record_of(old).body) == {"message": {"text": 1}, "restarts": 3, "harness": "x", "host": "mine"}


async def test_after_a_rename_sighup_has_the_lines_go_on_in_a_new_file(tmp_path: Path) -> None:
    store, log = MemoryStore(), tmp_path / "log.jsonl"

    async def written(count: int) -> None:
        while not log.exists() or len(lines(log)) < count:  # noqa: ASYNC110 - a file rings for nobody
            await trio.sleep(0.01)

    with trio.fail_after(20):
        async with Orchestrator(store, log=log) as orchestrator:
            orchestrator.start(Scripted(poll), name="a")
            await written(2)
            log.rename(tmp_path / "log.1.jsonl")
            os.kill(os.getpid(), signal.SIGHUP)
            await written(0)
            orchestrator.start(Scripted(three), name="b")
            await written(1)
            orchestrator.stop()

    first, second = lines(tmp_path / "log.1.jsonl"), lines(log)
    assert [one["seq"] for one in (*first, *second)] == seqs(store)
    assert "b" in {one["harness"] for one in second}
