"""A feature that passes is judged anew; one that does not any more is set back, with what was seen."""

from __future__ import annotations

import pytest
from attrs import evolve

from harnesses import Ending, LocalRuntime, Waiting
from harnesses.features import FeatureStatus
from harnesses.features.loop.feature_workplace import Workplace
from tests.harnesses.features.worked import UNLIMITED, Judge, Worker, features, harness, passing, told


async def test_before_each_new_feature_one_at_risk_is_judged_anew_and_at_the_end_all(autojump_clock):
    work = harness()

    ending = await work.run()

    assert ending is Ending.COMPLETED
    assert [words for words in told(work) if words.startswith("recheck")] == ["recheck a passed"] * 2 + ["recheck b passed"]
    assert {standing.verified_at for standing in work.state.standings} == {3}


async def test_one_that_does_not_pass_any_more_is_set_back_and_worked_again_knowing_why(autojump_clock):
    worker = Worker()
    work = harness(worker, Judge(rotten={"a": 1}))

    ending = await work.run()

    assert ending is Ending.COMPLETED
    assert "recheck a set_back" in told(work)
    assert worker.tries == ["a1", "b1", "a2", "c1"]
    assert worker.asked[2].last_failure == "a is rotten"
    assert work.state.standings[0].set_backs == 1


async def test_one_that_is_set_back_too_often_is_blocked(autojump_clock):
    policy = evolve(UNLIMITED, max_set_backs_per_feature=1)
    work = harness(validator=Judge(rotten={"a": 9}), policy=policy)

    with pytest.raises(Waiting, match="blocked: a"):
        await work.run()

    assert passing(work.state) == "bc"
    assert work.state.standings[0].status is FeatureStatus.BLOCKED
    assert work.state.standings[0].set_backs == 2


async def test_rechecks_can_be_left_out(autojump_clock):
    judge = Judge()

    await harness(validator=judge, policy=evolve(UNLIMITED, recheck_sample=0, recheck_all_at_end=False)).run()

    assert judge.judged == ["a1", "b1", "c1"]


async def test_what_is_judged_anew_is_the_work_that_was_accepted(autojump_clock):
    judge = Judge(a=2)

    await harness(validator=judge).run()

    assert judge.judged == ["a1", "a2", "b1", "a2", "c1", "a2", "b1"]


async def test_what_is_seen_quickly_is_told_with_the_next_step(autojump_clock):
    work = harness(Worker(), Judge(seconds=0))

    await work.run()

    assert told(work) == ["initialize done", "turn a1 passed", "turn b1 passed", "turn c1 passed", "recheck b passed"]
    assert [step.output.rechecked for step in work.step_history] == [(), (), (), ("a",), ("a", "b")]
    assert "rechecked and still passing: a, b" in work.step_history[-1].output.note
    assert work.step_history[-1].output.ended is not None


async def test_what_takes_its_time_is_a_step_of_its_own(autojump_clock):
    work = harness(Worker(seconds=0), Judge(seconds=0.3), list=features("abcd"))

    await work.run()

    assert [step.output.rechecked for step in work.step_history][-2:] == [("b", "a"), ("c",)]
    assert told(work)[-2:] == ["recheck a passed", "recheck c passed"]


async def test_a_set_back_is_a_step_of_its_own_that_tells_what_passed_before_it(autojump_clock):
    policy = evolve(UNLIMITED, recheck_sample=0)
    work = harness(validator=Judge(seconds=0, rotten={"b": 1}), policy=policy)

    await work.run()

    step = next(step for step in work.step_history if step.output.status == "set_back")
    assert (step.input.feature_id, step.output.rechecked) == ("b", ("a",))


async def test_a_stop_has_what_was_seen_recorded(autojump_clock):
    runtime = LocalRuntime("work")

    class Stopping(Judge):
        async def validate(self, feature, work):
            if feature.passes:
                runtime.control.stop()
            return await super().validate(feature, work)

    work = harness(validator=Stopping(seconds=0))

    await work.run(runtime)

    assert told(work)[-1] == "recheck a passed"
    assert work.state.runs[-1].status == "interrupted"


async def test_a_verdict_that_is_acted_on_is_on_record_before_it_is(autojump_clock):
    seen = []

    class Acting(Workplace):
        acts_on_verdicts = True

        async def accept(self, once, feature, turn, result, verdict):
            seen.append([effect.key for effect in work.effects])

    for place in (None, Acting(Judge())):
        work = harness(list=features("a"), workplace=place)
        await work.run()

    assert seen == [["work a 1", "judge a 1"]]
