"""`python -m tests.benchmarks.keeping [--steps N]`: what exporting and pruning a store of a million steps takes.

Each export is a process of its own, so that its memory is its own; `prune` keeps the last tenth.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from pathlib import Path

from orchestrator.store import SqliteStore
from orchestrator.store.conformance import claim, step_row
from orchestrator.store.integrity.proof import prove
from orchestrator.store.pruning.prune_plan import Rule
from orchestrator.store.pruning.prune_store import prune
from tests import ROOT

_HARNESSES = 100
_MEASURED = """
import resource, sys
from orchestrator.cli import main
code = main(sys.argv[1:])
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
sys.exit(code)
"""
_EXPORTS = (
    ("records.parquet",),
    ("records.jsonl",),
    ("steps.csv",),
    ("archive", "--partition-by", "harness", "--incremental"),
    ("archive", "--partition-by", "harness", "--incremental"),
)


def fill(path: Path, steps: int) -> None:
    """Make a store of so many steps of a hundred harnesses, each with 150 characters that change."""
    with closing(SqliteStore(path)) as store:
        claims = [claim(store, f"h{number}") for number in range(_HARNESSES)]
        for step in range(1, steps // _HARNESSES + 1):
            text = f"{step:0>150}"
            saved = f'{{"total":{step},"text":"{text}"}}' if step % 32 == 0 else None
            delta = {"set": {"total": step, "text": text}}
            store.commit([step_row(claimed, step, delta, state=saved) for claimed in claims])


def measured(folder: Path, steps: int, exports: Iterable[Sequence[str]] = _EXPORTS) -> Iterator[str]:
    """Yield what each deed has taken."""
    store = folder / "run.db"
    fill(store, steps)
    yield f"{steps:,} steps of {_HARNESSES} harnesses, {store.stat().st_size / 1e6:.0f} MB"
    for output, *options in exports:
        what = "steps" if output == "steps.csv" else "records"
        words = ["export", "--what", what, "--store", str(store), "--output", str(folder / output), *options]
        began = time.perf_counter()
        command = [sys.executable, "-c", _MEASURED, *words]
        done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
        took = time.perf_counter() - began
        said = done.stderr.strip().replace(f"{folder}/", "")
        yield f"{said}: {took:.1f} s, {int(done.stdout)} MB of memory at most"
    began = time.perf_counter()
    pruned = prune(store, Rule(keep=max(1, steps // _HARNESSES // 10)), by="benchmark")
    took = time.perf_counter() - began
    began = time.perf_counter()
    proof = prove(store, store.with_name("run.db-head").read_text())
    proven = f"{'changed' if proof.findings else 'untouched'}, proven in {time.perf_counter() - began:.1f} s"
    yield f"{sum(pruned.steps.values()):,} steps pruned: {took:.1f} s; {proven}"


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=1_000_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for line in measured(Path(folder), options.steps):
            print(line, flush=True)


if __name__ == "__main__":
    main()
