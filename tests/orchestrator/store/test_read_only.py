"""G13: a store can be read and verified where nothing can be written, and what is only in its log is not passed over."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from orchestrator.cli.read.verify_verb import verified
from orchestrator.store import SqliteReader, SqliteStore
from orchestrator.store.conformance import claim, step_row
from tests.tampering.proof import judge

from .test_sqlite_file import as_nobody, open_folder

ENV = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}


def make(path: Path, *, killed: bool, shared_memory: bool = False) -> None:
    """Make a store of three steps; one that was killed has the last of them in its log only."""
    live = path.with_name("live.db")
    with closing(SqliteStore(live)) as store:
        claimed = claim(store, "one")
        store.commit([step_row(claimed, number) for number in (1, 2, 3)])
        if killed:
            for end in ("", "-wal", "-head", *["-shm"] * shared_memory):
                shutil.copy(f"{live}{end}", f"{path}{end}")
    if not killed:
        for end in ("", "-head"):
            shutil.copy(f"{live}{end}", f"{path}{end}")
    for file in path.parent.glob("live.db*"):
        file.unlink()


def ask(folder: Path) -> dict[str, tuple[int, str]]:
    """Ask a store in a folder that is mounted read-only for these commands."""
    commands = {
        "verify": f"{sys.executable} -m orchestrator verify",
        "alone": f"{sys.executable} -m orchestrator.verify_alone run.db",
        "steps": f"{sys.executable} -m orchestrator steps one --json",
    }
    said: dict[str, tuple[int, str]] = {}
    for name, command in commands.items():
        script = f"mount --bind {folder} {folder} && mount -o remount,ro,bind {folder} && cd {folder} && {command}"
        ran = subprocess.run(["unshare", "-m", "sh", "-c", script], capture_output=True, text=True, env=ENV, check=False)
        said[name] = ran.returncode, ran.stdout + ran.stderr
    return said


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount")
@pytest.mark.parametrize("killed", [False, True])
def test_it_is_read_and_verified_on_a_read_only_mount(killed: bool) -> None:
    if subprocess.run(["unshare", "-m", "true"], check=False).returncode:
        pytest.skip("mounts are not allowed here")
    with open_folder() as folder:
        make(folder / "run.db", killed=killed)
        before = sorted(file.name for file in folder.iterdir())

        said = ask(folder)

        assert {name: code for name, (code, _) in said.items()} == {"verify": 0, "alone": 0, "steps": 0}, said
        assert said["steps"][1].count("\n") == 3
        assert sorted(file.name for file in folder.iterdir()) == before


@pytest.mark.parametrize("shared_memory", [False, True])
@pytest.mark.parametrize("killed", [False, True])
def test_it_is_read_and_verified_by_somebody_who_can_write_nothing(killed: bool, shared_memory: bool) -> None:
    with open_folder() as folder:
        path = folder / "run.db"
        make(path, killed=killed, shared_memory=shared_memory)
        os.chmod(folder, 0o555)

        try:
            with as_nobody(), closing(SqliteReader(path)) as reader:
                assert [step.step_number for step in reader.steps("one")] == [1, 2, 3]
                assert list(verified(str(path), None, deep=True).findings) == judge(path)[1] == []
        finally:
            os.chmod(folder, 0o755)
