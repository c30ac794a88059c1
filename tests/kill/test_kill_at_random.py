"""G1, G2, G3: after `kill -9` at any moment every acknowledged step is there, once and whole, and the harness goes on."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from .lives import Tally, kill_at_random


def test_no_step_is_lost_repeated_or_changed_by_kills_at_random(tmp_path: Path) -> None:
    def kill(seed: int) -> Tally:
        return kill_at_random(tmp_path, kills=25, seed=seed, steps=800)

    with ThreadPoolExecutor() as pool:
        tallies = list(pool.map(kill, (1, 2)))

    assert sum(tally.kills for tally in tallies) >= 50
    assert sum(tally.steps for tally in tallies) == 8 * 800 * sum(tally.stores for tally in tallies)
