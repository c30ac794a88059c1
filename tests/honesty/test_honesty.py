"""No cheating agent's work is taken for done, and every honest agent's is. Real processes, so real time."""

from __future__ import annotations

import pytest
import trio

from tests.honesty.bending import BENDING
from tests.honesty.cheating import CHEATS, Agent
from tests.honesty.honest import HONEST
from tests.honesty.trial import Result, hear_all

ALL_CHEATS = (*CHEATS, *BENDING)
SOME_CHEATS, SOME_HONEST = (*CHEATS[::4], *BENDING[::6]), HONEST[::3]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Result]:
    """Try some of them once, with as few passes as it takes: `python -m tests.honesty` asks for three of everybody."""
    heard = trio.run(lambda: hear_all(tmp_path_factory.mktemp("honesty"), (*SOME_CHEATS, *SOME_HONEST), briefly=True))
    return {result.agent.name: result for result in heard}


@pytest.mark.parametrize("agent", SOME_CHEATS, ids=lambda agent: agent.name)
def test_the_work_of_a_cheating_agent_is_refused(agent: Agent, results: dict[str, Result]) -> None:
    result = results[agent.name]

    assert not result.accepted, result.verdict.evidence
    assert result.verdict.evidence


@pytest.mark.parametrize("agent", SOME_HONEST, ids=lambda agent: agent.name)
def test_the_work_of_an_honest_agent_is_accepted(agent: Agent, results: dict[str, Result]) -> None:
    result = results[agent.name]

    assert result.accepted, result.verdict.evidence


def test_the_corpus_is_large_enough_and_names_are_told_apart() -> None:
    names = [agent.name for agent in (*ALL_CHEATS, *HONEST)]

    assert len(ALL_CHEATS) >= 100
    assert len(set(names)) == len(names)
