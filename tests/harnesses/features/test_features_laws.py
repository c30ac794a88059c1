"""Laws that hold over any list, any policy and whatever agents, validators, crashes and people do."""

from __future__ import annotations

from attrs import frozen
from hypothesis import given, settings
from hypothesis import strategies as st

from harnesses.features.feature import Feature, FeatureStatus
from harnesses.features.feature_record import MAX_PROGRESS, FeatureState, RunStatus
from harnesses.features.planning.feature_list import check_locks
from harnesses.features.planning.feature_selectors import FirstPending
from harnesses.features.planning.next_move import Close, Done, Move, Recheck, Turn, Wait, is_complete, next_move, next_run
from harnesses.features.planning.state_changes import block, unblock
from harnesses.features.run_policy import FailFast, OnExhausted, RunMode, RunPolicy
from tests.harnesses.features.played import BROKEN, CUT, ERROR, FAIL, NOW, PASS, WORDS, answered, begun, feature, played

policies = st.builds(
    lambda mode, most, **others: RunPolicy(
        mode=mode, max_features_per_run=1 if mode is RunMode.STRICT_INCREMENTAL else most, **others
    ),
    st.sampled_from(RunMode),
    st.integers(1, 4),
    max_turns_per_feature=st.integers(1, 3),
    max_retries_per_feature=st.integers(0, 3),
    max_turns_per_run=st.none() | st.integers(1, 4),
    retry_budget_per_run=st.none() | st.integers(0, 3),
    max_set_backs_per_feature=st.integers(0, 2),
    fail_fast=st.builds(FailFast, on_chat_error=st.booleans(), on_validation_failure=st.booleans()),
    on_exhausted=st.sampled_from(OnExhausted),
    recheck_sample=st.integers(0, 2),
    recheck_all_at_end=st.booleans(),
)


@st.composite
def lists(draw: st.DrawFn) -> list[Feature]:
    count = draw(st.integers(1, 6))
    needs = [draw(st.sets(st.integers(0, n - 1), max_size=2)) if n else set[int]() for n in range(count)]
    listed = [
        feature(
            f"f{n}",
            depends_on=[f"f{other}" for other in sorted(needs[n])],
            priority=draw(st.integers(0, 2)),
            required=draw(st.booleans()) or n == 0,
        )
        for n in range(count)
    ]
    return draw(st.permutations(listed))


words = st.lists(st.sampled_from((*WORDS, PASS, FAIL, "block", "unblock")), max_size=60)


@frozen
class Moment:
    """A move, what answered it, and the state on either side."""

    before: FeatureState
    move: Move
    word: str
    after: FeatureState


def within(number: int, limit: int | None) -> bool:
    return limit is None or number <= limit


def history(listed: list[Feature], policy: RunPolicy, script: list[str]) -> list[Moment]:
    """Play a script in which people step in as well."""
    state, found = begun(*listed), list[Moment]()
    for number, word in enumerate(script):
        before, move = state, next_move(state, policy, FirstPending())
        of = {status: [one.feature_id for one in state.standings if one.status is status] for status in FeatureStatus}
        if word == "block" and of[FeatureStatus.PENDING]:
            state = block(state, policy, of[FeatureStatus.PENDING][number % len(of[FeatureStatus.PENDING])], "", NOW)
        elif of[FeatureStatus.BLOCKED] and (word == "unblock" or isinstance(move, Wait)):
            state = unblock(state, of[FeatureStatus.BLOCKED][number % len(of[FeatureStatus.BLOCKED])], NOW)
        elif isinstance(move, Turn | Recheck | Close) and word in WORDS:
            state = answered(state, policy, move, word)
        found.append(Moment(before, move, word, state))
    return found


@given(lists(), policies, words)
def test_a_feature_passes_by_a_verdict_that_passed_and_by_nothing_else(
    listed: list[Feature], policy: RunPolicy, script: list[str]
) -> None:
    for moment in history(listed, policy, script):
        gained = {one.id for one in moment.after.features if one.passes} - {
            one.id for one in moment.before.features if one.passes
        }

        assert gained <= (
            {moment.move.feature_id} if isinstance(moment.move, Turn | Recheck) and moment.word == PASS else set()
        )
        for one, standing in zip(moment.after.features, moment.after.standings, strict=True):
            assert one.id == standing.feature_id
            assert one.passes == (standing.status is FeatureStatus.PASSED)
            assert not one.passes or (standing.evidence is not None and standing.evidence.passed)


@given(lists(), policies, words)
def test_no_specification_is_ever_changed(listed: list[Feature], policy: RunPolicy, script: list[str]) -> None:
    for moment in history(listed, policy, script):
        assert moment.after.manifest is not None
        check_locks(moment.after.manifest, moment.after.features)


@given(lists(), policies, words)
def test_no_run_exceeds_its_limits_however_often_it_is_interrupted(
    listed: list[Feature], policy: RunPolicy, script: list[str]
) -> None:
    turns = 0
    for moment in history(listed, policy, script):
        if isinstance(moment.move, Turn) and moment.word in (PASS, FAIL, ERROR):
            turns += 1
        run = next_run(moment.after)

        assert within(turns, policy.max_turns_per_run)
        assert within(run.retries, policy.retry_budget_per_run)
        assert within(len(run.features), policy.features_per_run)
        for outcome in moment.after.runs:
            assert within(outcome.turns, policy.max_turns_per_run)
            assert within(outcome.retries, policy.retry_budget_per_run)
            assert within(len(outcome.processed_feature_ids), policy.features_per_run)
        if moment.after.run is None and moment.after.runs and moment.after.runs[-1].status is not RunStatus.INTERRUPTED:
            turns = 0


