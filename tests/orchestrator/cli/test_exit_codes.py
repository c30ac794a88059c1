"""Exit codes: every outcome and every error has one, and the worst of a run is its own."""

from __future__ import annotations

import signal

import pytest

from orchestrator import errors as e
from orchestrator.cli.exit_codes import ExitCode, of_error, of_outcome, of_run
from orchestrator.outcome import Outcome, OutcomeKind


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (OutcomeKind.COMPLETED, 0),
        (OutcomeKind.FINISHED, 0),
        (OutcomeKind.FAILED, 1),
        (OutcomeKind.GAVE_UP, 1),
        (OutcomeKind.STOPPED, 3),
        (OutcomeKind.BUDGET_SPENT, 3),
        (OutcomeKind.BLOCKED, 4),
    ],
)
def test_every_outcome_has_a_code(kind: OutcomeKind, code: int) -> None:
    assert of_outcome(Outcome(kind)) == code


def test_no_outcome_is_forgotten() -> None:
    assert [of_outcome(Outcome(kind)) for kind in OutcomeKind]


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (e.OwnedElsewhere("x"), 75),
        (e.OwnershipLost("x"), 75),
        (e.StoreCorrupt("x"), 5),
        (e.StoreUnusable("x"), 2),
        (e.UnknownHarness("x"), 2),
        (e.UsageError("x"), 2),
        (e.StoreBusy("x"), 1),
        (e.StoreLost("x"), 1),
        (ValueError("x"), 1),
    ],
)
def test_every_error_has_a_code(error: Exception, code: int) -> None:
    assert of_error(error) == code


@pytest.mark.parametrize(("error", "code"), [(e.UnknownOutcome("x"), 6), (e.Latched("x"), 4), (e.Waiting("x"), 4)])
def test_what_blocks_a_harness_has_a_code(error: Exception, code: int) -> None:
    assert of_outcome(Outcome(OutcomeKind.BLOCKED, error=error)) == code


def test_a_budget_that_is_spent_leaves_a_harness_resumable() -> None:
    assert of_outcome(Outcome(OutcomeKind.BUDGET_SPENT, error=e.BudgetExhausted("x"))) == ExitCode.STOPPED


def test_a_store_lost_because_it_is_damaged_is_a_matter_of_integrity() -> None:
    lost = e.StoreLost("x")
    lost.__cause__ = e.StoreCorrupt("y")

    assert of_error(lost) == ExitCode.INTEGRITY


def test_an_error_that_is_its_own_cause_ends_the_search() -> None:
    error = ValueError("x")
    error.__cause__ = error

    assert of_error(error) == ExitCode.FAILED


def test_of_all_codes_that_apply_the_gravest_is_the_runs() -> None:
    outcomes = [
        Outcome(OutcomeKind.FAILED, error=e.OwnedElsewhere("x")),
        Outcome(OutcomeKind.FAILED, error=e.StoreCorrupt("x")),
        Outcome(OutcomeKind.BLOCKED, error=e.UnknownOutcome("x")),
        None,
        Outcome(OutcomeKind.FAILED, error=e.UsageError("x")),
        Outcome(OutcomeKind.FAILED, error=ValueError("x")),
        Outcome(OutcomeKind.BLOCKED),
        Outcome(OutcomeKind.STOPPED),
        Outcome(OutcomeKind.COMPLETED),
    ]

    found = [of_run(filter(None, outcomes[n:]), signalled=signal.SIGTERM if n <= 3 else None) for n in range(len(outcomes))]

    assert found == [75, 5, 6, 143, 2, 1, 4, 3, 0]


def test_what_fails_besides_the_harnesses_counts_as_well() -> None:
    assert of_run([Outcome(OutcomeKind.COMPLETED)], [ExitCode.FAILED]) == 1


def test_a_run_of_nothing_is_well() -> None:
    assert of_run([]) == 0


@pytest.mark.parametrize("cause", [e.StoreUnusable("it was deleted"), e.UsageError("y"), OSError("disk full"), None])
def test_a_store_that_is_lost_midway_is_a_failure_of_the_world_and_no_matter_of_usage(cause: Exception | None) -> None:
    lost = e.StoreLost("x")
    lost.__cause__ = cause
    failed = e.HarnessFailed("z")
    failed.__cause__ = lost

    assert (of_error(lost), of_error(failed)) == (ExitCode.FAILED, ExitCode.FAILED)
