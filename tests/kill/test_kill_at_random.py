"""G1, G2, G3: after `kill -9` at any moment every acknowledged step is there, once and whole, and the harness goes on."""

from __future__ import annotations

from pathlib import Path

import pytest

from .lives import kill_at_random


@pytest.mark.parametrize("seed", [1])
def test_no_step_is_lost_repeated_or_changed_by_kills_at_random(tmp_path: Path, seed: int) -> None:
    tally = kill_at_random(tmp_path, kills=25, seed=seed, steps=800)

    assert tally.kills >= 25
    assert tally.steps == 8 * 800 * tally.stores


def test_no_step_is_lost_while_the_store_is_pruned_forked_verified_and_asked(tmp_path: Path) -> None:
    tally = kill_at_random(tmp_path, kills=12, seed=3, steps=600, beside=True)

    assert tally.kills >= 12
    assert tally.steps == 8 * 600 * tally.stores
    assert tally.beside.total() > 5
