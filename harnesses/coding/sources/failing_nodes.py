"""Converts failing tests to features. No I/O.

    a test that fails, or whose fixture fails   a feature: it passes
    a module that cannot be collected           a feature: it can be collected, and all its tests pass
    a test that fails only sometimes            none: its success could not be recognised
    a test that passes but is marked xfail      none: only a change to the test could help
    a module that is not valid Python           none, for the same reason
    a test that is skipped, or fails as marked  none

Invariant: the same repository gives the same features, independent of when, where and how often it is inspected.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from hashlib import sha256

from attrs import evolve, frozen

from harnesses.coding.validators.pytest_report import STEP
from harnesses.features.feature import Feature

CATEGORY = "failing test"
_MAX_NODE_ID = 150
"""Maximum characters of a node id that is used as a feature id unchanged."""
_MESSAGE = 400
_DOCSTRING = 600
_ADDRESS = re.compile(r"\b0x[0-9a-fA-F]{6,}\b")
_DURATION = re.compile(r"\b\d+\.\d+ ?(?:s|ms|seconds)\b")
_CHAINED = ("During handling of the above exception", "The above exception was the direct cause")
_ERROR_LINE = re.compile(r"^E(?:\s+(?P<said>.*))?$")


@frozen(kw_only=True)
class Failure:
    """A failing test, or a module that cannot be collected."""

    node: str
    """Its pytest node id."""
    message: str = ""
    """The reason: the end of pytest's output for it."""
    docstring: str = ""
    is_module: bool = False
    """Whether it is a module that could not be collected."""


def steady(first: Sequence[Failure], again: Mapping[str, str | None]) -> tuple[Failure, ...]:
    """Return the failures that occur in both runs.

    Args:
        first: failures when all tests were run.
        again: for each of these, its message in a second run; None if it passed then.
    """
    failed = [(failure, again[failure.node]) for failure in first]
    # A message that differs between runs would change the feature each time.
    return tuple(
        failure if message == failure.message else evolve(failure, message="")
        for failure, message in failed
        if message is not None
    )


def features_of(failures: Sequence[Failure]) -> tuple[Feature, ...]:
    """Return one feature for each failure."""
    taken = set[str]()
    features: list[Feature] = []
    for failure in failures:
        one = _id(failure.node, taken)
        taken.add(one)
        features.append(Feature(one, _description(failure), category=CATEGORY, steps=(f"{STEP}{failure.node}",)))
    return tuple(features)


def message_in(text: str, root: str, *, is_module: bool = False) -> str:
    """Return the reason in pytest's output for a failure, without parts that differ between runs.

    Args:
        root: where the tests ran; paths in it are made relative to it.
    """
    block: list[str] = []
    for line in text.splitlines():
        match = _ERROR_LINE.match(line)
        if match and (match["said"] or "").strip():
            block.append(match["said"].strip())
        elif line.startswith(_CHAINED):
            block = []  # in a chain of exceptions, the last one was raised
    lines = block or [line.strip() for line in text.splitlines() if line.strip()][-2:]
    said = "\n".join(lines[-1:] if is_module else lines[:3])
    said = said.replace(f"{root}/", "").replace(root, ".")
    return _DURATION.sub("… s", _ADDRESS.sub("0x…", said))[:_MESSAGE].strip()


def is_python(source: str) -> bool:
    """Return whether a source is valid Python."""
    try:
        ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return False
    return True


def docstring_in(source: str, node: str) -> str:
    """Return the first paragraph of a test's docstring, from the source of its module; empty if it has none."""
    if not is_python(source):
        return ""
    found: ast.AST = ast.parse(source)
    for name in node.partition("[")[0].split("::")[1:]:
        inner = (one for one in ast.iter_child_nodes(found) if getattr(one, "name", None) == name)
        following = next(inner, None)
        if not isinstance(following, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            return ""
        found = following
    if not isinstance(found, ast.FunctionDef | ast.AsyncFunctionDef):
        return ""
    paragraph = (ast.get_docstring(found) or "").partition("\n\n")[0]
    return " ".join(paragraph.split())[:_DOCSTRING]


def _description(failure: Failure) -> str:
    title = f"{failure.node} can be collected, and all tests in it pass" if failure.is_module else f"{failure.node} passes"
    at_first = f"At the beginning: {failure.message}" if failure.message else ""
    return "\n\n".join(part for part in (title, failure.docstring, at_first) if part)


def _id(node: str, taken: set[str]) -> str:
    """Return the node id if it is valid as a feature id, otherwise a shortened form with a hash of it."""
    plain = re.sub(r"[^\w./:\[\],=+-]+", "-", node).strip("-")
    if plain == node and len(plain) <= _MAX_NODE_ID and plain not in taken:
        return plain
    mark = sha256(node.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{plain[: _MAX_NODE_ID - 9].rstrip('-')}-{mark}"
