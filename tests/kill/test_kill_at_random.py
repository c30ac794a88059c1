"""G1, G2, G3: after `kill -9` at any moment every acknowledged step is there, once and whole, and the harness goes on."""

from __future__ import annotations

from pathlib import Path

from .lives import kill_at_random


def test_no_step_is_lost_repeated_or_changed_by_kills_at_random(tmp_path: Path) -> None:
    tally = kill_at_random(tmp_path, kills=6, seed=1, steps=250)

    assert tally.kills >= 6
    assert tally.steps == 8 * 250 * tally.stores


def test_no_stored_step_is_lost_repeated_or_changed_by_kills_of_harnesses_that_go_on_before_it_is_stored(
    tmp_path: Path,
) -> None:
    tally = kill_at_random(tmp_path, kills=4, seed=2, steps=250, group=True)

    assert tally.kills >= 4
    assert tally.steps == 8 * 250 * tally.stores


def test_no_step_is_lost_while_the_store_is_pruned_forked_verified_and_asked(tmp_path: Path) -> None:
    tally = kill_at_random(tmp_path, kills=4, seed=3, steps=250, beside=True)

    assert tally.kills >= 4
    assert tally.steps == 8 * 250 * tally.stores
    assert tally.beside.total() > 5
