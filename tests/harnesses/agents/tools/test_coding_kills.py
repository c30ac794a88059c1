"""A coding harness with a model agent, killed at commits of its store: each edit is in the accepted work once.

All of them: python -m tests.harnesses.agents.tools.test_coding_kills
"""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from pathlib import Path

import pytest

from tests import ROOT
from tests.zygote import run_python

GIT = ["git", "-c", "user.name=a", "-c", "user.email=a@localhost"]


def prepare(folder: Path) -> None:
    """Make the user's repository."""
    work = folder / "work"
    subprocess.run([*GIT, "init", "--quiet", "-b", "main", work], check=True)
    (work / "log.txt").write_text("zero\n")
    for words in (["add", "."], ["commit", "--quiet", "-m", "base"]):
        subprocess.run([*GIT, "-C", work, *words], check=True)
    subprocess.run([*GIT, "clone", "--quiet", "--bare", work, folder / "user.git"], check=True)


def live(folder: Path, *fault: str) -> int:
    """Run the program to its end, or until it is killed; return its exit code."""
    program = ("-m", "tests.harnesses.agents.tools.coding_child", folder, *fault)
    env = {**os.environ, "XDG_STATE_HOME": str(folder / "state")}
    ended = run_python(*program, cwd=ROOT, capture_output=True, text=True, timeout=120, env=env)
    assert ended.returncode in (0, -signal.SIGKILL), ended.stderr[-3_000:]
    return ended.returncode


def accepted(folder: Path) -> str:
    """Return the file in the accepted work; no edit failed on the way."""
    command = [*GIT, f"--git-dir={folder / 'user.git'}", "show", "main:log.txt"]
    assert not (folder / "failed").exists()
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("fault", ["after:9", "before:11"])
def test_each_edit_is_in_the_accepted_work_once(tmp_path, fault):
    prepare(tmp_path)

    lives = [live(tmp_path, fault), live(tmp_path)]

    assert lives == [-signal.SIGKILL, 0]
    assert accepted(tmp_path) == "zero\none\ntwo\nthree\n"


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        prepare(Path(folder))
        live(Path(folder), "after:1000000")
        commits = int((Path(folder) / "commits").read_text())
    killed = 0
    for number in range(1, commits + 1):
        for moment in ("before", "after"):
            with tempfile.TemporaryDirectory() as folder:
                prepare(Path(folder))
                killed += live(Path(folder), f"{moment}:{number}") != 0
                live(Path(folder))
                assert accepted(Path(folder)) == "zero\none\ntwo\nthree\n", (moment, number)
    print(f"{commits} commits, {killed} kills: each edit once in the accepted work")


if __name__ == "__main__":
    main()
