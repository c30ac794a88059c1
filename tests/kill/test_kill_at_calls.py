"""G1, G2: a program that dies or fails at any commit, write or sync loses nothing that it has acknowledged."""

from __future__ import annotations

from pathlib import Path

import pytest

from .calls import SYNCS, WRITES, die_and_go_on, fail_and_go_on, tampered, watched, why_no_strace
from .lives import Life

needs_strace = pytest.mark.skipif(bool(why_no_strace()), reason=why_no_strace())


@pytest.mark.parametrize(("moment", "commit"), [("before", 1), ("after", 2), ("before", 5), ("after", 5)])
def test_death_at_a_commit_loses_nothing(tmp_path: Path, moment: str, commit: int) -> None:
    died = die_and_go_on(tmp_path / "run.db", f"--fault={moment}:{commit}", steps=5)

    assert died


@pytest.mark.parametrize(("moment", "commit"), [("after", 3), ("before", 6)])
def test_death_at_a_commit_loses_nothing_stored_of_harnesses_that_go_on_before(
    tmp_path: Path, moment: str, commit: int
) -> None:
    assert die_and_go_on(tmp_path / "run.db", f"--fault={moment}:{commit}", "--group", steps=50)


@needs_strace
@pytest.mark.parametrize("call", [12, 110])
def test_death_at_a_write_loses_nothing(tmp_path: Path, call: int) -> None:
    assert die_and_go_on(tmp_path / "run.db", steps=15, before=tampered(WRITES, f"signal=KILL:when={call}"))


@needs_strace
@pytest.mark.parametrize("call", [5, 12])
def test_death_at_a_sync_loses_nothing(tmp_path: Path, call: int) -> None:
    assert die_and_go_on(tmp_path / "run.db", steps=15, before=tampered(SYNCS, f"signal=KILL:when={call}"))


@needs_strace
def test_every_acknowledgement_comes_after_a_sync(tmp_path: Path) -> None:
    life = Life(tmp_path / "run.db", "--only=fields", steps=20, before=watched(tmp_path / "calls"))
    assert life.end().code == 0

    synced: list[bool] = []
    for line in (tmp_path / "calls").read_text().splitlines():
        if '"fields ' in line:
            synced.append(False)
        elif "sync(" in line and synced:
            synced[-1] = True

    assert synced[:-1] == [True] * 18


@needs_strace
@pytest.mark.parametrize(
    ("calls", "error", "when"),
    [
        (SYNCS, "EIO", "once"),
        ("pwrite64", "ENOSPC", "from then on"),
    ],
)
def test_a_disk_that_fails_ends_the_program_loudly_and_loses_nothing(
    tmp_path: Path, calls: str, error: str, when: str
) -> None:
    number = {SYNCS: 8, "pwrite64": 80}[calls]
    tampering = f"error={error}:when={number}{'' if when == 'once' else '+'}"

    end = fail_and_go_on(tmp_path / "run.db", steps=15, before=tampered(calls, tampering))

    assert end.code == 1
    assert "run.db failed while steps wait" in end.errors
    assert "run.db" in end.errors
