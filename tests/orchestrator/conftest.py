"""Shows at the end of a test run what became of each fault in the matrix."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from orchestrator import Outcome

_FAULT = "fault"
_CAUSE_CHARS = 90


@pytest.fixture
def report(request: pytest.FixtureRequest) -> Callable[[str, Outcome], None]:
    """Note what became of a fault, with the test, so that it is known wherever tests are run."""
    return lambda name, outcome: request.node.user_properties.append((_FAULT, (name, str(outcome.kind), outcome.cause)))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reports = [one for ended in terminalreporter.stats.values() for one in ended if isinstance(one, pytest.TestReport)]
    rows = [value for one in reports if one.when == "call" for key, value in one.user_properties if key == _FAULT]
    if not rows:
        return
    terminalreporter.section("faults, each beside two healthy harnesses")
    width = max(len(name) for name, _, _ in rows)
    for name, kind, cause in sorted(rows):
        shown = cause if len(cause) <= _CAUSE_CHARS else cause[: _CAUSE_CHARS - 1] + "…"
        terminalreporter.write_line(f"{name:<{width}}  {kind:<9}  {shown}")
