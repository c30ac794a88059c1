"""A harness that works on the features of a git repository, with sources of feature lists and validators of commits.

CodingHarness    works on the features of a repository, each try in its own worktree and on its own branch
sources          FeatureFile (TOML, JSON, Markdown), FailingTests
validators       Command, PytestNodes, OnlyTouches, TestsKept, SuiteKept; `a & b` accepts what both accept
PullRequest      where accepted work is proposed
PythonTests      validates source text instead of commits, without a repository
"""

from harnesses.coding.candidate import Candidate, Change, Checkouts
from harnesses.coding.git import Identity
from harnesses.coding.merge_limits import MergeLimits
from harnesses.coding.pull_request import PullRequest
from harnesses.coding.python_tests import PythonTests
from harnesses.coding.sources import FailingTests, FeatureFile, FeatureSource
from harnesses.coding.validators import Command, OnlyTouches, PytestNodes, SuiteKept, TestsKept
from harnesses.coding.workplace.coding_harness import CodingHarness

__all__ = [
    "Candidate",
    "Change",
    "Checkouts",
    "CodingHarness",
    "Command",
    "FailingTests",
    "FeatureFile",
    "FeatureSource",
    "Identity",
    "MergeLimits",
    "OnlyTouches",
    "PullRequest",
    "PytestNodes",
    "PythonTests",
    "SuiteKept",
    "TestsKept",
]
