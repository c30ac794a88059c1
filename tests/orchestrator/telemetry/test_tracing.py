"""Spans of a living program: they reach real exporters, and no exporter can hurt the run."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
import trio
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode
from trio.testing import MockClock

from orchestrator import MemoryStore, Orchestrator, SqliteStore, UsageError
from orchestrator.telemetry.live_tracing import TraceFollower
from orchestrator.telemetry.spans import spans
from tests.orchestrator.commanding import Command, ended, heads, wait_until
from tests.orchestrator.scripted import Scripted, three
from tests.orchestrator.telemetry.collector import collecting
from tests.orchestrator.telemetry.recorded import run_busy


class Failing(SpanExporter):
    """Fails, in one way or the other."""

    def __init__(self, *, raises: bool) -> None:
        self.raises = raises

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        if self.raises:
            raise ConnectionError("no route to the collector")
        return SpanExportResult.FAILURE


class Hanging(SpanExporter):
    """Does not come back until it is let go."""

    def __init__(self) -> None:
        self.entered, self.let_go = threading.Event(), threading.Event()

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.entered.set()
        self.let_go.wait()
        return SpanExportResult.SUCCESS


@pytest.fixture
def command(tmp_path: Path) -> Iterator[Command]:
    with Command(tmp_path) as command:
        yield command


async def test_the_spans_of_a_run_are_those_of_its_records(autojump_clock: MockClock) -> None:
    store, exporter = MemoryStore(), InMemorySpanExporter()

    await run_busy(store, "abc", traces=exporter)

    told = exporter.get_finished_spans()
    assert {f"{span.context.span_id:016x}" for span in told} == {span.span_id for span in spans(store.records())}
    assert len(told) == 3 * (2 + 3 + 3)


async def test_a_failed_attempt_has_the_status_and_the_exception(autojump_clock: MockClock) -> None:
    exporter = InMemorySpanExporter()

    await run_busy(MemoryStore(), traces=exporter)

    failed, ended = [span for span in exporter.get_finished_spans() if span.name == "attempt a"]
    assert (failed.status.status_code, ended.status.status_code) == (StatusCode.ERROR, StatusCode.UNSET)
    assert failed.events[-1].name == "exception"
    assert failed.resource.attributes["service.name"] == "orchestrator"
    assert failed.attributes is not None
    assert failed.attributes["orchestrator.harness"] == "a"


async def test_spans_arrive_at_a_collector_once_and_whole(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "run.db")
    with collecting() as collector:
        async with Orchestrator(store, traces=collector.url, handle_signals=False) as orchestrator:
            orchestrator.start(Scripted(three, until=2), name="a")

    assert set(collector.paths) == {"/v1/traces"}
    assert sorted(span.name for span in collector.spans) == ["attempt a", "step", "step"]
    assert {span.span_id.hex() for span in collector.spans} == {span.span_id for span in spans(store.records())}
    store.close()


@pytest.mark.parametrize("raises", [True, False])
async def test_an_exporter_that_fails_hurts_nothing_and_what_it_lost_is_counted(
    raises: bool, capfd: pytest.CaptureFixture[str], autojump_clock: MockClock
) -> None:
    store = MemoryStore()

    await run_busy(store, traces=Failing(raises=raises))

    told = capfd.readouterr().err
    assert [one.current_step for one in store.harnesses()] == [3]
    assert "traces: 8 spans were not accepted" in told
    assert told.count("did not accept spans") == 1


async def test_an_exporter_that_hangs_holds_nobody_up(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    store, exporter = SqliteStore(tmp_path / "run.db"), Hanging()
    monkeypatch.setattr("orchestrator.orchestrator._TRACES_S", 0.05)

    async with Orchestrator(store, traces=exporter, handle_signals=False) as orchestrator:
        await orchestrator.start(Scripted(three, until=1), name="a").wait()
        assert orchestrator.handles[0].current_step == 1
    exporter.let_go.set()

    assert exporter.entered.is_set()
    assert "the exporter does not end" in capfd.readouterr().err
    store.close()


@pytest.mark.parametrize("wrong", ["collector:4318", "ftp://x", "http://", 7, object()])
def test_where_spans_can_not_go_is_told_before_anything_is_started(wrong: object) -> None:
    with pytest.raises(UsageError, match="traces: expected"):
        Orchestrator(traces=wrong)


def test_the_command_sends_spans_where_it_is_told_and_again_afterwards(command: Command) -> None:
    with collecting() as live, collecting() as later:
        code = command("run", command.run_file("Three"), "--traces", live.url, "--quiet").code
        again = command("traces", "--to", later.url)

    assert (code, again.code) == (0, 0)
    assert again.err == f"4 spans sent to {later.url}\n"
    assert sorted(span.SerializeToString() for span in live.spans) == sorted(span.SerializeToString() for span in later.spans)


def test_the_variables_of_opentelemetry_say_where_spans_go(command: Command) -> None:
    file = command.run_file("Three")
    with collecting() as collector:
        command("run", file, "--quiet", OTEL_EXPORTER_OTLP_ENDPOINT=collector.url, OTEL_SERVICE_NAME="desk")
        off = command("run", file, OTEL_EXPORTER_OTLP_ENDPOINT=collector.url, OTEL_SDK_DISABLED="true")

    (request,) = collector.requests
    about = {pair.key: pair.value.string_value for pair in request.resource_spans[0].resource.attributes}
    assert (about["service.name"], off.code) == ("desk", 0)


def test_a_collector_that_refuses_is_a_sentence(command: Command) -> None:
    command("run", command.run_file("Three"), "--quiet")
    with collecting(status=400) as collector:
        refused = command("traces", "--to", collector.url)

    assert refused.code == 1
    assert "has not taken spans 1 to 4" in refused.err
    assert "Traceback" not in refused.err


def test_an_attempt_under_way_has_no_span_until_its_program_is_gone(command: Command) -> None:
    process = command.start("run", command.run_file("Ticking"), "--quiet")
    wait_until(lambda: heads(command.folder / "run.db").get("ticking"))

    living = command("traces", "ticking").objects
    process.kill()
    ended(process)
    killed = command("traces").objects

    names = [[span["name"] for span in told[0]["resourceSpans"][0]["scopeSpans"][0]["spans"]] for told in (living, killed)]
    assert set(names[0]) == {"step"}
    assert names[1][-1] == "attempt ticking"


async def test_the_end_of_traces_needs_none_of_the_threads_that_harnesses_have_taken() -> None:
    taken = trio.to_thread.current_default_thread_limiter()
    for _ in range(int(taken.total_tokens)):
        taken.acquire_on_behalf_of_nowait(object())

    with trio.move_on_after(20) as waited:
        await TraceFollower(MemoryStore(), lambda spans: True).finish(0)

    assert not waited.cancelled_caught
