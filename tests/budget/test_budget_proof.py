"""A pool is never overshot by harnesses that crash in programs that are killed, and hardly anything of it is lost to them."""

from __future__ import annotations

from pathlib import Path

import pytest

from .proof import Trial


@pytest.mark.parametrize("programs", [1, 2])
def test_a_pool_is_spent_and_never_overshot_by_programs_that_are_killed(programs: int, tmp_path: Path) -> None:
    trial = Trial(tmp_path, harnesses=20, limit=200_000, kills=4, seed=3, programs=programs)

    account = trial.run()

    assert account.kills == 4
    assert account.overshoot == 0
    assert account.use >= 0.95
