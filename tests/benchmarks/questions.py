"""What each question about a large store takes, in a process of its own: `python -m tests.benchmarks.questions [--steps N]`.

The store has a hundred harnesses, that trade and that write features, with words and numbers that differ in every step,
effects, approvals, crashes and restarts. Times are of the processor, as others may be at work on the machine.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from orchestrator.status_lines import json_status
from orchestrator.store import SqliteReader
from tests import ROOT
from tests.benchmarks.large_store import write_large_store

Figures = dict[str, Any]

STEPS, HARNESSES = 1_000_000, 100
_ANALYSES = ("summary", "timeline", "slow", "failures", "restarts", "throughput", "loops", "cost", "progress", "turns")
_VERBS: dict[str, tuple[str, ...]] = {
    "help": ("--help",),
    "status": ("status",),
    "steps": ("steps", "trader-0", "--limit", "20"),
    "show": ("show", "coder-1"),
    "approvals": ("approvals",),
    "effects": ("effects",),
    "budgets": ("budgets",),
    "why": ("analyze", "why", "coder-1"),
    **{f"analyze {name}": ("analyze", name) for name in _ANALYSES},
    "report --html": ("analyze", "report", "--html", "{page}"),
    "verify": ("verify",),
    "traces": ("traces", "--output", "{spans}"),
}


def questions(folder: Path, steps: int = STEPS, many: int = 10_000) -> Figures:
    """Return, for each question, seconds of the processor and by the clock, the most memory, and the size of what it wrote.

    Args:
        many: harnesses of the store of which only the status is asked.
    """
    return dict(measured(folder, steps, many, tuple(_VERBS)))


def measured(folder: Path, steps: int, many: int, asked: Sequence[str]) -> Iterator[tuple[str, Any]]:
    """Yield the figures one by one.

    Args:
        folder: where the stores are written, unless they are there from before.
        asked: the questions.
    """
    store, small, wide = (folder / f"{name}.db" for name in ("run", "small", "wide"))
    for path, size, harnesses in ((store, steps, HARNESSES), (small, 100, 10), (wide, many, many)):
        if not path.exists():
            write_large_store(path, size, harnesses)
    yield "store", {"steps": steps, "mb": round(store.stat().st_size / 1e6)}
    for name in asked:
        yield name, ask(store, _VERBS[name])
    yield "status of a small store", ask(small, _VERBS["status"])
    with closing(SqliteReader(store)) as reader:
        yield "approvals(), ms", _median_ms(reader.approvals)
    with closing(SqliteReader(wide)) as reader:
        yield f"/status of {many:,}, ms", _median_ms(lambda: list(json_status(reader)))


def ask(store: Path, words: Sequence[str]) -> dict[str, float]:
    """Ask a question in a new process."""
    page, spans = store.with_name("page.html"), store.with_name("spans.jsonl")
    command = [word.format(page=page, spans=spans) for word in words]
    began = time.perf_counter()
    child = subprocess.Popen(
        [sys.executable, "-m", "orchestrator", "--store", str(store), *command],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    assert child.stderr is not None
    with child.stderr as said:
        complaint = said.read().decode()
    _, code, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(code)
    assert child.returncode in (0, 4, 6), complaint
    figures = {
        "cpu_s": round(used.ru_utime + used.ru_stime, 2),
        "s": round(time.perf_counter() - began, 2),
        "mb": round(used.ru_maxrss / 1024),
    }
    for file in (page, spans):
        if file.exists():
            figures[f"{file.suffix[1:]}_mb"] = round(file.stat().st_size / 1e6, 2)
            file.unlink()
    return figures


def _median_ms(work: Callable[[], object], times: int = 5) -> float:
    def once() -> float:
        began = time.thread_time()
        work()
        return 1000 * (time.thread_time() - began)

    work()
    return round(statistics.median(once() for _ in range(times)), 2)


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("questions", nargs="*", metavar="QUESTION", help=f"one of {', '.join(_VERBS)} (default: all)")
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--folder", type=Path, help="keep the stores here for the next time")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        for name, figure in measured(folder, options.steps, 10_000, options.questions or tuple(_VERBS)):
            print(json.dumps({name: figure}), flush=True)


if __name__ == "__main__":
    main()
