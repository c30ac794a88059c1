"""Progress: rates and who moved last, from two looks at the store."""

from __future__ import annotations

import pytest

from orchestrator.cli.run.run_progress import Progress
from orchestrator.lifecycle import Status
from orchestrator.records import HarnessRecord


def known(name: str, step: int, status: Status = Status.RUNNING, **event: object) -> HarnessRecord:
    return HarnessRecord(name, status, 1, step, "m:C", True, 0, event)


def test_a_steady_rate_is_shown_from_the_second_look_on() -> None:
    progress = Progress()

    for look in range(5):
        progress.look([known("a", look * 10)], now=look * 0.5)
        rate = progress.rows(40)[0].rate
        assert rate == pytest.approx(20.0 if look else 0.0)


def test_a_harness_that_stands_still_comes_to_a_rate_of_nothing() -> None:
    progress = Progress()

    for look in range(200):
        progress.look([known("a", min(look, 10))], now=look * 0.25)

    assert progress.rows(40)[0].rate < 0.001


def test_a_harness_that_has_ended_has_no_rate() -> None:
    progress = Progress()
    progress.look([known("a", 0)], now=0.0)

    progress.look([known("a", 10, Status.COMPLETED)], now=1.0)

    assert progress.rows(40)[0].rate == 0.0
    assert progress.all().ended == 1


def test_of_too_many_those_that_moved_last_are_shown_in_their_old_order() -> None:
    progress = Progress()
    names = [f"h{number}" for number in range(10)]
    progress.look([known(name, 0) for name in names], now=0.0)

    progress.look([known(name, 1 if name in ("h7", "h2") else 0) for name in names], now=1.0)

    assert [row.name for row in progress.rows(2)] == ["h2", "h7"]
    assert progress.all().harnesses == 10
    assert progress.rows(0) == []


def test_a_cause_is_shown_only_for_what_does_not_run() -> None:
    progress = Progress()

    progress.look([known("a", 1, cause="old"), known("b", 1, Status.BACKING_OFF, cause="new")], now=0.0)

    assert [row.cause for row in progress.rows(40)] == ["", "new"]
