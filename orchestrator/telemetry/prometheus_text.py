"""Families of numbers as the text that Prometheus scrapes, by `prometheus_client` with a registry of our own."""

# pyright: reportUnknownMemberType=false
# `prometheus_client` says little of its types.

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import accumulate
from typing import Any

from orchestrator.errors import UsageError
from orchestrator.recording.histogram import Histogram
from orchestrator.telemetry.metric_figures import Family

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
MISSING = "metrics need prometheus_client: expected it installed; run `pip install 'harness-orchestrator[metrics]'`"


def text_of(families: Iterable[Family]) -> bytes:
    """Return the text.

    Raises:
        UsageError: `prometheus_client` is not installed.
    """
    try:
        from prometheus_client import CollectorRegistry
        from prometheus_client.exposition import generate_latest
    except ImportError as error:
        raise UsageError(MISSING) from error
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collector(families))
    return bytes(generate_latest(registry))


class _Collector:
    """Gives the registry what was collected already."""

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
    """Return the bounds, the last one `+Inf`, and how many values were up to each."""
    bounds = [*map(repr, buckets.bounds), "+Inf"]
    return list(zip(bounds, map(float, accumulate(buckets.counts)), strict=True))
