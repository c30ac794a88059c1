"""G3, G15: after `kill -9` at any moment, again and again, exactly the children on record come to their end, each once."""

from __future__ import annotations

import random
from pathlib import Path

from .brood_lives import Brood, kill_at_random


def test_children_and_their_children_survive_kills_at_random(tmp_path: Path) -> None:
    brood = Brood(tmp_path / "run.db", children=4, steps=8)

    kill_at_random(brood, random.Random(3), kills=4)

    assert brood.kills >= 2
    assert brood.cut_off > 0
