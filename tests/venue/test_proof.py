"""The short form of the proof that no order is placed twice; the long one is `python -m tests.venue.proof`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .proof import Result, run

HOSTILE = ("--hostile", "--limited", "0", "--late", "0.1", "--restart", "0.002", "--queries", "0.02")


HELD = (*HOSTILE, "--held", "0.1")
"""An order may also be taken long after its client gave up waiting, whatever the client was told meanwhile."""


def small(
    way: str,
    folder: Path,
    *,
    orders: int,
    kills: int = 0,
    hostility: tuple[str, ...] = HOSTILE,
    **options: Any,
) -> Result:
    """Place a few orders."""
    return run(
        way,
        folder,
        orders=orders,
        kills=kills,
        programs=1,
        harnesses=50,
        kill_every_s=1.0,
        venue_kills=kills // 2,
        hostility=hostility,
        **options,
    )


def test_an_order_that_goes_through_once_is_placed_once_whatever_is_killed(tmp_path: Path) -> None:
    result = small("once", tmp_path, orders=300, kills=2)

    assert (result.placed, result.duplicates, result.missing, result.unsettled, result.halted) == (300, 0, 0, 0, 0)
    assert result.position_error == result.cash_error == 0
    assert result.kills
    assert result.unknown


def test_to_try_again_places_orders_twice(tmp_path: Path) -> None:
    result = small("retry", tmp_path, orders=80)

    assert result.duplicates > 10
    assert result.position_error != 0


def test_to_ask_at_once_and_remember_afterwards_places_orders_twice(tmp_path: Path) -> None:
    """Each order that is held is placed again: its client waits for less time than the venue may hold it."""
    result = small("remember", tmp_path, orders=120, hostility=HELD, window_s=59.0)

    assert result.duplicates > 0
    assert result.cash_error != 0
