"""The benchmark of time travel holds every state that it finds against the live one; here with few steps."""

from __future__ import annotations

from pathlib import Path

from orchestrator.recording.snapshot_policy import LEAST_BYTES, LEAST_STEPS, UNCHANGED
from tests.benchmarks.travel import SHAPES, travel


def test_states_of_every_shape_are_found_and_none_is_far_from_a_snapshot(tmp_path: Path) -> None:
    figures = travel(tmp_path, steps=4_000, looks=3)

    assert figures["steps"] == 4_000 + 400 * (len(SHAPES) - 1)
    for name in SHAPES:
        most = max(LEAST_STEPS, figures[name]["state_kb"] * 1_100 * UNCHANGED // LEAST_BYTES)
        assert figures[name]["furthest"] <= most
