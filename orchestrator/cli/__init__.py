"""The `orchestrator` command: its verbs, run files, and what it prints."""

from __future__ import annotations

from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Carry out one command and return its exit code. The verbs are imported when it is called."""
    from orchestrator.cli.__main__ import main as carry_out

    return carry_out(arguments)
