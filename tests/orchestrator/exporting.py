"""A program that exports to a folder and kills itself at its n-th renaming: `tests.orchestrator.exporting STORE DIR N`."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

from orchestrator.cli.export import export_parts, export_sheets
from orchestrator.cli.export.export_parts import State
from orchestrator.store import SqliteReader

_MOST_ROWS = 40
"""Rows after which parts are written, where a few hundred have to be enough for many."""


def export_and_die(store: Path, folder: Path, at: int) -> None:
    """Export what is new, day by day and harness by harness, unless the end comes first."""
    left, rename = at, os.replace

    def counted(source: Any, target: Any) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        rename(source, target)

    os.replace = counted  # type: ignore[assignment]
    for module, name in ((export_parts, "_MOST_ROWS"), (export_sheets, "_MOST_ROWS"), (export_sheets, "_FIRST_ROWS")):
        setattr(module, name, _MOST_ROWS)
    with closing(SqliteReader(store)) as reader:
        wanted = State("records", "jsonl", ("harness", "day"), None)
        export_parts.export_parts(reader, wanted, folder, incremental=True)


if __name__ == "__main__":
    export_and_die(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
