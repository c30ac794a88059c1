"""Parses the report of a judged pytest session, and decides what counts. No I/O.

Invariant: a test has passed if setup, call and teardown were all reported as passed and nothing else was reported of it, in a
session that ran to its end and showed no manipulation.
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Iterable, Mapping
from typing import Any

from attrs import field, frozen

STEP = "pytest "
"""Optional prefix of a feature's step that names a test; the exact node id follows."""
CUT_SHORT = "cut short"
_BENT = {
    "tampered": "{what} was changed while the tests ran: do not modify the test tools, nor what tests use",
    "stack": "{path} inspects its caller ({detail}): behave the same for every caller",
    "memory": "{path} manipulates the memory of the interpreter ({detail}): do without it",
    "named": "{path} runs code under the name of {detail}, which it is not from: use the name of its own file",
    "compiled": "{path} runs code without its source ({detail}): keep the source",
    "wrote": "{path} writes to {detail}: write only into the worktree, HOME or TMPDIR, and not to test files",
    "read": "{path} reads {detail}, a test file whose path it was not given: compute the result instead",
    "equal": "{path}: a {what} equals the expected value and also other values: make it equal to one value only",
}
"""Messages about code under test, by kind of report line."""
_PHASES = {"setup", "call", "teardown"}


@frozen(kw_only=True)
class NodeReport:
    """The outcome of one test."""

    id: str
    passed: bool
    outcome: str
    """One of passed, failed, skipped, xfailed, xpassed, cut short."""
    text: str = ""
    """The failure text."""


@frozen(kw_only=True)
class SessionReport:
    """The outcome of a session."""

    nodes: Mapping[str, NodeReport] = field(factory=dict[str, NodeReport])
    """Tests in the order in which they ran."""
    collected: tuple[str, ...] = ()
    ended: bool = False
    """Whether pytest ran to its end."""
    broken: tuple[tuple[str, str], ...] = ()
    """Modules that could not be collected, each with the reason."""
    bent: tuple[str, ...] = ()
    """Manipulations that make its reports untrustworthy."""
    tail: str = ""
    """The end of the process's output."""
    code: int | None = None
    """The exit code; None if it was killed at its time limit."""
    duration_s: float = 0.0


def read_report(lines: bytes, key: str, canary: str) -> SessionReport:
    """Return the report in the sealed lines of a session."""
    said: list[dict[str, Any]] = []
    bent: list[str] = []
    for line in lines.split(b"\n"):
        if line:
            seal, _, text = line.partition(b" ")
            if hmac.compare_digest(seal, hmac.new(key.encode(), text, "sha256").hexdigest().encode()):
                said.append(json.loads(text))
            else:
                bent.append("something other than the judge wrote into its report")
    kinds = {kind: [line for line in said if line["kind"] == kind] for kind in {line["kind"] for line in said}}
    nodes = _nodes(kinds.get("report", ()))
    alarm = [nodes.pop(id) for id in list(nodes) if id.endswith(canary)]
    collected = tuple(id for line in kinds.get("collected", ()) for id in line["ids"])
    numbers = [line["n"] for line in said if "n" in line]
    if numbers != list(range(len(numbers))):
        bent.append("a part of the report is missing")
    bent += [text.format(**line) for kind, text in _BENT.items() for line in kinds.get(kind, ())]
    if collected and kinds.get("end") and [node.outcome for node in alarm] != ["failed"]:
        bent.append("the judge's own test, which must fail, was not reported as failed")
    return SessionReport(
        nodes=nodes,
        collected=collected,
        ended=bool(kinds.get("end")) and not kinds.get("internal"),
        broken=tuple((line["id"], line["text"]) for line in kinds.get("collect", ()) if line["outcome"] == "failed"),
        bent=tuple(dict.fromkeys(bent)),
    )


def _nodes(reports: Iterable[dict[str, Any]]) -> dict[str, NodeReport]:
    by_id: dict[str, list[dict[str, Any]]] = {}
    for report in reports:
        by_id.setdefault(report["id"], []).append(report)
    return {id: _node(id, group) for id, group in by_id.items()}


def _node(id: str, reports: list[dict[str, Any]]) -> NodeReport:
    outcomes = [_word(report) for report in reports]
    bad = next((report for report in reports if _word(report) != "passed"), None)
    if bad is not None:
        return NodeReport(id=id, passed=False, outcome=_word(bad), text=bad["text"])
    if not {report["when"] for report in reports} >= _PHASES:
        return NodeReport(id=id, passed=False, outcome=CUT_SHORT)
    return NodeReport(id=id, passed=bool(outcomes), outcome="passed")


def _word(report: dict[str, Any]) -> str:
    outcome = str(report["outcome"])
    if report["expected"]:
        return {"skipped": "xfailed", "passed": "xpassed"}.get(outcome, outcome)
    return outcome


def answering(outcomes: Mapping[str, NodeReport], node: str) -> list[NodeReport]:
    """Return the outcomes of all tests that a node id covers: itself, its parameters, or its contents."""
    return [found for id, found in outcomes.items() if id == node or id.startswith((f"{node}[", f"{node}::", f"{node}/"))]


def node_in(step: str) -> str:
    """Return the node id in a step: `pytest <node id>`, or only the node id."""
    return step.removeprefix(STEP)
