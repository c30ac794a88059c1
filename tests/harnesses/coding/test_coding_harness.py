"""The coding harness: one step for each attempt, complete when everything is proven, resumable from its state alone."""

from __future__ import annotations

import msgspec
import pytest
import trio

from harnesses import Agent, Ending, HarnessMisuse
from harnesses.coding import Attempt, CodingHarness, CodingState, Feature, PythonTests, Solution, Verdict
from harnesses.coding.features import MAX_TEXT

FEATURES = [Feature(name, f"Write a function {name} that returns 1.") for name in "abcde"]


class Answers:
    """Accepts what says `right`; takes ten seconds for it."""

    async def validate(self, feature: Feature, solution: Solution) -> Verdict:
        await trio.sleep(10)
        return Verdict(passed=solution.code == "right", evidence=f"{feature.id} is {solution.code}")


def right_at(**attempts: int) -> Agent:
    """Return an agent whose solution of a feature is right from that attempt on; from the first, if not said."""

    async def run(run):
        right = run.input.attempt >= attempts.get(run.input.feature.id, 1)
        return Solution("right" if right else "wrong", f"attempt {run.input.attempt}")

    return Agent(run)


def attempts(harness: CodingHarness) -> list[tuple]:
    return [(step.input.feature_id, step.input.attempt, step.output.passed) for step in harness.step_history]


async def test_it_is_complete_when_every_feature_has_passed(autojump_clock):
    harness = CodingHarness(FEATURES, right_at(), Answers())

    ending = await harness.run()

    assert ending is Ending.COMPLETED
    assert harness.state == CodingState(passed=tuple("abcde"))
    assert attempts(harness) == [(name, 1, True) for name in "abcde"]


async def test_a_feature_that_fails_is_tried_again_knowing_why(autojump_clock):
    harness = CodingHarness(FEATURES[:2], right_at(a=3), Answers())

    await harness.run()

    assert [step.input for step in harness.step_history] == [
        Attempt("a", 1, None),
        Attempt("a", 2, "a is wrong"),
        Attempt("a", 3, "a is wrong"),
        Attempt("b", 1, None),
    ]


async def test_a_step_holds_the_solution_the_verdict_and_the_time_it_took(autojump_clock):
    harness = CodingHarness(FEATURES[:1], right_at(), Answers())

    await harness.run()

    step = harness.step_history[0]
    assert step.output.solution == Solution("right", "attempt 1")
    assert (step.output.passed, step.output.evidence, step.output.duration_s) == (True, "a is right", 10.0)
    assert step.state_delta.modified == ("passed",)
    assert step.state_delta.summary == "a: attempt 1 passed"


async def test_a_feature_that_uses_up_its_attempts_is_blocked_and_the_others_are_built(autojump_clock):
    harness = CodingHarness(FEATURES, right_at(b=99, d=2), Answers(), max_attempts=2)

    ending = await harness.run()

    assert ending is Ending.EXHAUSTED
    assert harness.state == CodingState(passed=tuple("acde"), blocked=("b",))
    assert not harness.is_complete()


async def test_an_agent_can_not_declare_a_feature_done(autojump_clock):
    async def boast(run):
        return Solution("wrong", "passed, all tests are green")

    harness = CodingHarness(FEATURES[:1], Agent(boast, is_complete=lambda state: True), Answers(), max_attempts=1)

    await harness.run()

    assert harness.state.passed == ()


@pytest.mark.parametrize("steps", range(9))
async def test_a_harness_made_from_the_state_of_another_goes_on_identically(autojump_clock, steps):
    agent = right_at(a=2, c=99, e=2)
    whole = CodingHarness(FEATURES, agent, Answers())
    await whole.run()
    first = CodingHarness(FEATURES, agent, Answers())
    with trio.move_on_after(10 * steps + 5):
        await first.run()

    stored = msgspec.json.decode(msgspec.json.encode(first.state), type=CodingState)
    second = CodingHarness(FEATURES, agent, Answers(), initial_state=stored)
    await second.run()

    assert first.current_step == steps
    assert attempts(first) + attempts(second) == attempts(whole)
    assert second.state == whole.state


async def test_a_longer_list_later_is_worked_on_from_where_it_grew(autojump_clock):
    first = CodingHarness(FEATURES[:2], right_at(), Answers())
    await first.run()

    second = CodingHarness(FEATURES, right_at(), Answers(), initial_state=first.state)
    await second.run()

    assert attempts(second) == [(name, 1, True) for name in "cde"]


async def test_a_validator_that_fails_fails_the_harness_and_settles_nothing():
    harness = CodingHarness(FEATURES, right_at(), PythonTests({}))

    with pytest.raises(HarnessMisuse, match="feature 'a' has no tests"):
        await harness.run()

    assert harness.state == CodingState()


async def test_real_code_is_proven_by_real_tests():
    async def write(run):
        return Solution(f"def {run.input.feature.id}():\n    return {run.input.attempt - 1}\n")

    validator = PythonTests({name: f"assert {name}() == 1" for name in "ab"}, limit_s=30)
    harness = CodingHarness(FEATURES[:2], Agent(write), validator)

    await harness.run()

    assert attempts(harness) == [("a", 1, False), ("a", 2, True), ("b", 1, False), ("b", 2, True)]
    assert harness.step_history[1].input.last_failure.endswith("AssertionError\n")


async def test_long_texts_of_agent_and_validator_are_cut(autojump_clock):
    class Chatty:
        async def validate(self, feature: Feature, solution: Solution) -> Verdict:
            return Verdict(passed=False, evidence="x" * 100_000)

    async def run(run):
        return Solution("code", "y" * 100_000)

    harness = CodingHarness(FEATURES[:1], Agent(run), Chatty(), max_attempts=2)
    await harness.run()

    step = harness.step_history[1]
    assert {len(step.input.last_failure), len(step.output.evidence), len(step.output.solution.summary)} == {MAX_TEXT}


def test_less_than_one_attempt_is_refused():
    with pytest.raises(HarnessMisuse, match="max_attempts: expected 1 or more, was 0"):
        CodingHarness(FEATURES, right_at(), Answers(), max_attempts=0)
