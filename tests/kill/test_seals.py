"""G11: after `kill -9` at any moment, and while it runs, a store verifies clean: no crash looks like a tampering."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from orchestrator.store.integrity.chain_head import head_path
from tests.tampering.proof import judge

from .lives import Life

STEPS = 200


def assert_clean(store: Path) -> int:
    """Assert that both verifiers find nothing; return how many records wait for a seal."""
    if not store.exists() or not head_path(store).exists():
        # Killed before there was a store: its head is made first.
        assert not store.exists() or store.stat().st_size == 0
        return 0
    proof, alone = judge(store)
    assert (list(proof.findings), alone) == ([], [])
    return proof.unsealed


def test_a_store_verifies_clean_while_it_runs_and_after_each_kill(tmp_path: Path) -> None:
    chance = random.Random(5)
    store, kills, ended = tmp_path / "run.db", 0, False
    while not ended:
        life = Life(store, steps=STEPS)
        ended = life.listen(until=b"\n") or life.listen(chance.uniform(0.0, 0.4))
        if not ended:
            assert_clean(store)
            ended = life.listen(chance.uniform(0.0, 0.4))
        if not ended:
            life.kill()
            kills += 1
        assert life.end().code in (0, -9)
        assert_clean(store)

    assert kills > 0
    assert assert_clean(store) == 0


@pytest.mark.parametrize("moment", ["before:5", "after:20"])
def test_steps_that_wait_for_a_seal_when_it_is_killed_are_sealed_by_the_next_program(tmp_path: Path, moment: str) -> None:
    store = tmp_path / "run.db"

    died = Life(store, "--only=fields", f"--fault={moment}", steps=STEPS).end()
    unsealed = assert_clean(store)
    ended = Life(store, "--only=fields", steps=STEPS).end()

    assert (died.code, ended.code) == (-9, 0)
    assert unsealed > 0
    assert assert_clean(store) == 0
