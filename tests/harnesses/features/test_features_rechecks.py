"""A feature that passes is judged anew; one that does not any more is set back, with what was seen."""

from __future__ import annotations

import pytest
from attrs import evolve

from harnesses import Ending, Waiting
from harnesses.features import FeatureStatus
from tests.harnesses.features.worked import UNLIMITED, Judge, Worker, harness, passing, told


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
