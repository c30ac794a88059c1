"""A run begins with what was agreed on, and in surroundings that are fit to work in."""

from __future__ import annotations

from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from attrs import evolve

from harnesses.features.errors import HealthCheckFailed, MemoryFailed
from harnesses.features.feature import Verdict
from harnesses.features.loop.feature_workplace import Workplace
from tests.harnesses.features.collaborators import Bench
from tests.harnesses.features.played import NOW
from tests.harnesses.features.worked import Judge


class Says:
    def __init__(self, passed: bool) -> None:
        self.passed, self.asked = passed, []

    async def check(self, plan, directory):
        self.asked.append(directory)
        return Verdict(passed=self.passed, evidence="looked")


class Placed(Workplace):
    open = False

    @asynccontextmanager
    async def inspected(self, state):
        self.open = True
        yield Path("/place")
        self.open = False


@pytest.mark.parametrize("passed", [True, False])
async def test_what_a_health_check_has_seen_is_noted_and_told_to_agents(passed):
    checks = Bench(check=Says(passed)).checks()

    failure = await checks.begin(Bench().state, NOW)

    assert isinstance(failure, HealthCheckFailed) is not passed
    assert checks.writer.notes.health == Verdict(passed=passed, evidence="looked")
    assert (checks.evidence, checks.has_begun) == ("looked", True)


async def test_it_looks_where_the_work_is_done_and_leaves_the_place_again():
    place = Placed(Judge())
    bench = Bench(check=Says(True), workplace=place)

    await bench.checks().begin(bench.state, NOW)

    assert (bench.check.asked, place.open) == ([Path("/place")], False)


async def test_no_place_is_made_where_nobody_looks():
    place = Placed(Judge())

    await Bench(workplace=place).checks().begin(Bench().state, NOW)

    assert "open" not in vars(place)


async def test_a_list_that_is_not_the_one_agreed_on_is_refused():
    state = Bench().state

    with pytest.raises(MemoryFailed, match="has changed since the list was locked"):
        await Bench().checks().begin(evolve(state, features=state.features[::-1]), NOW)
