"""The same numbers over OpenTelemetry: a real exporter takes them, and one that hangs or fails hurts nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.sdk.metrics.export import MetricExporter, MetricExportResult, MetricsData
from trio.testing import MockClock

from orchestrator import MemoryStore, Orchestrator, SqliteStore
from tests.orchestrator.scripted import Scripted, poll, three
from tests.orchestrator.telemetry.collector import collecting


class Broken(MetricExporter):
    """Takes nothing."""

    def export(self, metrics_data: MetricsData, timeout_millis: float = 10_000, **kwargs: Any) -> MetricExportResult:
        raise ConnectionError("no route")

    def force_flush(self, timeout_millis: float = 10_000) -> bool:
        return True

    def shutdown(self, timeout_millis: float = 30_000, **kwargs: Any) -> None:
        pass


async def test_the_numbers_of_a_run_arrive_at_a_collector(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "run.db")
    with collecting() as collector:
        exporter = OTLPMetricExporter(f"{collector.url}/v1/metrics")
        async with Orchestrator(store, metrics=exporter, handle_signals=False) as orchestrator:
            orchestrator.start(Scripted(three, until=2), name="a")
        exporter.shutdown()
    store.close()

    (request,) = collector.requests
    metrics = {one.name: one for one in request.resource_metrics[0].scope_metrics[0].metrics}
    (steps,) = metrics["orchestrator_steps"].sum.data_points
    work = [point for point in metrics["orchestrator_step_seconds"].histogram.data_points if point.count]
    assert (steps.as_double, steps.attributes[0].value.string_value) == (2.0, "a")
    assert metrics["orchestrator_steps"].sum.is_monotonic
    assert metrics["orchestrator_step_seconds"].unit == "s"
    assert {point.attributes[0].value.string_value: point.count for point in work}["work"] == 2
    assert len(work[0].bucket_counts) == len(work[0].explicit_bounds) + 1
    assert not any(point.HasField(bound) for point in work for bound in ("min", "max"))


async def test_an_exporter_that_takes_nothing_hurts_nothing(
    capfd: pytest.CaptureFixture[str], autojump_clock: MockClock
) -> None:
    store = MemoryStore()

    async with Orchestrator(store, metrics=Broken(), handle_signals=False) as orchestrator:
        orchestrator.start(Scripted(poll, until=200), name="a")

    assert [one.current_step for one in store.harnesses()] == [200]
    assert capfd.readouterr().err.count("metrics: ") == 1
