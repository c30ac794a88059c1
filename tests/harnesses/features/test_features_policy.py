"""Laws of the run policy: it says what it allows, and refuses what contradicts itself."""

from __future__ import annotations

import pytest

from harnesses.features.errors import InvalidRequest
from harnesses.features.run_policy import OnExhausted, RunMode, RunPolicy


def test_by_default_a_run_is_one_try_at_one_feature_and_its_failure_ends_it() -> None:
    policy = RunPolicy()

    assert (policy.mode, policy.features_per_run, policy.tries_per_feature) == (RunMode.STRICT_INCREMENTAL, 1, 1)
    assert policy.fail_fast.on_health_check_error
    assert not policy.fail_fast.on_chat_error
    assert policy.fail_fast.on_validation_failure


@pytest.mark.parametrize("mode", list(RunMode))
def test_words_do_for_modes(mode: RunMode) -> None:
    assert RunPolicy(mode=str(mode)).mode is mode
    assert RunPolicy(on_exhausted="stop").on_exhausted is OnExhausted.STOP


@pytest.mark.parametrize(
    ("mode", "most", "allowed"),
    [
        ("strict_incremental", 1, 1),
        ("bounded_batch", 1, 1),
        ("bounded_batch", 7, 7),
        ("unlimited_batch", 1, None),
        ("unlimited_batch", 0, None),
        ("unlimited_batch", -5, None),
    ],
)
def test_each_mode_looks_at_its_own_limit_of_features(mode: str, most: int, allowed: int | None) -> None:
    assert RunPolicy(mode=mode, max_features_per_run=most).features_per_run == allowed


@pytest.mark.parametrize(
    "wrong",
    [
        {"max_features_per_run": 2},
        {"max_features_per_run": 0},
        {"mode": "bounded_batch", "max_features_per_run": 0},
        {"mode": "some"},
        {"on_exhausted": "give up"},
        {"max_turns_per_feature": 0},
        {"max_turns_per_feature": None},
        {"max_turns_per_feature": True},
        {"max_turns_per_feature": 1.0},
        {"max_turns_per_run": 0},
        {"max_retries_per_feature": -1},
        {"retry_budget_per_run": -1},
        {"max_set_backs_per_feature": -1},
        {"recheck_sample": -1},
    ],
    ids=str,
)
def test_a_policy_that_allows_nothing_or_contradicts_itself_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(InvalidRequest, match=r"InvalidRequest: run policy .*expected .*, was .*; "):
        RunPolicy(**wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(("turns", "retries", "tries"), [(1, 0, 1), (1, 3, 1), (3, 0, 1), (3, 2, 3), (3, 1, 2), (5, 9, 5)])
def test_tries_end_with_the_turns_or_with_the_retries(turns: int, retries: int, tries: int) -> None:
    assert RunPolicy(max_turns_per_feature=turns, max_retries_per_feature=retries).tries_per_feature == tries
