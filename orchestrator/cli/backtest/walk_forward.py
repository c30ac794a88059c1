"""Walk-forward: options are chosen on one part of a recording and tried on the next, again and again. Pure.

    parts       1  2  3  4  5  6  7        --walk-forward 4 --in-sample 3
    fold 1      └──chosen─┘  test
    fold 2         └──chosen─┘  test
    fold 3            └──chosen─┘  test
    fold 4               └──chosen─┘  test

Invariant: a choice depends on nothing at or after the begin of its test.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from attrs import frozen

from orchestrator.errors import UsageError

_LEAST = 2
"""Slices that a part has at least."""


@frozen
class Fold:
    """One choice and its test."""

    number: int
    """From 1 up."""
    begin: datetime
    """The first slice that the choice depends on."""
    test: datetime
    """The first slice of the test; the choice depends on those before it."""
    end: datetime | None
    """The first slice after the test; None for the end of the recording."""


def fold(times: Sequence[datetime], folds: int, in_sample: int) -> tuple[Fold, ...]:
    """Return the folds of a recording, whose tests follow each other without a gap.

    Args:
        times: of its slices, oldest first.
        folds: how many, from 1 up.
        in_sample: parts of the length of a test that each choice depends on, from 1 up.

    Raises:
        UsageError: the recording is too short.
    """
    parts = folds + in_sample
    if len(times) < parts * _LEAST:
        raise UsageError(
            f"--walk-forward {folds}: expected a recording of {parts * _LEAST} slices or more for {parts} parts, was one of "
            f"{len(times)}; ask for fewer folds"
        )
    bounds = [*(times[part * len(times) // parts] for part in range(parts)), None]
    made: list[Fold] = []
    for number in range(1, folds + 1):
        begin, test = bounds[number - 1], bounds[number - 1 + in_sample]
        assert begin is not None
        assert test is not None
        made.append(Fold(number, begin, test, bounds[number + in_sample]))
    return tuple(made)
