"""G5: after `kill -9` at any moment nothing was done twice, and what is confirmed was done; not so without effects."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from .effects_lives import Case, kill_at_random, kill_until_doubled


def test_nothing_is_done_twice_by_kills_at_random(tmp_path: Path) -> None:
    cases = [Case(tmp_path / str(seed), steps=60, group=seed == 2) for seed in (1, 2)]

    def kill(case: Case) -> None:
        case.folder.mkdir()
        kill_at_random(case, random.Random(case.folder.name), kills=5)

    with ThreadPoolExecutor() as pool:
        list(pool.map(kill, cases))

    assert sum(case.kills for case in cases) >= 10
    assert sum(case.happened for case in cases) > 0
    assert [case.doubled() for case in cases] == [0, 0]


@pytest.mark.parametrize("way", ["retry", "remember"])
def test_without_effects_kills_at_random_double_something(tmp_path: Path, way: str) -> None:
    case = Case(tmp_path, steps=2000, way=way)

    kill_until_doubled(case, random.Random(1), kills=100)

    assert case.doubled() > 0
