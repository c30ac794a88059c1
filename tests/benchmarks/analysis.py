"""What it costs to ask a run of 1,000,000 steps: against the bare scan of the same file, until the first answer, in memory."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from statistics import median
from typing import Any

from orchestrator.log import line
from orchestrator.records import Record
from orchestrator.store import SqliteStore
from orchestrator.store.store_protocol import Claim, StepRow

Figures = dict[str, Any]

STEPS, HARNESSES = 1_000_000, 100
_BATCH = 20_000
_START_US = 1_763_769_600_000_000

_SUMMARY = """
import json, sys, time
import duckdb
from orchestrator import analysis
from orchestrator.analysis.questions import summary
path, rounds = sys.argv[1], int(sys.argv[2])
quoted = "'" + path.replace("'", "''") + "'"
columns = [row[0] for row in duckdb.sql(f"DESCRIBE SELECT * FROM read_json_auto({quoted})").fetchall()]
every = ", ".join(f'count("{name}")' for name in columns)

def timed(ask):
    began = time.perf_counter()
    ask()
    return time.perf_counter() - began

def asked():
    with analysis.open(path) as run:
        summary.answer(run)

def bare(what):
    with duckdb.connect() as db:
        db.execute("SET enable_progress_bar = false")
        db.execute(f"SELECT {what} FROM read_json_auto({quoted})").fetchall()

found = [(timed(asked), timed(lambda: bare("count(*)")), timed(lambda: bare(every))) for _ in range(rounds)]
print(json.dumps(found))
"""
_FIRST = """
import json, sys, time
began = time.perf_counter()
from orchestrator import analysis
import duckdb
imported = time.perf_counter()
with analysis.open(sys.argv[1]) as run:
    assert len(run.steps.limit(5).fetchall()) == 5
print(json.dumps([time.perf_counter() - imported, time.perf_counter() - began]))
"""
_MEMORY = """
import json, re, sys, time
from orchestrator import analysis
from orchestrator.analysis.questions import QUESTIONS
path, what = sys.argv[1], sys.argv[2]
began = time.perf_counter()
with analysis.open(path) as run:
    if what.startswith("frame "):
        run.rows(f"SELECT max(columns(*)) FROM {what[6:]}")
    else:
        QUESTIONS[what](run)
took = time.perf_counter() - began
peak = int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1])
print(json.dumps([peak / 1024, took]))
"""
_QUESTIONS = ("summary", "timeline", "slow", "failures", "restarts", "throughput", "cost", "progress")
_FRAMES = ("records", "steps", "events", "messages", "effects", "approvals", "attempts", "harnesses")


def analysis(folder: Path, steps: int = STEPS, rounds: int = 5) -> Figures:
    """Ask a run, from its log and from its store."""
    log, store = folder / "steps.jsonl", folder / "run.db"
    write(store, log, steps)
    times = _child(_SUMMARY, log, rounds)
    first = [_child(_FIRST, store) for _ in range(rounds)]
    memory = {
        f"{path.name} {what}": [round(figure, 2) for figure in _child(_MEMORY, path, what)]
        for path in (log, store)
        for what in (*_QUESTIONS, *(f"frame {name}" for name in _FRAMES))
    }
    return {
        "steps": steps,
        "log_mb": round(log.stat().st_size / 1e6),
        "summary_s": round(median(ours for ours, _, _ in times), 2),
        "count_s": round(median(count for _, count, _ in times), 2),
        "scan_s": round(median(scan for _, _, scan in times), 2),
        "summary_to_count": round(median(ours / count for ours, count, _ in times), 2),
        "summary_to_scan": round(median(ours / scan for ours, _, scan in times), 2),
        "store_first_answer_s": round(median(answer for answer, _ in first), 3),
        "with_imports_s": round(median(whole for _, whole in first), 3),
        "peak_mb": round(max(peak for peak, _ in memory.values())),
        "peak_mb_and_s": memory,
    }


def write(store_path: Path, log: Path, steps: int) -> None:
    """Write a run of so many steps, quickly: a store, and the lines of its log."""
    with closing(SqliteStore(store_path)) as store, log.open("w") as file:
        claimed: Any = store.commit([], [Claim(f"h{number}", "0") for number in range(HARNESSES)]).results
        seq = 0
        for page in _pages(steps):
            rows = [
                StepRow(
                    claimed[i % HARNESSES].harness,
                    claimed[i % HARNESSES].epoch,
                    1,
                    i // HARNESSES + 1,
                    _START_US + i * 1000,
                    body,
                )
                for i, body in page
            ]
            store.commit(rows)
            for (i, body), row in zip(page, rows, strict=True):
                seq += 1
                told = line(Record(seq, f"h{i % HARNESSES}", 1, row.step, row.time_us, "step", body, store.run))
                file.write(json.dumps(told, separators=(",", ":")) + "\n")


def _pages(steps: int) -> Iterator[list[tuple[int, str]]]:
    dice = random.Random(1)
    for start in range(0, steps, _BATCH):
        yield [(number, _body(dice, number)) for number in range(start, min(steps, start + _BATCH))]


def _body(dice: random.Random, number: int) -> str:
    return json.dumps(
        {
            "input": {"price": dice.random() * 100, "symbol": "EURUSD", "note": "x" * 80},
            "output": {"order": None, "why": "y" * 100, "equity": dice.random() * 1e5},
            "delta": {"set": {"equity": dice.random(), "cash": number}},
            "took_us": {"work": dice.randrange(1000), "agent": dice.randrange(500), "commit": dice.randrange(400)},
        },
        separators=(",", ":"),
    )


def _child(code: str, *arguments: object) -> Any:
    """Run in a process of its own, so that its memory and its first moments are its own."""
    done = subprocess.run([sys.executable, "-c", code, *map(str, arguments)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
