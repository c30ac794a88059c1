"""Laws of the nouns: they are values, and what they are made from cannot change them."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from attrs.exceptions import FrozenInstanceError

from harnesses import AgentRun, HarnessConfig, LoadedContext, StateDelta, Step, StepYield

NOW = datetime(2024, 12, 24, tzinfo=UTC)
STEP = Step(1, NOW, "in", "out", StateDelta())


@pytest.mark.parametrize(
    ("noun", "name"),
    [
        (STEP, "output"),
        (StateDelta(), "modified"),
        (LoadedContext(0), "state"),
        (AgentRun(input=1, context=LoadedContext(0), step_number=1), "constraints"),
        (HarnessConfig(initial_state=0), "name"),
    ],
)
def test_a_noun_can_not_be_changed(noun: object, name: str) -> None:
    with pytest.raises(FrozenInstanceError):
        setattr(noun, name, None)


def test_equal_steps_are_equal() -> None:
    assert Step(1, NOW, "in", "out", StateDelta()) == STEP
    assert Step(2, NOW, "in", "out", StateDelta()) != STEP


def test_the_names_of_a_delta_are_a_tuple_whatever_they_are_made_from() -> None:
    names = ["a", "b"]

    delta = StateDelta(names)
    names.append("c")

    assert delta.modified == ("a", "b")


def test_the_recent_steps_of_a_context_are_a_tuple_whatever_they_are_made_from() -> None:
    steps = [STEP]

    context = LoadedContext(0, steps)
    steps.clear()

    assert context.recent_steps == (STEP,)


def test_two_contexts_do_not_share_their_knowledge() -> None:
    assert LoadedContext(0).relevant_knowledge is not LoadedContext(0).relevant_knowledge


def test_a_step_yield_is_a_pair() -> None:
    question, answer = StepYield(input="in", output="out")

    assert (question, answer) == ("in", "out")
    assert StepYield("in", "out") == ("in", "out")
