"""Real repositories for the tests, made by a `git` that knows nothing of the machine's configuration."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from harnesses.coding.agent_worktrees import AgentWorktrees
from harnesses.coding.git import find_git
from harnesses.coding.judge_repository import JudgeRepository
from harnesses.coding.user_repository import UserRepository, find_user_repository

ENV = {
    "PATH": os.environ["PATH"],
    "HOME": "/nonexistent",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "someone",
    "GIT_AUTHOR_EMAIL": "someone@example.org",
    "GIT_COMMITTER_NAME": "someone",
    "GIT_COMMITTER_EMAIL": "someone@example.org",
}


def git(directory: Path, *arguments: str | Path) -> str:
    """Run git as a person would, and return what it wrote."""
    done = subprocess.run(["git", *arguments], cwd=directory, env=ENV, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"git {arguments}: {done.stderr}"
    return done.stdout.strip()


def make_repository(directory: Path, files: dict[str, str] | None = None, *, bare: bool = False) -> Path:
    """Make a repository with one commit on `main`; with `bare` it has no checkout."""
    work = directory.with_name(f"{directory.name}.work") if bare else directory
    work.mkdir(parents=True)
    git(work, "init", "--quiet", "--initial-branch=main")
    commit_files(work, files or {"a.txt": "a\n"})
    if bare:
        git(work, "clone", "--quiet", "--bare", work, directory)
    return directory


def commit_files(work: Path, files: dict[str, str]) -> str:
    """Write files, commit them, and return the commit."""
    for path, text in files.items():
        (work / path).parent.mkdir(parents=True, exist_ok=True)
        (work / path).write_text(text)
    git(work, "add", "--all")
    git(work, "commit", "--quiet", "--message=work")
    return git(work, "rev-parse", "HEAD")


def fingerprint(repository: Path) -> dict[str, bytes]:
    """Return all that a person has in a repository but objects, refs and reflogs."""
    found: dict[str, bytes] = {}
    for path in sorted(repository.rglob("*")):
        name = path.relative_to(repository).as_posix()
        if path.is_file() and not any(part in name.split("/") for part in ("objects", "refs", "logs")):
            found[name] = path.read_bytes()
    return found


async def judging(folder: Path, repository: Path) -> tuple[UserRepository, JudgeRepository, AgentWorktrees]:
    """Return a user's repository with a judge's and a workshop."""
    origin = await find_user_repository(await find_git(repository), repository)
    judge = JudgeRepository(origin.git.to(folder / "judge.git"), folder / "judging")
    await judge.upkeep(origin.format)
    return origin, judge, AgentWorktrees(origin.git.to(folder / "workshop.git"), judge, folder / "trees", origin.format)
