"""Counting values by their size."""

from __future__ import annotations

from orchestrator.recording.histogram import Histogram


def test_a_value_that_is_a_bound_is_up_to_it() -> None:
    buckets = Histogram((1.0, 2.0))

    for value in (0.5, 1.0, 1.5, 2.0, 2.5):
        buckets.observe(value)

    assert buckets.counts == [2, 2, 1]
    assert buckets.total == 7.5


def test_a_copy_does_not_count_on() -> None:
    buckets = Histogram((1.0,))
    copy = buckets.copy()

    buckets.observe(0.1)

    assert (copy.counts, copy.total) == ([0, 0], 0.0)
