"""G11: whatever is done to a store by the program alone, and wherever it is killed, both verifiers say untouched."""

from __future__ import annotations

from pathlib import Path

import pytest

from .sequences import play


@pytest.mark.parametrize("seed", ["5/1", "5/2"])
def test_no_sequence_of_run_prune_fork_kill_vacuum_and_seal_looks_like_tampering(tmp_path: Path, seed: str) -> None:
    played = play(tmp_path, seed, acts=8)

    assert len(played.told) == 8
