"""Features that are brought about by code: a harness for git repositories, where feature lists come from, and who proves them.

CodingHarness    works the features of a repository, each try in a worktree and on a branch of its own
sources          FeatureFile (TOML, JSON, Markdown), FailingTests
validators       Command, PytestNodes, OnlyTouches, TestsKept, SuiteKept; `a & b` accepts what both accept
PythonTests      judges source text instead of commits, without any repository
"""

from harnesses.coding.candidate import Candidate, Change, Checkouts
from harnesses.coding.git import Identity
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
    "OnlyTouches",
    "PytestNodes",
    "PythonTests",
    "SuiteKept",
    "TestsKept",
]
