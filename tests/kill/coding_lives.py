"""Lives of the program that works a repository: started, killed, and its end held against that of one that was not.

At the end of all lives: the features, byte for byte as JSON; the files on `main`, by the hash of their tree; each failed try
on a branch; no worktree left; no process left.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path

from attrs import define, frozen

from orchestrator import StoreUnusable
from orchestrator.codec import decode, encode
from orchestrator.store import SqliteReader
from tests import ROOT
from tests.zygote import run_python

from .lives import assert_sound

_LONGEST_S = 180.0
_MOST_LIVES = 400
_GIT = {
    "PATH": os.environ["PATH"],
    "HOME": "/nonexistent",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    **{f"GIT_{who}_{what}": "someone" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
}
_WRAPPER = """#!/bin/sh
# Counts the git processes of one life; the one that is due kills the program, before or after it has done its work.
here=$(dirname "$0")
read -r moment due < "$here/plan"
echo x >> "$here/count"
if [ "$(wc -l < "$here/count")" = "$due" ]; then
    case "$moment" in
        before) kill -KILL $PPID; exit 1 ;;
        during) kill -KILL $PPID; sleep 0.05; exec {git} "$@" ;;
        after) {git} "$@"; code=$?; kill -KILL $PPID; exit $code ;;
    esac
fi
exec {git} "$@"
"""


@frozen
class World:
    """What is left when all is done."""

    features: str
    """JSON."""
    tree: str
    """Of `main`."""
    failed: tuple[str, ...]
    """Features that have a failed try on a branch."""
    merges: int


@define
class Case:
    """One repository and one store, over all lives of the program that works them."""

    folder: Path
    features: int
    lives: int = 0
    kills: int = 0

    def prepare(self) -> None:
        """Make the repository, and a `git` that can kill who calls it."""
        work = self.folder / "work"
        work.mkdir(parents=True)
        (work / "README").write_text("features\n")
        for command in (["init", "-qb", "main"], ["add", "-A"], ["commit", "-qm", "begin"]):
            subprocess.run(["git", *command], cwd=work, env=_GIT, check=True)
        subprocess.run(["git", "clone", "-q", "--bare", work, self.folder / "user.git"], env=_GIT, check=True)
        wrapper = self.folder / "bin" / "git"
        wrapper.parent.mkdir()
        wrapper.write_text(_WRAPPER.format(git=shutil.which("git")))
        wrapper.chmod(0o755)

    def live(self, *arguments: str, git: tuple[str, int] | None = None) -> bool:
        """Let the program live once; return whether it was killed.

        Args:
            git: `before`, `during` or `after` the git process of this number, it is killed.
        """
        self.lives += 1
        assert self.lives < _MOST_LIVES, "it does not come to its end"
        env = dict(os.environ)
        if git is not None:
            wrapped = self.folder / "bin"
            (wrapped / "count").unlink(missing_ok=True)
            (wrapped / "plan").write_text(f"{git[0]} {git[1]}\n")
            env["PATH"] = f"{wrapped}:{env['PATH']}"
        with (self.folder / "errors").open("wb") as errors:
            command = ["-m", "tests.kill.coding_child", str(self.folder), f"--features={self.features}", *arguments]
            code = run_python(*command, cwd=ROOT, env=env, stdout=errors, stderr=errors, timeout=_LONGEST_S).returncode
        said = (self.folder / "errors").read_text()
        assert code in (0, -signal.SIGKILL), f"the program ended with code {code}:\n{said[-4000:]}"
        killed: bool = code != 0
        self.kills += killed
        return killed

    def finish(self) -> None:
        """Let it live until it is complete. What was cut off ends a run, so that may take several."""
        while not self.is_complete():
            assert not self.live()

    def is_complete(self) -> bool:
        """Return whether every feature is proven."""
        return bool(known := self._status()) and known == {"coding": "completed"}

    def _status(self) -> Mapping[str, str]:
        try:
            with closing(SqliteReader(self.folder / "run.db")) as reader:
                return {harness.name: str(harness.status) for harness in reader.harnesses()}
        except StoreUnusable:
            return {}

    def world(self) -> World:
        """Return what is left, having looked that nothing else is."""
        assert_sound(self.folder / "run.db")
        with closing(SqliteReader(self.folder / "run.db")) as reader:
            (known,) = reader.harnesses()
            state = reader.state_at("coding", known.current_step)
        features = encode(decode(state)["features"])
        repository = self.folder / "user.git"
        for place in ("trees", "judging"):
            assert not list((self.folder / "space" / place).glob("*")), "a worktree is left"
        assert not list(repository.rglob("*.lock")), "a lock is left in the user's repository"
        self.git("fsck", "--strict", "--no-dangling")
        branches = self.git("for-each-ref", "--format=%(refname:lstrip=2)", "refs/heads/harness").splitlines()
        assert {branch.split("/")[1] for branch in branches} <= {"coding"}
        failed = tuple(sorted({branch.split("/")[2] for branch in branches}))
        merges = int(self.git("rev-list", "--count", "--first-parent", "--merges", "main"))
        assert int(self.git("rev-list", "--count", "--merges", "main")) == merges
        return World(features, self.git("rev-parse", "main^{tree}"), failed, merges)

    def git(self, *arguments: str) -> str:
        """Run git in the user's repository."""
        done = subprocess.run(
            ["git", *arguments], cwd=self.folder / "user.git", env=_GIT, check=True, capture_output=True, text=True
        )
        return done.stdout.strip()


def uninterrupted(folder: Path, features: int) -> tuple[World, int, int]:
    """Return what a program leaves that is not killed; how many commits it makes, and how often it starts git."""
    case = Case(folder, features)
    case.prepare()
    assert not case.live("--fault=before:1000000", git=("before", 1_000_000))
    return case.world(), int((folder / "commits").read_text()), len((folder / "bin" / "count").read_text().splitlines())


def killed_once(folder: Path, features: int, *arguments: str, git: tuple[str, int] | None = None) -> World:
    """Return what a program leaves that is killed at one moment, and goes on."""
    case = Case(folder, features)
    case.prepare()
    assert case.live(*arguments, git=git), "it was not killed"
    case.finish()
    return case.world()


def killed_around(folder: Path, features: int, *gits: tuple[str, int]) -> World:
    """Return what a program leaves that is killed around a git process in each of its first lives."""
    case = Case(folder, features)
    case.prepare()
    for git in gits:
        assert case.live(git=git), f"it was not killed {git}"
        wait_until_gone(folder)
    case.finish()
    return case.world()


def killed_each_life(folder: Path, features: int, faults: Sequence[str]) -> tuple[World, int]:
    """Return what a program leaves that is killed at a commit of each life, by these faults in turn, and how often it was."""
    case = Case(folder, features)
    case.prepare()
    while case.live(f"--fault={faults[case.lives % len(faults)]}"):
        pass
    case.finish()
    return case.world(), case.kills


def wait_until_gone(folder: Path, within_s: float = 30.0) -> None:
    """Wait until no process works below a folder."""
    deadline = time.monotonic() + within_s
    while any(_works_below(number, folder) for number in os.listdir("/proc") if number.isdigit()):
        assert time.monotonic() < deadline, "a process is left"
        time.sleep(0.05)


def _works_below(number: str, folder: Path) -> bool:
    try:
        return os.readlink(f"/proc/{number}/cwd").startswith(str(folder))
    except OSError:
        return False
