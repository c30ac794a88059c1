"""A coding harness that is described by a table, as in a run file, without any Python.

    [[harness]]
    name = "fix"
    harness = "coding"

    [harness.arguments]
    repository = "."                          relative to the run file, like all paths but those of features
    features = "TODO.md"                      default: the tests that fail
    agent = { dialect = "claude_code", sandbox = "bwrap" }
    validator = [{ command = ["make", "check-{feature}"], protect = ["checks/"] }, { tests_kept = true }]
    policy = { max_turns_per_feature = 5, max_retries_per_feature = 4 }

What agents, features and validators may be is in `coding_parts`; the other keys are the arguments of `CodingHarness`.
All mistakes are told at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta

from harnesses.coding.git import Identity
from harnesses.coding.workplace.coding_harness import DEFAULT_POLICY, CodingHarness
from harnesses.run_file_harnesses.coding_parts import (
    read_agent,
    read_features,
    read_health_check,
    read_init_plan,
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
    "identity": partial(make_from, Identity),
}
KEYS: Mapping[str, tuple[str, ...]] = {"coding": keys_of(CodingHarness, _WITHOUT)}
"""What may be said where: for documentation."""


def read_harness(*, beside: Path | str = ".", **table: object) -> CodingHarness:
    """Return the harness that a table describes.

    Args:
        beside: the directory that paths are relative to.
        table: the keys of the table.

    Raises:
        InvalidRequest: it describes none; with all mistakes.
    """
    return CodingHarness(**arguments_of(table, Path(beside)))


described = read_harness
"""The name that this had before."""


def arguments_of(table: Mapping[str, object], beside: Path) -> dict[str, Any]:
    """Return what `CodingHarness` is called with.

    Raises:
        InvalidRequest: the table is not as expected; with all mistakes.
    """
    problems = TableProblems(SUBJECT, beside=beside)
    arguments = read_arguments(CodingHarness, table, "", problems, readers=_READERS, without=_WITHOUT)
    problems.check()
    return arguments or {}
