"""An attempt gives the draft of a step: what the agent does is an effect, and every error of it is a result."""

from __future__ import annotations

import pytest
from attrs import evolve

from harnesses.errors import BudgetExhausted, Waiting
from harnesses.features.errors import ChatFailed, MemoryFailed, ValidationFailed
from harnesses.features.feature import FeatureStatus, TurnResult, Verdict
from harnesses.features.feature_record import IterationKind, IterationStatus, RunStatus
from harnesses.features.loop.feature_attempts import retry_delay
from harnesses.features.loop.feature_workplace import Workplace
from harnesses.features.run_policy import FailFast
from harnesses.features.turn_results import Try
from tests.harnesses.features.collaborators import Bench
from tests.harnesses.features.worked import Judge, Raising


async def test_a_try_that_passes_is_one_effect_and_one_draft():
    bench = Bench()

    draft = await bench.attempts().turn("a", 1)

    assert (draft.kind, draft.status, draft.feature_id, draft.turn) == (IterationKind.TURN, IterationStatus.PASSED, "a", 1)
    assert draft.state.standings[0].status is FeatureStatus.PASSED
    assert bench.done == ["work a 1"]
    assert bench.state.standings[0].status is FeatureStatus.PENDING


async def test_a_refused_try_counts_and_the_next_one_is_told_why():
    draft = await Bench(workplace=Workplace(Judge(seconds=0, a=2))).attempts().turn("a", 1)

    assert draft.status is IterationStatus.NOT_VALIDATED
    assert (draft.state.standings[0].turns, draft.state.standings[0].last_failure) == (1, "a is 1")


@pytest.mark.parametrize("fast", [False, True])
async def test_an_agent_that_raises_is_a_result_and_ends_the_run_only_if_the_policy_says_so(fast):
    bench = Bench(answer=ConnectionError("no route"))
    bench.policy = evolve(bench.policy, fail_fast=FailFast(on_chat_error=fast, on_validation_failure=False))

    draft = await bench.attempts().turn("a", 1)

    assert draft.status is IterationStatus.CHAT_FAILED
    assert isinstance(draft.then, ChatFailed) is fast
    assert draft.state.standings[0].turns == 1


async def test_an_error_while_the_harness_stops_is_no_try():
    draft = await Bench(answer=ConnectionError("gone"), stopping=True).attempts().turn("a", 1)

    assert draft.status is IterationStatus.INTERRUPTED
    assert (draft.state.standings[0].turns, draft.state.standings[0].interruptions) == (0, 1)


async def test_a_validator_that_raises_hands_off_the_run_and_says_nothing_about_the_work():
    draft = await Bench(workplace=Workplace(Raising(ValueError("odd")))).attempts().turn("a", 1)

    assert draft.status is IterationStatus.FAILED
    assert isinstance(draft.then, ValidationFailed)
    assert isinstance(draft.then.__cause__, ValueError)
    assert draft.state.standings[0].turns == 0


@pytest.mark.parametrize("error", [Waiting("approve it"), BudgetExhausted("spent")])
async def test_an_order_to_the_harness_passes_where_nothing_is_to_be_handed_off(error):
    with pytest.raises(type(error)):
        await Bench(answer=error).attempts().turn("a", 1)


async def test_a_verdict_is_an_effect_where_it_is_acted_on():
    class Acting(Workplace):
        acts_on_verdicts = True

    bench = Bench(workplace=Acting(Judge(seconds=0)))

    await bench.attempts().turn("a", 1)

    assert bench.done == ["work a 1", "judge a 1"]


async def test_a_workplace_that_cannot_take_work_in_fails_the_harness():
    class Full(Workplace):
        async def accept(self, once, feature, turn, result, verdict):
            raise OSError("disk full")

    with pytest.raises(MemoryFailed, match="disk full"):
        await Bench(workplace=Full(Judge(seconds=0))).attempts().turn("a", 1)


async def test_work_of_an_earlier_program_may_have_been_overtaken():
    class Moved(Workplace):
        async def overtaken(self, state, result):
            return Verdict(passed=False, evidence="the branch has moved")

    draft = await Bench(workplace=Moved(Raising(AssertionError("was judged")))).attempts().turn("a", 1, taken_up=True)

    assert draft.status is IterationStatus.NOT_VALIDATED
    assert draft.state.standings[0].last_failure == "the branch has moved"


async def test_what_was_cut_off_is_settled_and_handed_off():
    bench = Bench()

    draft = await bench.attempts().recover(Try("a", 1, done=False))

    assert bench.settled == ["work a 1"]
    assert draft.kind is IterationKind.RECOVER
    assert draft.state.runs[-1].status is RunStatus.INTERRUPTED


async def test_a_feature_that_passes_no_more_is_set_back():
    bench = Bench(workplace=Workplace(Judge(seconds=0, rotten={"a": 1})))
    bench.state = (await bench.attempts().turn("a", 1)).state

    draft = await bench.attempts().recheck("a")

    assert draft.status is IterationStatus.SET_BACK
    assert draft.state.standings[0].status is FeatureStatus.PENDING


async def test_the_agent_is_asked_in_other_words_where_somebody_has_said_so():
    asked = []

    class Keeping(Workplace):
        async def work(self, ask, assignment):
            asked.append(assignment.prompt)
            return TurnResult(artifact="1")

    await Bench(workplace=Keeping(Judge(seconds=0))).attempts(prompts={"a": "Do a."}).turn("a", 1)

    assert asked == ["Do a."]


def test_the_delay_doubles_up_to_half_a_minute():
    assert [retry_delay(1, failures) for failures in (0, 1, 2, 3, 6, 2000)] == [0, 1, 2, 4, 30, 30]
