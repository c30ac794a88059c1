"""Validators of the coding harness, which decide whether a commit does what it should. Never the agent that made it.

    Command        a command ends with the expected exit code
    PytestNodes    the tests of the feature pass
    OnlyTouches    the commit changes only these paths                  (guards)
    TestsKept      no test was deleted, skipped or weakened             (guards)
    SuiteKept      every test that passed before still passes           (guards)

`a & b` accepts what both accept. Each validates a commit in a new worktree; a commit that changes the judging files is
refused.

Invariant: no statement of the agent, no file it left elsewhere, and no exit code of a process that runs its code is trusted.
Code under test does run in the process of its tests. To fake a result it must manipulate pytest, which is detected; hard-coded
answers, however, cannot be distinguished from computed ones. Run untrusted agents in a sandbox.
"""

from harnesses.coding.validators.candidate_validator import CandidateValidator, OnlyTouches
from harnesses.coding.validators.command_validator import Command
from harnesses.coding.validators.pytest_nodes import PytestNodes
from harnesses.coding.validators.suite_kept import SuiteKept
from harnesses.coding.validators.tests_kept import TestsKept

__all__ = ["CandidateValidator", "Command", "OnlyTouches", "PytestNodes", "SuiteKept", "TestsKept"]
