"""G12: what is denied, reopened and approved is done once and by the new approval, whatever is killed, commands included."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from .approved_lives import Office, die_each_life, kill_at_random


@pytest.mark.parametrize(("moment", "first"), [("after", 2), ("before", 3)])
def test_killed_at_a_commit_of_each_life_it_is_done_once_by_the_new_approval(tmp_path: Path, moment: str, first: int) -> None:
    office = Office(tmp_path, steps=1)

    die_each_life(office, moment, first)

    assert office.kills > 0


def test_killed_at_random_with_the_commands_it_is_done_once_by_the_new_approval(tmp_path: Path) -> None:
    office = Office(tmp_path, steps=4)

    kill_at_random(office, random.Random(1), kills=5)

    assert office.kills + office.commands_killed > 1, office
