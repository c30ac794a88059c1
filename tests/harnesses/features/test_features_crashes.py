"""A program that is killed at any of its commits, and started again, ends as one that was not; it asks no agent twice for what
is on record."""

from __future__ import annotations

from collections import Counter

import pytest
from attrs import evolve

from harnesses.features import RunPolicy, RunStatus
from orchestrator.errors import StoreError, StoreLost
from orchestrator.store.in_memory.memory_store import MemoryStore
from orchestrator.testing import FaultyStore, run_in_lives, run_to_end
from tests.harnesses.features.worked import PATIENT, UNLIMITED, Judge, Worker, features, harness, without_times

LIST = [*features("ab"), *features("c", depends_on="a", priority=5)]
BLOCKING = evolve(UNLIMITED, recheck_sample=0)
BOUNDED = RunPolicy(
    mode="bounded_batch",
    max_features_per_run=2,
    max_turns_per_feature=3,
    max_retries_per_feature=2,
    retry_budget_per_run=2,
    fail_fast=PATIENT,
)
CASES = {
    "refused once, failed once": (UNLIMITED, {"b1": ConnectionError("no route")}, {"a": 2}, {}),
    "set back once": (UNLIMITED, {}, {"b": 2}, {"a": 1}),
    "blocked": (BLOCKING, {}, {"b": 9}, {}),
    "bounded": (BOUNDED, {}, {"a": 2, "c": 2}, {}),
}


def make(case):
    policy, raises, accepted_at, rotten = CASES[case]
    worker = Worker(raises)
    return worker, harness(worker, Judge(rotten=rotten, **accepted_at), list=LIST, policy=policy)


async def uninterrupted(case):
    worker, work = make(case)
    store = FaultyStore(MemoryStore(), StoreError("never"), at=0)
    return worker, await run_to_end(work, store=store), store.commits


async def life(work, store, at=0, *, after=False):
    """Run a program that dies at a commit; return its end, or None if it has died."""
    end = None
    try:
        end = await run_to_end(work, store=FaultyStore(store, StoreError("dies"), at=at, after=after))
    except* StoreLost:
        store.close()
    return end


async def killed(case, at, *, after):
    """Return what was asked of the agent, and the end, of a program that dies at a commit and is started again."""
    store, asked, end = MemoryStore(), Counter(), None
    for dies_at in (at, 0):
        worker, work = make(case)
        end = end or await life(work, store, dies_at, after=after)
        asked.update(worker.tries)
    return asked, end


@pytest.mark.parametrize("case", ["refused once, failed once", "blocked", "bounded"])
@pytest.mark.parametrize("after", [False, True])
async def test_killed_at_any_commit_it_ends_as_if_it_had_not_been(autojump_clock, case, after):
    _, whole, commits = await uninterrupted(case)
    assert commits > 15

    # Once its run is handed off, a new start is a new run; only a list that is complete, or waits, has none.
    last = commits - 1 - after if case == "bounded" else commits
    for at in range(1, last + 1):
        _, end = await killed(case, at, after=after)

        assert without_times(end.state) == without_times(whole.state), at
        assert str(end.outcome.kind) == str(whole.outcome.kind), at
        assert end.state.run is None, at


@pytest.mark.parametrize("after", [False, True])
async def test_what_an_agent_has_done_is_not_asked_again_once_it_is_on_record(autojump_clock, after):
    worker, _, commits = await uninterrupted("refused once, failed once")
    whole = Counter(worker.tries)

    again = []
    for at in range(1, commits + 1):
        asked, _ = await killed("refused once, failed once", at, after=after)
        assert asked.keys() == whole.keys(), at
        again.append((asked - whole).total())

    # Asked again is only one whose outcome was not recorded; with the commit carried out, not even that.
    assert max(again) == (0 if after else 1)
    assert sum(again) <= len(whole)


@pytest.mark.parametrize("after", [False, True])
async def test_each_run_that_was_killed_is_handed_off_as_interrupted(autojump_clock, after):
    _, _, commits = await uninterrupted("refused once, failed once")

    for at in range(1, commits + 1):
        _, end = await killed("refused once, failed once", at, after=after)

        outcomes = [step.output.ended for step in end.steps if step.output.ended]
        assert [outcome.run for outcome in outcomes] == list(range(1, len(outcomes) + 1)), at
        assert {outcome.status for outcome in outcomes[:-1]} <= {RunStatus.INTERRUPTED}, at
        assert outcomes[-1].status is RunStatus.SUCCEEDED, at
        assert outcomes[-1].turns == 5, at


@pytest.mark.parametrize("steps", [1, 2, 3])
@pytest.mark.parametrize("case", ["refused once, failed once", "blocked"])
async def test_killed_again_and_again_it_comes_to_the_same_end(autojump_clock, case, steps):
    _, whole, _ = await uninterrupted(case)

    end = await run_in_lives(lambda: make(case)[1], steps_each=steps)

    assert end.lives > 2
    assert without_times(end.state) == without_times(whole.state)


async def test_limits_of_a_run_hold_over_a_kill(autojump_clock):
    policy = evolve(UNLIMITED, max_turns_per_run=3, recheck_sample=0)

    never = FaultyStore(MemoryStore(), StoreError("never"), at=0)
    await run_to_end(harness(list=features("abcdef"), policy=policy), store=never)

    for at in range(1, never.commits):
        store, asked, end = MemoryStore(), 0, None
        for dies_at in (at, 0):
            worker = Worker()
            end = end or await life(harness(worker, list=features("abcdef"), policy=policy), store, dies_at)
            asked += len(worker.asked)

        assert end.state.runs[-1].turns == 3, at
        assert asked in (3, 4), at
