"""What a judged pytest session reported, and what of it counts. Pure.

The law: a test has passed if setup, call and teardown have all been reported as passed, and nothing else was reported of it,
in a session that came to its end and in which nothing bent pytest's word.
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Iterable, Mapping
from typing import Any

from attrs import field, frozen

STEP = "pytest "
"""What a step of a feature that stands for a test may begin with; the node id follows, to the letter."""
CUT_SHORT = "cut short"
_BENT = {
    "tampered": "{what} was changed while the tests ran: leave the test tools, and what tests use, alone",
    "stack": "{path} looks at who calls it ({detail}): do the same whoever calls",
    "memory": "{path} reaches into the memory of the interpreter ({detail}): do without it",
    "named": "{path} runs code under the name of {detail}, which it is not from: name it after its own file",
    "compiled": "{path} runs code that is kept without its source ({detail}): keep the source",
    "wrote": "{path} writes to {detail}: write into the worktree, HOME or TMPDIR only, and to no file of the tests",
    "read": "{path} reads {detail}, which is of the tests, without having been given it: compute what is asked for",
    "equal": "{path}: a {what} is equal to what it should be, and to other values as well: tell them apart",
}
"""What is told of code under test, by kind of line."""
_PHASES = {"setup", "call", "teardown"}


@frozen(kw_only=True)
class NodeReport:
    """What became of one test."""

    id: str
    passed: bool
    outcome: str
    """In a word: passed, failed, skipped, xfailed, xpassed, cut short."""
    text: str = ""
    """How it failed."""


@frozen(kw_only=True)
class SessionReport:
    """What became of a session."""

    nodes: Mapping[str, NodeReport] = field(factory=dict[str, NodeReport])
    """By test, in the order they ran."""
    collected: tuple[str, ...] = ()
    ended: bool = False
    """Whether pytest came to its end."""
    broken: tuple[tuple[str, str], ...] = ()
    """What could not be collected, each with the reason."""
    bent: tuple[str, ...] = ()
    """What makes its word worth nothing."""
    tail: str = ""
    """The end of what the process wrote."""
    code: int | None = None
    """What the process ended with; None if it was killed at its time limit."""
    duration_s: float = 0.0


def read_report(lines: bytes, key: str, canary: str) -> SessionReport:
    """Return what was reported, from the sealed lines of a session."""
    said: list[dict[str, Any]] = []
    bent: list[str] = []
    for line in lines.split(b"\n"):
        if line:
            seal, _, text = line.partition(b" ")
            if hmac.compare_digest(seal, hmac.new(key.encode(), text, "sha256").hexdigest().encode()):
                said.append(json.loads(text))
            else:
                bent.append("something else than the judge wrote into its report")
    kinds = {kind: [line for line in said if line["kind"] == kind] for kind in {line["kind"] for line in said}}
    nodes = _nodes(kinds.get("report", ()))
    alarm = [nodes.pop(id) for id in list(nodes) if id.endswith(canary)]
    collected = tuple(id for line in kinds.get("collected", ()) for id in line["ids"])
    numbers = [line["n"] for line in said if "n" in line]
    if numbers != list(range(len(numbers))):
        bent.append("a part of the report is missing")
    bent += [text.format(**line) for kind, text in _BENT.items() for line in kinds.get(kind, ())]
    if collected and kinds.get("end") and [node.outcome for node in alarm] != ["failed"]:
        bent.append("a test of the judge's own, which has to fail, was not reported to fail")
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


def answering(report: SessionReport, node: str) -> list[NodeReport]:
    """Return what became of all tests that a node id stands for: itself, its parameters, or what is in it."""
    return [found for id, found in report.nodes.items() if id == node or id.startswith((f"{node}[", f"{node}::", f"{node}/"))]


def node_in(step: str) -> str:
    """Return the node id that a step stands for: `pytest <node id>`, or just the node id."""
    return step.removeprefix(STEP)
