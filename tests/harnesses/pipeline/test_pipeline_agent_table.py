"""Who builds and judges each task."""

from __future__ import annotations

from pathlib import Path

import pytest

from harnesses.governance import Guardrails
from harnesses.pipeline import PipelineInvalid, each_stage
from harnesses.pipeline.workers import assign_agents

from .scripted import Builders, judging, stages
from .states import A, B, plan_of

ONE, OTHER, JUDGE = Builders(), Builders(), judging()


def test_the_most_particular_name_counts(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, "a", "b")

    by_id = assign_agents(plan, {"a": ONE, "agent.a": OTHER, "*": OTHER}, JUDGE)
    by_stage = assign_agents(plan, {"agent.a": ONE, "*": OTHER}, JUDGE)

    for table in (by_id, by_stage):
        assert table.builder(A, 1) is ONE
        assert table.builder(B, 1) is OTHER


def test_further_attempts_are_the_next_agents_and_the_last_does_the_rest(tmp_path: Path) -> None:
    table = assign_agents(plan_of(tmp_path, "a"), {"*": [ONE, OTHER]}, JUDGE)

    assert [table.builder(A, attempt) for attempt in (1, 2, 3)] == [ONE, OTHER, OTHER]
    assert table.every() == (ONE, OTHER, JUDGE)


def test_nobody_judges_where_rules_are_enough(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, "a", guardrails=Guardrails(require_validator_contract=False))

    assert assign_agents(plan, ONE, None).validators == {A: None}


@pytest.mark.parametrize(
    ("agents", "validators", "said"),
    [
        ({"b": ONE}, JUDGE, "no agent in `agents`"),
        (ONE, {"b": JUDGE}, "no agent in `validators`"),
        (ONE, None, "has no validator"),
        (ONE, {"*": [JUDGE]}, "expected one Agent, got 1"),
        (ONE, ONE, "different names"),
    ],
)
def test_a_task_without_two_agents_is_refused(tmp_path: Path, agents: object, validators: object, said: str) -> None:
    with pytest.raises(PipelineInvalid, match=said):
        assign_agents(plan_of(tmp_path, "a", tasks=each_stage(stages("a"))), agents, validators)  # type: ignore[arg-type]
