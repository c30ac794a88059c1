"""What a harness is at is told apart, on every combination of what may be known of it."""

from __future__ import annotations

from itertools import product

import pytest

from orchestrator.lifecycle import Status
from orchestrator.runtime.activity import LEAST_S, UNKNOWN_S, Doing, Facts, Live, activity, limit_of, span

STATUSES = [*(status.value for status in Status), "interrupted"]
LIVES = [None, *(Live(doing, age_s, None, halted) for doing, age_s, halted in product(Doing, (1.0, 601.0), ("", "drawdown")))]


@pytest.mark.parametrize(
    ("status", "cause", "asks", "live"), list(product(STATUSES, ("", "GuardrailTripped: x"), (False, True), LIVES))
)
def test_every_combination_has_the_word_that_a_person_would_use(status, cause, asks, live):
    """The oracle: the same rules, said once more as ifs."""
    found = activity(Facts(status, cause, asks, live))

    if status == "blocked" and cause:
        assert found == "halted"
    elif status != "running":
        assert found == status
    elif asks or (live and live.doing is Doing.APPROVAL):
        assert found == "waiting_for_approval"
    elif live is None:
        assert found == "running"
    elif live.doing is Doing.WORKING and live.age_s > 600:
        assert found == "hung"
    elif live.halted:
        assert found == "halted"
    else:
        assert found == live.doing


@pytest.mark.parametrize(
    ("timeout_s", "recent", "limit_s"),
    [
        (5.0, (), 5.0),
        (None, (), UNKNOWN_S),
        (None, (1.0, 2.0), UNKNOWN_S),
        (None, (1.0, 2.0, 3.0), LEAST_S),
        (None, (0.0, 30.0, 60.0), 300.0),
        (None, (5.0, 4.0, 3.0), LEAST_S),
    ],
)
def test_a_step_is_hung_beyond_its_own_limit_or_ten_times_the_usual_time(timeout_s, recent, limit_s):
    assert limit_of(timeout_s, recent) == limit_s


@pytest.mark.parametrize(
    ("seconds", "words"), [(-1, "0 s"), (0.4, "0 s"), (119, "119 s"), (840, "14 min"), (7200, "2 h"), (172_800, "2 d")]
)
def test_a_length_of_time_is_told_in_one_unit(seconds, words):
    assert span(seconds) == words
