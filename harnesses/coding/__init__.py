"""A harness that works through a list of features until every one is proven.

    feature ──Assignment──►  agent  ──Solution──►  validator  ──Verdict──►  step

`features` is pure; `process` runs commands and leaves nothing behind; the agent never judges its own work.
"""

from harnesses.coding.features import Assignment, Attempt, AttemptResult, CodingState, Feature, Solution, Verdict
from harnesses.coding.python_tests import PythonTests, Validator
from harnesses.coding.small import CodingHarness
from harnesses.process import Ran, run_bounded

__all__ = [
    "Assignment",
    "Attempt",
    "AttemptResult",
    "CodingHarness",
    "CodingState",
    "Feature",
    "PythonTests",
    "Ran",
    "Solution",
    "Validator",
    "Verdict",
    "run_bounded",
]
