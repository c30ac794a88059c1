"""Validators of the coding harness: who says whether a commit does what it should. Never the agent that made it.

    Command        a command ends well
    PytestNodes    the tests of the feature pass
    OnlyTouches    the commit touches only these paths                  (guards)
    TestsKept      no test was deleted, skipped or weakened             (guards)
    SuiteKept      every test that passed before passes still           (guards)

`a & b` accepts what both accept. Each judges a commit in a fresh worktree; a commit that touches what judges is refused.

The law: no word of the agent, nothing that it left lying about, and no exit code of a process that holds its code is believed.
Code under test does run in the process of its tests. To answer for them it has to reach into pytest, which is watched for; to
hold the very answers that they ask for cannot be told from computing them. Run agents that you do not trust in a sandbox.
"""

from harnesses.coding.validators.candidate_validator import CandidateValidator, OnlyTouches
from harnesses.coding.validators.command_validator import Command
from harnesses.coding.validators.pytest_nodes import PytestNodes
from harnesses.coding.validators.suite_kept import SuiteKept
from harnesses.coding.validators.tests_kept import TestsKept

__all__ = ["CandidateValidator", "Command", "OnlyTouches", "PytestNodes", "SuiteKept", "TestsKept"]
