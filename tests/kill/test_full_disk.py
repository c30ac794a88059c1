"""G1: a disk that runs full ends the program loudly; nothing acknowledged is lost, and with room again it goes on."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from .calls import fail_and_go_on, go_on
from .lives import History, Life


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Give a file system with room for 3 MB."""
    if os.geteuid() != 0:
        pytest.skip("only root may mount a file system")
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", folder], capture_output=True, text=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip(f"a file system cannot be mounted here: {mounted.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "--lazy", folder], check=True)


def test_a_full_disk_ends_the_program_loudly_and_loses_nothing(small_disk: Path) -> None:
    history = History(small_disk / "run.db")
    life = Life(history.store, steps=300)

    end = life.end()

    assert end.code == 1
    assert "run.db failed while steps wait" in end.errors
    assert "run.db cannot grow: database or disk is full; free some space, then `orchestrator run FILE`" in end.errors
    history.add(life)
    assert sum(history.verify().values()) > 100
    subprocess.run(["mount", "-o", "remount,size=60m", small_disk], check=True)
    go_on(history, steps=300)


def test_a_program_that_starts_on_a_full_disk_says_so(small_disk: Path) -> None:
    filler = small_disk / "filler"
    filler.write_bytes(b"x" * 3_000_000)
    with filler.open("ab") as file:
        room = os.statvfs(small_disk)
        os.posix_fallocate(file.fileno(), 3_000_000, room.f_bavail * room.f_frsize)

    life = Life(small_disk / "run.db", steps=10)
    end = life.end()

    assert end.code == 1
    assert "orchestrator.errors.Store" in end.errors
    assert life.acknowledged == []
    filler.unlink()
    go_on(History(small_disk / "run.db"), steps=10)


def test_a_limit_on_the_size_of_files_ends_the_program_loudly_and_loses_nothing(tmp_path: Path) -> None:
    # In units of 512 bytes for sh: a write past it fails.
    limited = ["sh", "-c", 'ulimit -f 4000; exec "$@"', "sh"]

    end = fail_and_go_on(tmp_path / "run.db", steps=150, before=limited)

    assert end.code == 1
    assert "run.db failed while steps wait" in end.errors
    assert "nothing recorded is lost" in end.errors or "earlier records are safe" in end.errors
