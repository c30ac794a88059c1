"""Shows at the end of a test run what became of each fault in the matrix."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from orchestrator import Outcome

_ROWS = pytest.StashKey[list[tuple[str, Outcome]]]()
_CAUSE_CHARS = 90


@pytest.fixture
def report(request: pytest.FixtureRequest) -> Callable[[str, Outcome], None]:
    """Note what became of a fault."""
    rows = request.config.stash.setdefault(_ROWS, [])
    return lambda name, outcome: rows.append((name, outcome))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    rows = config.stash.get(_ROWS, None)
    if rows is None:
        return
    terminalreporter.section("faults, each beside two healthy harnesses")
    width = max(len(name) for name, _ in rows)
    for name, outcome in rows:
        cause = outcome.cause if len(outcome.cause) <= _CAUSE_CHARS else outcome.cause[: _CAUSE_CHARS - 1] + "…"
        terminalreporter.write_line(f"{name:<{width}}  {outcome.kind:<9}  {cause}")
