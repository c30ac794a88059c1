"""A small repository whose commits are judged, for the tests of the validators."""

from __future__ import annotations

from pathlib import Path

from harnesses.coding.candidate import Candidate
from harnesses.coding.judge_repository import JudgeRepository
from harnesses.features.feature import Feature
from tests.harnesses.coding.git_repositories import commit_files, git, judging, make_repository

SHOP = "def total(prices):\n    raise NotImplementedError\n\n\ndef count(prices):\n    return len(prices)\n"
DONE = SHOP.replace("raise NotImplementedError", "return sum(prices)")
TESTS = """import pytest
from shop import count, total


def test_total():
    assert total([1, 2]) == 3


def test_count():
    assert count([1, 2]) == 2
"""
FILES = {"shop.py": SHOP, "tests/test_shop.py": TESTS, "check.sh": "python3 -c 'import shop; shop.total([])'\n"}
FEATURE = Feature("total", "It adds up.", steps=("tests/test_shop.py::test_total",))
ENV = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
"""Plugins of the machine's cost more than the tests."""


class Repository:
    """One that holds `FILES` at the base."""

    def __init__(self, folder: Path, judge: JudgeRepository, user: Path, base: str) -> None:
        self.judge, self.base = judge, base
        self._folder, self._user = folder, user

    async def commit(
        self, files: dict[str, str], *, gone: tuple[str, ...] = (), links: dict[str, str] | None = None
    ) -> Candidate:
        """Return the candidate that changes some files of the base."""
        git(self._user, "checkout", "--quiet", "--detach", self.base)
        for path in gone:
            git(self._user, "rm", "-r", "--quiet", path)
        for path, target in (links or {}).items():
            (self._user / path).unlink(missing_ok=True)
            (self._user / path).symlink_to(target)
        made = commit_files(self._user, files) if files or gone or links else self.base
        await self.judge.take(self._user, made)
        return Candidate(commit=made, base=self.base, checkouts=self.judge)


async def repository_in(folder: Path, files: dict[str, str] | None = None) -> Repository:
    """Make one."""
    user = make_repository(folder / "user", {**FILES, **(files or {})})
    origin, judge, _ = await judging(folder / "workspace", user)
    return Repository(folder, judge, user, await origin.ensure("work", judge))
