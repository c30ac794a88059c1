"""Work that counts passes; changed in any one thing that it counts by, it does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.forgery.__main__ import trial
from tests.forgery.forging import FORGERIES


@pytest.mark.parametrize("kind", range(len(FORGERIES)), ids=[forge.__name__ for forge in FORGERIES])
def test_honest_work_passes_and_no_forgery_of_it_does(tmp_path: Path, kind: int) -> None:
    seeds = range(kind, kind + 10 * len(FORGERIES), len(FORGERIES))

    results = [trial(tmp_path / "project", seed) for seed in seeds]

    assert [(before, after) for _, before, after in results] == [(True, False)] * 10
