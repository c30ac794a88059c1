"""Makes features of tests that fail. Pure.

    a test that fails, or a fixture of it        a feature: it passes
    a module that cannot be collected           a feature: it is collected, and all tests in it pass
    a test that fails once and passes once       none: whoever works it could not know when it is done
    a test that passes and is marked to fail     none: only a change to the test could help
    a module that is no Python                   none, for the same reason
    a test that is skipped, or fails as marked   none

The law: the same repository gives the same features: nothing in them depends on when, where or how often it was looked at.
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
"""Characters of a node id that is taken for an id as it is."""
_MESSAGE = 400
_DOCSTRING = 600
_ADDRESS = re.compile(r"\b0x[0-9a-fA-F]{6,}\b")
_DURATION = re.compile(r"\b\d+\.\d+ ?(?:s|ms|seconds)\b")
_CHAINED = ("During handling of the above exception", "The above exception was the direct cause")
_ERROR_LINE = re.compile(r"^E(?:\s+(?P<said>.*))?$")


@frozen(kw_only=True)
class Failure:
    """A test, or a module, that fails."""

    node: str
    """Its node id, as pytest gives it."""
    message: str = ""
    """Why, the end of what pytest shows."""
    docstring: str = ""
    is_module: bool = False
    """Whether it could not be collected."""


def steady(first: Sequence[Failure], again: Mapping[str, str | None]) -> tuple[Failure, ...]:
    """Return what fails whenever it is run.

    Args:
        first: what failed when all tests were run.
        again: for each of these, the message when it was run once more; None if it passed then.
    """
    failed = [(failure, again[failure.node]) for failure in first]
    # A message that is another one each time would make the feature another one each time.
    return tuple(
        failure if message == failure.message else evolve(failure, message="")
        for failure, message in failed
        if message is not None
    )


def features_of(failures: Sequence[Failure]) -> tuple[Feature, ...]:
    """Return a feature for each."""
    taken = set[str]()
    features: list[Feature] = []
    for failure in failures:
        one = _id(failure.node, taken)
        taken.add(one)
        features.append(Feature(one, _description(failure), category=CATEGORY, steps=(f"{STEP}{failure.node}",)))
    return tuple(features)


def message_in(text: str, root: str, *, is_module: bool = False) -> str:
    """Return the reason in what pytest shows of a failure, without what differs from run to run.

    Args:
        root: where the tests ran; a path in it is told from there.
    """
    block: list[str] = []
    for line in text.splitlines():
        match = _ERROR_LINE.match(line)
        if match and (match["said"] or "").strip():
            block.append(match["said"].strip())
        elif line.startswith(_CHAINED):
            block = []  # of a chain of exceptions, the last is the one that was raised
    lines = block or [line.strip() for line in text.splitlines() if line.strip()][-2:]
    said = "\n".join(lines[-1:] if is_module else lines[:3])
    said = said.replace(f"{root}/", "").replace(root, ".")
    return _DURATION.sub("… s", _ADDRESS.sub("0x…", said))[:_MESSAGE].strip()


def is_python(source: str) -> bool:
    """Return whether a source parses."""
    try:
        ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return False
    return True


def docstring_in(source: str, node: str) -> str:
    """Return the first paragraph of the docstring of a test, from the source of its module; nothing if it has none."""
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
    """Return the node id if it can be an id, else as much of it as can, with a hash of the whole."""
    plain = re.sub(r"[^\w./:\[\],=+-]+", "-", node).strip("-")
    if plain == node and len(plain) <= _MAX_NODE_ID and plain not in taken:
        return plain
    mark = sha256(node.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{plain[: _MAX_NODE_ID - 9].rstrip('-')}-{mark}"
