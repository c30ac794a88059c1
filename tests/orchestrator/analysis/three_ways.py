"""One run, opened from its store, from its log and from what was exported of it, for the tests of frames."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from orchestrator import analysis
from orchestrator.analysis.frames import FRAMES
from orchestrator.analysis.frames.analysis_run import Run
from orchestrator.cli import main

ALL = ("records", *FRAMES)


def exported(store: Path) -> Path:
    """Export what a store holds, as a user does, and return the folder."""
    folder = store.parent / "exported"
    wanted = ("export", "--store", str(store), "--what", "records", "--output", str(folder))
    assert main([*wanted, "--partition-by", "harness,day", "--incremental"]) == 0
    return folder


@contextmanager
def opened(*paths: Path) -> Iterator[tuple[Run, ...]]:
    """Open several."""
    with ExitStack() as stack:
        yield tuple(stack.enter_context(analysis.open(path)) for path in paths)


def rows(run: Run, frame: str) -> list[tuple[Any, ...]]:
    """Return a frame, sorted by `seq`."""
    return run.rows(f"SELECT * FROM {frame} ORDER BY ALL")


def frames(run: Run) -> dict[str, list[tuple[Any, ...]]]:
    """Return all frames."""
    return {frame: rows(run, frame) for frame in ALL}


def types(run: Run) -> dict[str, list[tuple[str, str]]]:
    """Return the columns of all frames."""
    return {frame: [(name, type) for name, type, *_ in run.rows(f"DESCRIBE {frame}")] for frame in ALL}
