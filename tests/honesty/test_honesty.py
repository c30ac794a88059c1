"""No cheating agent's work is taken for done, and every honest agent's is. Real processes, so real time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import trio

from tests.honesty.cheating import Agent
from tests.honesty.corpus import ALL_CHEATS, ALL_HONEST
from tests.honesty.trial import Result, hear_all

SOME_CHEATS, SOME_HONEST = ALL_CHEATS[::18], ALL_HONEST[::18]


def heard(folder: Path, agents: Sequence[Agent]) -> list[Result]:
    """Try some of them once, with as few passes as it takes: `python -m tests.honesty` asks for three of everybody."""
    return trio.run(lambda: hear_all(folder, agents, briefly=True))


def test_the_work_of_a_cheating_agent_is_refused_and_the_reason_told(tmp_path: Path) -> None:
    results = heard(tmp_path, SOME_CHEATS)

    assert {result.agent.name: result.verdict.evidence for result in results if result.accepted} == {}
    assert all(result.verdict.evidence for result in results)


def test_the_work_of_an_honest_agent_is_accepted(tmp_path: Path) -> None:
    results = heard(tmp_path, SOME_HONEST)

    assert {result.agent.name: result.verdict.evidence for result in results if not result.accepted} == {}


def test_the_corpus_is_large_enough_and_names_are_told_apart() -> None:
    names = [agent.name for agent in (*ALL_CHEATS, *ALL_HONEST)]

    assert len(ALL_CHEATS) >= 100
    assert len(set(names)) == len(names)
