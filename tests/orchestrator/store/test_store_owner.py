"""A run is alive as long as its lock is held, and no longer, however it ends."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from orchestrator.store.owner import RunLock, is_alive, pid_of


def test_a_run_is_alive_until_it_lets_go(tmp_path: Path) -> None:
    store = tmp_path / "run.db"
    lock = RunLock(store)
    assert is_alive(store, lock.run)
    assert pid_of(store, lock.run) == os.getpid()

    lock.release()

    assert not is_alive(store, lock.run)
    assert os.listdir(tmp_path) == []


def test_a_killed_run_is_dead_and_its_file_is_swept_away(tmp_path: Path) -> None:
    store = tmp_path / "run.db"
    program = (
        "import os, signal, sys; from pathlib import Path; from orchestrator.store.owner import RunLock\n"
        "print(RunLock(Path(sys.argv[1])).run, flush=True); os.kill(os.getpid(), signal.SIGKILL)"
    )
    root = Path(__file__).resolve().parents[3]
    killed = subprocess.run([sys.executable, "-c", program, str(store)], capture_output=True, text=True, cwd=root, check=False)
    run = killed.stdout.strip()
    assert os.listdir(tmp_path) == [f"run.db.run-{run}"]

    assert not is_alive(store, run)

    assert os.listdir(tmp_path) == []


def test_a_run_that_never_was_is_dead(tmp_path: Path) -> None:
    assert not is_alive(tmp_path / "run.db", "0123456789ab")
    assert pid_of(tmp_path / "run.db", "0123456789ab") is None


def test_asking_does_not_take_the_lock_away(tmp_path: Path) -> None:
    store = tmp_path / "run.db"
    lock = RunLock(store)

    assert [is_alive(store, lock.run) for _ in range(3)] == [True] * 3

    lock.release()


def test_runs_have_names_of_their_own(tmp_path: Path) -> None:
    locks = [RunLock(tmp_path / "run.db") for _ in range(3)]

    assert len({lock.run for lock in locks}) == 3

    for lock in locks:
        lock.release()
