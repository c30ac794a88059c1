"""G5: an agent's turn that is killed goes on: no tool is run twice, no finished call is made again, and nobody is asked."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from .agent_turn_lives import TurnCase, die_at, kill_at_random
from .effects_world import acts


@pytest.mark.parametrize(
    ("option", "moment", "number"), [("fault", "before", 7), ("fault", "after", 9), ("die", "after", 3), ("die", "before", 6)]
)
def test_a_turn_that_dies_at_a_commit_or_an_act_goes_on(tmp_path: Path, option: str, moment: str, number: int) -> None:
    assert die_at(tmp_path, option, moment, number, steps=1).kills == 1


def test_turns_that_are_killed_at_random_go_on(tmp_path: Path) -> None:
    case = TurnCase(tmp_path, steps=8)

    kill_at_random(case, random.Random(1), kills=5)

    assert case.kills >= 4
    assert sum(acts(case.world).values()) > 8 * 2 * 12
