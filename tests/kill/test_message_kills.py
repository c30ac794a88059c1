"""G15: killed at any moment, each message, answer and child of a step is there once, and no question is handled twice."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from .calls import SYNCS, WRITES, tampered, why_no_strace
from .message_lives import die_and_go_on, kill_at_random

needs_strace = pytest.mark.skipif(bool(why_no_strace()), reason=why_no_strace())


def test_messages_survive_kills_at_random_moments_once(tmp_path: Path) -> None:
    kill_at_random(tmp_path / "run.db", random.Random(1), kills=6, steps=60)


@pytest.mark.parametrize(("moment", "commit"), [("before", 5), ("after", 7), ("before", 9), ("after", 9)])
def test_messages_survive_death_at_a_commit_once(tmp_path: Path, moment: str, commit: int) -> None:
    assert die_and_go_on(tmp_path / "run.db", f"--fault={moment}:{commit}", steps=2)


@needs_strace
@pytest.mark.parametrize(("calls", "number"), [(WRITES, 60), (SYNCS, 7)])
def test_messages_survive_death_at_a_write_or_a_sync_once(tmp_path: Path, calls: str, number: int) -> None:
    assert die_and_go_on(tmp_path / "run.db", steps=3, before=tampered(calls, f"signal=KILL:when={number}"))
