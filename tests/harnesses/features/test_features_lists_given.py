"""The list that a later start is given: compared with the one being worked, and taken only if that is asked for."""

from __future__ import annotations

import pytest
from attrs import evolve

from harnesses.features import FeatureStatus, InvalidRequest, RunPolicy
from orchestrator.store.in_memory.memory_store import MemoryStore
from orchestrator.testing import run_to_end
from tests.harnesses.features.worked import UNLIMITED, Judge, Worker, features, harness, passing, told

ONE, TWO = RunPolicy(), RunPolicy(mode="bounded_batch", max_features_per_run=2)


async def then(given, *, policy=UNLIMITED, first=TWO, **more):
    """Run a list of three until some of it is worked, and then another one over it."""
    store, worker = MemoryStore(), Worker()
    await run_to_end(harness(policy=first), store=store)
    work = harness(worker, list=given, policy=policy, **more)
    end = await run_to_end(work, store=store)
    return end, work, worker


async def test_new_features_are_taken_and_worked(autojump_clock):
    end, work, worker = await then(features("abcd"), amend=True)

    assert end.outcome.kind == "completed"
    assert worker.tries == ["c1", "d1"]
    assert passing(work.state) == "abcd"
    assert "amend" in {step.input.kind for step in end.steps}


async def test_a_complete_list_is_reopened_by_what_is_new(autojump_clock):
    end, work, worker = await then(features("abcd"), first=UNLIMITED, amend=True)

    assert (end.outcome.kind, end.outcome.attempt) == ("completed", 2)
    assert (worker.tries, passing(work.state)) == (["d1"], "abcd")


async def test_a_complete_list_that_brings_nothing_new_stays_complete(autojump_clock):
    end, _, worker = await then(features("abc"), first=UNLIMITED, amend=True)

    assert (end.outcome.kind, end.outcome.attempt, worker.tries) == ("completed", 1, [])


async def test_no_list_is_no_news(autojump_clock):
    end, work, worker = await then([], amend=True)

    assert [feature.id for feature in work.state.features] == ["a", "b", "c"]
    assert worker.tries == ["c1"]
    assert "amend" not in {step.input.kind for step in end.steps}


async def test_a_complete_list_stays_complete_if_none_is_given(autojump_clock):
    end, work, worker = await then([], first=UNLIMITED, amend=True)

    assert (end.outcome.kind, worker.tries) == ("completed", [])
    assert work.is_complete()


async def test_a_changed_specification_is_pending_again_under_a_new_lock(autojump_clock):
    changed = [*features("a"), evolve(features("b")[0], description="Bring about b, but better."), *features("c")]

    end, work, worker = await then(changed, amend=True)

    assert end.outcome.kind == "completed"
    assert worker.tries == ["b2", "c1"]
    assert work.state.features[1].description.endswith("better.")


async def test_features_that_are_gone_are_kept(autojump_clock):
    end, work, _ = await then(features("a"), amend=True)

    assert end.outcome.kind == "completed"
    assert {feature.id for feature in work.state.features} == set("abc")


async def test_a_list_that_brings_nothing_new_is_not_amended(autojump_clock):
    end, _, worker = await then(features(), amend=True)

    assert (end.outcome.kind, worker.tries) == ("completed", ["c1"])
    assert [step.input.kind for step in end.steps].count("amend") == 0


async def test_without_being_asked_to_it_keeps_the_list_and_says_so(autojump_clock):
    end, work, worker = await then(features("abcd"), first=ONE)

    assert [feature.id for feature in work.state.features] == ["a", "b", "c"]
    assert worker.tries == ["b1", "c1"]
    said = [step.state_delta.summary for step in end.steps if step.state_delta.summary.startswith("! ")]
    assert ["new: d" in words for words in said] == [True]


async def test_a_list_that_can_not_be_worked_is_refused_and_nothing_is_changed(autojump_clock):
    with pytest.raises(InvalidRequest, match="depends"):
        await then([*features("abc"), *features("d", depends_on="zebra")], amend=True)


async def test_a_list_is_not_complete_before_what_was_added_passes(autojump_clock):
    end, work, _ = await then(features("abcd"), amend=True, validator=Judge(d=9))

    assert end.outcome.kind == "blocked"
    assert work.state.standings[3].status is FeatureStatus.BLOCKED


async def test_features_go_by_priority_then_by_the_list_after_what_they_depend_on(autojump_clock):
    worker = Worker()
    given = [
        *features("a"),
        *features("b", depends_on="c"),
        *features("c", depends_on="d"),
        *features("d"),
        *features("e", priority=1),
    ]

    await harness(worker, list=given).run()

    assert worker.tries == ["e1", "a1", "d1", "c1", "b1"]


def test_a_ring_of_dependencies_is_refused_by_name():
    with pytest.raises(InvalidRequest, match="a -> b -> a"):
        harness(list=[*features("a", depends_on="b"), *features("b", depends_on="a")])


async def test_what_is_not_required_is_worked_but_not_waited_for(autojump_clock):
    work = harness(validator=Judge(b=9), list=[*features("a"), *features("b", required=False)])

    await work.run()

    assert work.is_complete()
    assert told(work).count("turn b1 not_validated") == 1
