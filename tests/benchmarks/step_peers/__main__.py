"""`python -m tests.benchmarks.step_peers [NAME …]`: one JSON line for each system and number of harnesses.

A step takes in and puts out texts that differ in every step, and changes five of the ten fields of a state. It is on disk
before the next step of its harness begins. The texts are made beforehand and read before the clock starts; opening, starting
and ending are included. For each system:

lines           of its program, without blank lines, comments and docstrings
harnesses       that run side by side
per_s           steps a second
processor_us    processor time of a step, microseconds
bytes_a_step    on disk

SQLite's files are synchronised at each commit (`synchronous=FULL`), which is this package's setting and the default of the
others. The other systems are installed into an environment of their own, in the user's cache.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

from tests import ROOT
from tests.benchmarks.peers.peer_environment import environment, lines_of_code
from tests.benchmarks.work import scripts

HERE = Path(__file__).parent
PACKAGES = ("burr==0.42.0", "langgraph==1.2.24", "langgraph-checkpoint-sqlite==3.1.2", "dbos==3.4.0")
SIZES = {1: 1000, 100: 30, 1000: 5}
"""Steps of each harness, by number of harnesses; this package makes ten times as many, so that its clock runs as long."""
TIMES = 3
_PATIENCE_S = 900


def main(names: list[str]) -> int:
    others = environment("step-peers", PACKAGES)
    systems = {"this_package": sys.executable, "burr_steps": others, "langgraph_steps": others, "dbos_steps": others}
    if unknown := [name for name in names if name not in systems]:
        print(f"no system {unknown[0]!r}: expected {', '.join(systems)}", file=sys.stderr)
        return 2
    for count, steps in SIZES.items():
        for name in names or systems:
            figures = _measure(name, systems[name], count, steps * 10 if name == "this_package" else steps)
            print(json.dumps(figures), flush=True)
    return 0


def _measure(name: str, python: str, harnesses: int, steps: int) -> dict[str, Any]:
    figures: list[dict[str, float]] = []
    for _ in range(TIMES):
        with tempfile.TemporaryDirectory() as folder:
            work = Path(folder) / "work.json"
            work.write_text(json.dumps(scripts(harnesses, steps)))
            env = {**os.environ, "PYTHONPATH": str(ROOT), "DBOS__LOG_LEVEL": "ERROR"}
            command = [python, str(HERE / f"{name}.py"), str(work)]
            done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=_PATIENCE_S)
            if done.returncode:
                raise SystemExit(f"{name} failed: {done.stderr[-2_000:]}")
            stored = sum(file.stat().st_size for file in Path(folder).glob("run.db*"))
            figures.append({**json.loads(done.stdout.splitlines()[-1]), "bytes": stored})
    made = harnesses * steps
    return {
        "system": name,
        "lines": lines_of_code(HERE / f"{name}.py"),
        "harnesses": harnesses,
        "steps_each": steps,
        "per_s": round(median(made / one["wall_s"] for one in figures)),
        "processor_us": round(median(one["processor_s"] for one in figures) / made * 1e6),
        "bytes_a_step": round(median(one["bytes"] for one in figures) / made),
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
