"""A program killed at random while its state class changes goes on with the same state, migrated once per version."""

from __future__ import annotations

from pathlib import Path

import pytest

from .versions_child import VERSIONS
from .versions_lives import kill_between_versions


@pytest.mark.parametrize("seed", [1, 2])
def test_lives_of_different_versions_migrate_once_and_lose_nothing(tmp_path: Path, seed: int) -> None:
    end = kill_between_versions(tmp_path / "case", kills=6, seed=seed)

    assert end.kills == 6
    assert 1 <= end.migrations < len(VERSIONS)
