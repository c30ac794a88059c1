"""Export of metrics: in Prometheus's text format, by `prometheus_client` with its own registry; and through an exporter of
OpenTelemetry's SDK, pushed at intervals.
"""

# pyright: reportUnknownMemberType=false
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any, cast

import trio

from harnesses.diagnostics.extras import install_command
from harnesses.timing.clock import now_us
from orchestrator.errors import UsageError
from orchestrator.recording.histogram import Histogram
from orchestrator.telemetry.metric_figures import Family
from orchestrator.telemetry.otlp_export import missing, resource_of, scope
from orchestrator.telemetry.telemetry_meter import Meter
from orchestrator.text.terminal_text import say

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics.export import MetricExporter, MetricsData


# `prometheus_client` has few type annotations.


CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def text_of(families: Iterable[Family]) -> bytes:
    """Return metrics in Prometheus's text format.

    Raises:
        UsageError: `prometheus_client` is not installed.
    """
    try:
        from prometheus_client import CollectorRegistry
        from prometheus_client.exposition import generate_latest
    except ImportError as error:
        raise UsageError(
            f"metrics need prometheus_client: expected it installed; run `{install_command('metrics')}`"
        ) from error
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collector(families))
    return bytes(generate_latest(registry))


class _Collector:
    """Passes collected metrics to the registry."""

    def __init__(self, families: Iterable[Family]) -> None:
        self._families = families

    def describe(self) -> list[Any]:
        return []

    def collect(self) -> Iterator[Any]:
        from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

        for family in self._families:
            if family.kind == "histogram":
                histogram = HistogramMetricFamily(family.name, family.help, labels=family.labels)
                for values, buckets in family.histograms:
                    histogram.add_metric(values, _cumulative(buckets), buckets.total)
                yield histogram
                continue
            made: Any
            if family.kind == "counter":
                made = CounterMetricFamily(family.name.removesuffix("_total"), family.help, labels=family.labels)
            else:
                made = GaugeMetricFamily(family.name, family.help, labels=family.labels)
            for values, number in family.samples:
                made.add_metric(values, number)
            yield made


def _cumulative(buckets: Histogram) -> list[tuple[str, float]]:
    """Return the bounds, the last one `+Inf`, each with the number of values up to it."""
    bounds = [*map(repr, buckets.bounds), "+Inf"]
    return list(zip(bounds, map(float, accumulate(buckets.counts)), strict=True))


INTERVAL_S = 60.0
"""Seconds between two pushes, as in OpenTelemetry's own readers."""


def pusher(exporter: MetricExporter, run: str) -> Callable[[Sequence[Family]], bytes]:
    """Return a function that pushes metrics through an exporter; it returns nothing to serve.

    Raises:
        UsageError: OpenTelemetry is not installed.
    """
    try:
        from opentelemetry.sdk.metrics.export import MetricExportResult
    except ImportError as error:
        raise missing() from error
    resource, begun = resource_of(run), now_us() * 1000

    def push(families: Sequence[Family]) -> bytes:
        data = metrics_data(families, resource, begun, now_us() * 1000)
        try:
            taken = exporter.export(data) is MetricExportResult.SUCCESS
        except Exception as error:
            raise UsageError(f"metrics: the exporter did not accept them: {error!r:.300}; the run goes on") from error
        if not taken:
            raise UsageError("metrics: the exporter did not accept them; the run goes on")
        return b""

    return push


async def push_for_ever(meter: Meter) -> None:
    """Push at intervals until cancelled; a failure is printed once, until pushing works again."""
    said = ""
    while True:
        await trio.sleep(INTERVAL_S)
        try:
            await meter.text()
            said = ""
        except UsageError as error:
            if str(error) != said:
                said = str(error)
                say(said)


def metrics_data(families: Sequence[Family], resource: Any, begun_ns: int, now_ns: int) -> MetricsData:
    """Return metrics as OpenTelemetry's SDK represents them. Counters are totals since `begun_ns`."""
    from opentelemetry.sdk.metrics.export import Metric, MetricsData, ResourceMetrics, ScopeMetrics

    metrics = [
        Metric(name=family.name.removesuffix("_total"), description=family.help, unit=_unit(family.name), data=data)
        for family in families
        if (data := _data(family, begun_ns, now_ns)) is not None
    ]
    scoped = ScopeMetrics(scope=scope(), metrics=metrics, schema_url="")
    return MetricsData([ResourceMetrics(resource=resource, scope_metrics=[scoped], schema_url="")])


def _data(family: Family, begun_ns: int, now_ns: int) -> Any:
    """Return the data points of a metric; None if it has none."""
    from opentelemetry.sdk.metrics.export import AggregationTemporality, Gauge, Histogram, NumberDataPoint, Sum

    if family.kind == "histogram":
        points = [_distribution(family, values, buckets, begun_ns, now_ns) for values, buckets in family.histograms]
        return Histogram(points, AggregationTemporality.CUMULATIVE) if points else None
    labelled = [(dict(zip(family.labels, values, strict=True)), number) for values, number in family.samples]
    numbers = [NumberDataPoint(labels, begun_ns, now_ns, number) for labels, number in labelled]
    if not numbers:
        return None
    if family.kind == "counter":
        return Sum(numbers, AggregationTemporality.CUMULATIVE, is_monotonic=True)
    return Gauge(numbers)


def _distribution(family: Family, values: tuple[str, ...], buckets: Histogram, begun_ns: int, now_ns: int) -> Any:
    from opentelemetry.sdk.metrics.export import HistogramDataPoint

    return HistogramDataPoint(
        attributes=dict(zip(family.labels, values, strict=True)),
        start_time_unix_nano=begun_ns,
        time_unix_nano=now_ns,
        count=sum(buckets.counts),
        sum=buckets.total,
        bucket_counts=buckets.counts[:],
        explicit_bounds=buckets.bounds,
        # Minimum and maximum are not kept: they are optional in OTLP, but not in the SDK's types.
        min=cast(float, None),
        max=cast(float, None),
    )


def _unit(name: str) -> str:
    return "s" if name.removesuffix("_total").endswith("_seconds") else "1"
