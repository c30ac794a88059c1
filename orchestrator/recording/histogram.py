"""Histograms with fixed buckets, cheap enough for every commit. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

SECONDS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5)
"""Buckets for commits, seconds: from the fastest to a clearly noticeable one."""
LONG_SECONDS = (0.0001, 0.001, 0.01, 0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0, 7200.0)
"""Buckets for steps, seconds: from one that only computes to one that waited for a person."""
AMOUNTS = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 512.0, 1000.0, 2000.0)


class Histogram:
    """Number of values up to each bound, and their sum."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = tuple(bounds)
        self.counts = [0] * (len(self.bounds) + 1)
        """Count of each bucket alone; the last one has no bound."""
        self.total = 0.0

    def observe(self, value: float) -> None:
        """Count a value; a value equal to a bound counts as up to it."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def copy(self) -> Histogram:
        """Return a copy of the current counts."""
        other = Histogram(self.bounds)
        other.counts, other.total = self.counts[:], self.total
        return other
