"""Analyse a run from its log: five pictures and a report, with the findings printed.

It analyses the run of `side_by_side.py`, which writes both a store and a log; if there is none yet, a shortened one is run
first. The log alone is enough for questions and pictures; the store is needed only for the state at an earlier step.

    python examples/analyze_run.py
    python examples/analyze_run.py --log steps.jsonl --store run.db --out look        your own run; the store may be missing

Needs the extra `analysis`.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from orchestrator import analysis
from orchestrator.analysis.analysis_report import html
from orchestrator.analysis.pictures import picture
from orchestrator.analysis.questions import QUESTIONS
from orchestrator.history import diff, state_at, state_hash
from orchestrator.text.terminal_text import inert

PICTURES = ("timeline", "latency", "shares", "progress", "equity")
ASKED = ("summary", "failures", "progress")
SIDE_BY_SIDE = Path(__file__).parent / "side_by_side.py"


def look(log: Path, out: Path) -> Iterator[str]:
    """Yield findings from a log; write five pictures and a report to a folder."""
    out.mkdir(parents=True, exist_ok=True)
    with analysis.open(log) as run:
        per_harness = run.rows("SELECT harness, count(*), median(work_s) FROM steps GROUP BY harness ORDER BY 2 DESC")
        yield from (f"{name}: {steps} steps, half of them within {half * 1000:.1f} ms" for name, steps, half in per_harness)
        answers = [QUESTIONS[name](run) for name in ASKED if name in QUESTIONS]
        for answer in answers:
            yield from (f"{answer.question}: {sentence}" for sentence in answer.sentences)
        drawn = [picture(run, name) for name in PICTURES]
    for one in drawn:
        yield f"{one.save(out / f'{one.name}.svg')}: {one.title}"
    report = out / "report.html"
    report.write_text(html(answers, drawn, title=f"The run in {log.name}"), encoding="utf-8")
    yield f"{report}: all of it on one page"


def travel(store: Path, name: str) -> Iterator[str]:
    """Yield the state of a harness half-way through, and the changes of the next step."""
    with analysis.open(store) as run:
        ((last,),) = run.rows("SELECT coalesce(max(step_number), 0) FROM steps WHERE harness = ?", [name])
    if last < 2:
        return
    middle = last // 2
    yield f"{name} after step {middle} of {last}: state {state_hash(state_at(store, name, middle))[:12]}; then"
    yield from (f"  {change.line}" for change in diff(store, name, middle, middle + 1)[:5])


def make_run(store: Path, log: Path) -> None:
    """Run the example with three harnesses, shortened."""
    print(f"there is no {log}: running {SIDE_BY_SIDE.name} first, shortened", file=sys.stderr, flush=True)
    options = ["--store", str(store), "--log", str(log), "--limit", "60"]
    subprocess.run(
        [sys.executable, str(SIDE_BY_SIDE), *options], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Analyse a run and print the findings."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--store", type=Path, default=Path("side_by_side.db"), metavar="PATH", help="where it was recorded")
    parser.add_argument("--log", type=Path, default=Path("side_by_side.jsonl"), metavar="PATH", help="its log")
    parser.add_argument("--out", type=Path, default=Path("side_by_side-pictures"), metavar="FOLDER", help="where pictures go")
    options = parser.parse_args(arguments)
    if not options.log.exists():
        make_run(options.store, options.log)
    for line in look(options.log, options.out):
        print(inert(line))
    if options.store.exists():
        for line in travel(options.store, "trading"):
            print(inert(line))
    return 0


if __name__ == "__main__":
    sys.exit(main())