@given(lists(), policies, words)
def test_no_feature_is_tried_more_often_than_the_policy_allows(
    listed: list[Feature], policy: RunPolicy, script: list[str]
) -> None:
    for moment in history(listed, policy, script):
        for standing in moment.after.standings:
            assert standing.turns <= policy.tries_per_feature
            assert standing.set_backs <= policy.max_set_backs_per_feature + 1
        if isinstance(moment.move, Turn):
            assert moment.move.turn <= policy.tries_per_feature


@given(lists(), policies, words)
def test_no_two_tries_that_ended_have_the_same_number(listed: list[Feature], policy: RunPolicy, script: list[str]) -> None:
    tries = [
        (moment.move.feature_id, moment.move.attempt)
        for moment in history(listed, policy, script)
        if isinstance(moment.move, Turn) and moment.word in (PASS, FAIL, ERROR) and moment.before != moment.after
    ]

    assert len(tries) == len(set(tries))


@given(lists(), policies, words)
def test_a_feature_is_worked_only_while_all_it_depends_on_passes(
    listed: list[Feature], policy: RunPolicy, script: list[str]
) -> None:
    for moment in history(listed, policy, script):
        if isinstance(moment.move, Turn):
            passing = {one.id for one in moment.before.features if one.passes}
            needs = next(one.depends_on for one in moment.before.features if one.id == moment.move.feature_id)
            assert passing.issuperset(needs)


@given(lists(), policies, words)
def test_every_run_that_ended_is_handed_off_with_the_words_of_its_last_entry(
    listed: list[Feature], policy: RunPolicy, script: list[str]
) -> None:
    for moment in history(listed, policy, script):
        after = moment.after
        assert len(after.runs) <= MAX_PROGRESS
        assert len(after.progress) <= MAX_PROGRESS
        if moment.before.run is not None and after.run is None:
            assert after.runs[-1].run == moment.before.run.number
            assert after.progress[-1].summary == after.runs[-1].note


@given(lists(), policies, words)
def test_a_move_that_is_answered_changes_the_state(listed: list[Feature], policy: RunPolicy, script: list[str]) -> None:
    for moment in history(listed, policy, script):
        if isinstance(moment.move, Turn | Recheck | Close) and moment.word in (PASS, FAIL, ERROR, CUT, BROKEN):
            assert moment.before != moment.after


@settings(max_examples=200)
@given(lists(), policies, words)
def test_with_enough_good_verdicts_and_a_person_who_unblocks_every_list_becomes_complete(
    listed: list[Feature], policy: RunPolicy, script: list[str]
) -> None:
    moments = history(listed, policy, script)
    state = moments[-1].after if moments else begun(*listed)

    for _ in range(20):
        state, moves = played(state, policy, lambda move: PASS, most=200)
        if not isinstance(moves[-1], Wait):
            break
        for id in moves[-1].feature_ids:
            state = unblock(state, id, NOW)

    assert isinstance(moves[-1], Done)
    assert is_complete(state, policy)


@settings(max_examples=200)
@given(lists(), policies, st.data())
def test_without_people_and_crashes_every_list_comes_to_an_end(
    listed: list[Feature], policy: RunPolicy, data: st.DataObject
) -> None:
    answers = data.draw(st.lists(st.sampled_from((PASS, FAIL, ERROR)), min_size=1, max_size=12))
    endless = policy.on_exhausted is OnExhausted.STOP
    number = 0

    def answer(move: Move) -> str:
        nonlocal number
        number += 1
        return PASS if endless and isinstance(move, Turn) else answers[number % len(answers)]

    state, moves = played(begun(*listed), policy, answer, most=3000)

    assert isinstance(moves[-1], Done | Wait)
    assert state.run is None
    assert is_complete(state, policy) == isinstance(moves[-1], Done)


@settings(max_examples=200)
@given(lists(), st.sets(st.integers(0, 5)), st.integers(1, 3))
def test_a_feature_that_never_passes_starves_only_those_that_depend_on_it(
    listed: list[Feature], hopeless: set[int], tries: int
) -> None:
    bad = {f"f{n}" for n in hopeless}
    policy = RunPolicy(
        mode="unlimited_batch",
        max_turns_per_feature=tries,
        max_retries_per_feature=tries,
        fail_fast=FailFast(on_validation_failure=False),
    )

    state, _ = played(
        begun(*listed),
        policy,
        lambda move: FAIL if isinstance(move, Turn | Recheck) and move.feature_id in bad else PASS,
        most=500,
    )

    needs = {one.id: one.depends_on for one in listed}
    lost = set(bad & set(needs))
    while more := {id for id in needs if id not in lost and lost.intersection(needs[id])}:
        lost |= more
    assert {one.id for one in state.features if not one.passes} == lost
    assert len(state.runs) == 1
