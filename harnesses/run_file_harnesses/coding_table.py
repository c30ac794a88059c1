"""Reads a coding harness from a table of a run file, without Python code.

    [[harness]]
    name = "fix"
    harness = "coding"

    [harness.arguments]
    repository = "."                          relative to the run file, like all paths except those of features
    features = "TODO.md"                      default: the failing tests
    agent = { dialect = "claude_code", sandbox = "bwrap" }
    validator = [{ command = ["make", "check-{feature}"], protect = ["checks/"] }, { tests_kept = true }]
    policy = { max_turns_per_feature = 5, max_retries_per_feature = 4 }

`coding_parts` lists the forms of agents, features and validators; the other keys are the arguments of `CodingHarness`.
All mistakes are reported together.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta

from harnesses.coding.git import Identity
from harnesses.coding.merge_limits import MergeLimits
from harnesses.coding.pull_request import PullRequest
from harnesses.coding.workplace.coding_harness import DEFAULT_POLICY, CodingHarness
from harnesses.run_file_harnesses.coding_parts import (
    read_agent,
    read_features,
    read_health_check,
    read_init_plan,
    read_into,
    read_policy,
    read_validator,
)
from harnesses.run_file_harnesses.table_arguments import (
    Reader,
    TableProblems,
    keys_of,
    make_from,
    read_arguments,
    read_path,
    reader_of,
)

SUBJECT = "coding harness"
_WITHOUT = ("selector", "observer", "hooks", "initial_state", "chat_delay_s")
_READERS: Mapping[str, Reader] = {
    "repository": read_path,
    "workspace": read_path,
    "handoff": read_path,
    "agent": read_agent,
    "features": read_features,
    "validator": read_validator,
    "policy": partial(read_policy, DEFAULT_POLICY),
    "confirmations": reader_of(Annotated[int, Meta(ge=1)]),
    "max_context_steps": reader_of(Annotated[int, Meta(ge=0)]),
    "health_check": read_health_check,
    "init_plan": read_init_plan,
    "into": read_into,
    "limits": partial(make_from, MergeLimits),
    "identity": partial(make_from, Identity),
}
KEYS: Mapping[str, tuple[str, ...]] = {
    "coding": keys_of(CodingHarness, _WITHOUT),
    "coding.into": keys_of(PullRequest),
}
"""Allowed keys by table, for the documentation."""


def read_harness(*, beside: Path | str = ".", **table: object) -> CodingHarness:
    """Return the harness that a table describes.

    Args:
        beside: the directory that paths are relative to.
        table: the keys of the table.

    Raises:
        InvalidRequest: the table is invalid; lists all mistakes.
    """
    return CodingHarness(**arguments_of(table, Path(beside)))


described = read_harness
"""Former name of `read_harness`."""


def arguments_of(table: Mapping[str, object], beside: Path) -> dict[str, Any]:
    """Return the arguments for `CodingHarness`.

    Raises:
        InvalidRequest: the table is invalid; lists all mistakes.
    """
    problems = TableProblems(SUBJECT, beside=beside)
    arguments = read_arguments(CodingHarness, table, "", problems, readers=_READERS, without=_WITHOUT)
    problems.check()
    return arguments or {}
