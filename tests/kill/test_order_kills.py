"""A killed program sends no order twice and leaves no exit open: `python -m tests.kill.orders` kills it at every moment."""

from __future__ import annotations

from pathlib import Path

from .order_lives import killed_once, uninterrupted


def test_orders_and_exits_are_at_the_venue_once_wherever_the_program_is_killed(
    tmp_path: Path,
) -> None:
    wanted, counts = uninterrupted(tmp_path / "whole")

    for moment in ("submit-after:9", "cancel-before:5", "cancel-after:4", "commit-after:30"):
        assert killed_once(tmp_path / moment.replace(":", "-"), wanted, moment)

    assert counts["submit-after"] == wanted.accepted
    assert wanted.open_at_venue == wanted.open_on_record
    assert wanted.fills.count("Side.SELL") > 5


def test_shorts_their_costs_and_margin_calls_are_booked_once_wherever_the_program_is_killed(tmp_path: Path) -> None:
    wanted, _ = uninterrupted(tmp_path / "whole", "--shorts")

    for moment in ("submit-after:4", "commit-after:14"):
        assert killed_once(tmp_path / moment.replace(":", "-"), wanted, moment, "--shorts")

    assert "margin call" in wanted.fills
    assert wanted.open_at_venue == wanted.open_on_record
