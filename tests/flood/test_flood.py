"""The short version of `python -m tests.flood`."""

from __future__ import annotations

from pathlib import Path

from tests.flood.lives import flood


def test_each_message_is_delivered_once_while_harnesses_crash_and_the_program_is_killed(tmp_path: Path) -> None:
    """G15: messages are used up with the step, whatever dies, and whoever has sent them."""
    tally = flood(tmp_path / "run.db", count=2_000, senders=8, kills=2, chance=0.3)

    assert tally.messages == tally.sent == tally.delivered == 2_000
    assert tally.in_order
    assert tally.crashes > 0
