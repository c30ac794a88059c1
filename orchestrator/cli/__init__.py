"""The `orchestrator` command: its verbs, run files, and what it prints."""

from __future__ import annotations

import sys
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Carry out one command and return its exit code. The verbs are imported when it is called."""
    try:
        import cyclopts as _  # noqa: F401
    except ImportError as error:
        from harnesses.diagnostics.extras import install_command

        what = "is not installed" if error.name == "cyclopts" else f"cannot be imported ({error})"
        print(
            f"orchestrator: this command needs cyclopts, which {what}: expected the extra `cli`; "
            f"run `{install_command('cli')}`",
            file=sys.stderr,
        )
        return 2
    from orchestrator.cli.__main__ import main as carry_out

    return carry_out(arguments)
