"""What a stream has said, as values: which bar is the newest, and what is said about a loss."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import pytest

from harnesses.trading.exchange.bar_stream import Heard, newest_start

WHERE = "ccxt:there"


@pytest.mark.parametrize(
    ("rows", "newest"),
    [
        ([], None),
        ([[60_000, 1.0], [120_000, 2.0]], 120_000),
        ([[120_000, 1.0], [60_000, 2.0]], 120_000),
        ([[60_000, 1.0], [60_000, 2.0]], 60_000),
        ([["120000", 1.0]], None),
        ([[None], [], None, "bar", 5, {"t": 1}], None),
        ([[True], [float("nan")], [60_000]], 60_000),
    ],
    ids=["none", "in order", "out of order", "again", "text", "rubbish", "rubbish beside a bar"],
)
def test_the_newest_bar_is_that_of_the_latest_start(rows: list[Any], newest: int | None) -> None:
    assert newest_start(rows) == newest


@pytest.mark.parametrize("count", range(6))
def test_a_loss_is_said_once_and_its_end_once_and_a_lost_stream_has_begun_no_bar(count: int) -> None:
    for changes in product((("start", "A", 1), ("start", "B", 1), ("start", "A", 2), ("loss", "A", 0)), repeat=count):
        _check(changes)


def _check(changes: Sequence[tuple[str, str, int]]) -> None:
    heard, said = Heard(), list[str]()
    for change, symbol, start_ms in changes:
        before = heard
        heard = heard.after_start(symbol, start_ms, WHERE) if change == "start" else heard.after_loss("broken", WHERE)
        said += [heard.line] if heard.line else []
        assert heard.is_live is (change == "start")
        assert heard.begun == ({**before.begun, symbol: start_ms} if change == "start" else {})
        assert heard.losses - before.losses == (change == "loss")

    lost = ["is lost" in line for line in said]
    assert lost == [number % 2 == 0 for number in range(len(said))]
    assert heard.lost is (bool(lost) and lost[-1])
