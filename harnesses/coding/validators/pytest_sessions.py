"""Runs tests to the end, in as many sessions as it takes.

    session 1: a passed, b failed, c ended the process
    session 2:                                          d passed, e did not end in time
    session 3:                                                                          f passed

The law: what is said of a test was seen; a test that was running when its session was cut off was cut short; and whether all
were come to is said as well.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from attrs import define, evolve, field

from harnesses.coding.validators.pytest_process import PytestRun, run_pytest
from harnesses.coding.validators.pytest_report import CUT_SHORT, NodeReport, SessionReport

MAX_SESSIONS = 50
"""Tests that may end or outlast the process: each costs a session of its own."""
NO_TESTS = 5
"""What pytest ends with when it has found none."""
_WENT_THROUGH = (0, 1, NO_TESTS)
"""What it ends with when nothing made it stop: all passed, some failed, there were none."""


@define
class Results:
    """What became of tests, over several sessions."""

    nodes: dict[str, NodeReport] = field(factory=dict[str, NodeReport])
    order: dict[str, None] = field(factory=dict[str, None])
    """Ids in the order in which they were found: modules that cannot be collected come last."""
    broken: dict[str, str] = field(factory=dict[str, str])
    """What cannot be collected, with the reason."""
    bent: dict[str, None] = field(factory=dict[str, None])
    """What makes the word of a session worth nothing."""
    sure: set[str] = field(factory=set[str])
    """Tests that had the whole limit for themselves, so that they need not be run again."""
    last: SessionReport = field(factory=SessionReport)
    whole: bool = False
    """Whether all tests were come to."""
    duration_s: float = 0.0

    def passed(self, id: str) -> bool:
        """Return whether a test ran and passed."""
        return id in self.nodes and self.nodes[id].passed

    def add(self, report: SessionReport, limit_s: float) -> tuple[str, ...]:
        """Take in what a session has reported, and return the tests that it has not come to."""
        self.nodes.update(report.nodes)
        self.broken.update(report.broken)
        self.order.update(dict.fromkeys(report.collected))
        self.bent.update(dict.fromkeys(report.bent))
        self.last, self.duration_s = report, self.duration_s + report.duration_s
        if report.ended and report.code in _WENT_THROUGH:
            return ()
        running = next((id for id in report.collected if id not in report.nodes), None)
        cut = [id for id, node in report.nodes.items() if node.outcome == CUT_SHORT] or ([running] if running else [])
        why = f"it did not end within {limit_s:g} s" if report.code is None else "the process ended while it ran"
        if report.code is None and cut == list(report.collected[:1]):
            self.sure.update(cut)
        for id in cut:
            self.nodes[id] = NodeReport(id=id, passed=False, outcome=CUT_SHORT, text=why)
        return tuple(id for id in report.collected if id not in self.nodes)


async def run_to_end(root: Path, run: PytestRun, *, go_on: Callable[[Results], bool] = lambda _: True) -> Results:
    """Run tests on a worktree until all have been come to.

    Args:
        go_on: asked after each session; its error is raised.
    """
    results, left = Results(), run.nodes
    for _ in range(MAX_SESSIONS):
        report = await run_pytest(root, evolve(run, nodes=left))
        left = results.add(report, run.limit_s)
        if not go_on(results):
            break
        if not left:
            results.whole = has_begun(report)
            break
    return results


def has_begun(report: SessionReport) -> bool:
    """Return whether a session came to its first test, or found that there is none."""
    return bool(report.collected or report.broken) or (report.ended and report.code in (0, NO_TESTS))
