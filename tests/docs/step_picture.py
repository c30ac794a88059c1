"""The picture of one step on its way, drawn from a real run of the example that counts."""

from __future__ import annotations

import json
import re
import sqlite3
import tempfile
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import trio

from examples.counting import Count, Counting
from orchestrator import Orchestrator
from tests.docs.drawing import (
    AMBER,
    AMBER_LINE,
    BLUE,
    BLUE_LINE,
    FAINT,
    GREEN,
    GREEN_LINE,
    INK,
    MONO,
    arrow,
    box,
    picture,
    text,
)

STAMP, TIME_US = "2026-01-05T09:00:00.000000Z", "1767603600000000"
"""What the picture has for the times of the run."""
SAID = ("event", "harness", "attempt", "step", "seq", "input", "output", "delta")
"""The fields of the log line that are shown."""


def followed() -> Mapping[str, Any]:
    """Return what the second step of the run was at each station."""
    with tempfile.TemporaryDirectory() as folder:
        store, log = Path(folder, "run.db"), Path(folder, "run.jsonl")

        async def main() -> Any:
            async with Orchestrator(store, log=log) as orchestrator:
                handle = orchestrator.start(Counting(Count()), name="count")
                return [step async for step in handle.steps(after=0)][1]

        step = trio.run(main)
        with closing(sqlite3.connect(store)) as db:
            row = db.execute("SELECT seq, harness, epoch, attempt, step, body FROM records WHERE step = 2").fetchone()
        line = next(line for line in map(json.loads, log.read_text(encoding="utf-8").splitlines()) if line["seq"] == row[0])
    return {"step": step, "row": row[:5], "body": re.sub(r',"took_us":\{[^}]*\}', "", row[5]), "line": line}


def stations(found: Mapping[str, Any]) -> list[tuple[str, str, list[str], str]]:
    """Return what is done at each station, where, what the step is there, and in which part of its way it is."""
    step, row, body, line = found["step"], found["row"], found["body"], found["line"]
    made = f"Step(step_number={step.step_number}, input={step.input}, output={step.output},"
    said = json.dumps({key: line[key] for key in SAID}, separators=(",", ":"))
    middle = said.index('"input"')
    return [
        ("execute() yields", "your harness", [f"yield {step.input}, {step.output}"], "made"),
        (
            "the loop makes a Step",
            "harnesses/loop.py",
            [made, f"     state_delta={step.state_delta},", f"     timestamp={STAMP})"],
            "made",
        ),
        (
            "the actor encodes it, sends it, and parks",
            "orchestrator/runtime/actor.py",
            [body],
            "made",
        ),
        (
            "the recorder takes all that wait as one batch",
            "orchestrator/recording/recorder.py",
            ["Batch([this step, the steps of other harnesses, …])"],
            "waits",
        ),
        (
            "the store: one INSERT, one transaction, one fsync",
            "orchestrator/store/sqlite/sqlite_store.py",
            [
                "records: seq  harness  epoch  attempt  step  time_us           body",
                f"         {row[0]:<4} {row[1]:<8} {row[2]:<6} {row[3]:<8} {row[4]:<5} {TIME_US}  {body[:11]}…",
            ],
            "waits",
        ),
        ("the recorder wakes the harness's task", "orchestrator/recording/commit_queue.py", ["current_step == 2"], "disk"),
        (
            "log and subscribers read the committed record",
            "orchestrator/log.py",
            [said[:middle], f" {said[middle:]}"],
            "disk",
        ),
        (
            "is_complete()? pause gate? then execute() goes on",
            "harnesses/loop.py",
            ["False, open: await generator.__anext__()"],
            "disk",
        ),
    ]


COLOURS = {"made": (AMBER, AMBER_LINE), "waits": (BLUE, BLUE_LINE), "disk": (GREEN, GREEN_LINE)}
PARTS = {
    "made": ("in memory:", "a kill loses", "this step"),
    "waits": ("being written:", "a kill leaves", "it whole, or", "not at all"),
    "disk": ("on disk:", "a kill loses", "nothing"),
}
LEFT, WIDTH = 130, 920


def draw() -> str:
    parts: list[str] = []
    y, spans = 16.0, dict[str, list[float]]()
    rows = stations(followed())
    for number, (what, where, shown, part) in enumerate(rows, 1):
        fill, line = COLOURS[part]
        height = 34 + 17 * len(shown)
        parts.append(box(LEFT, y, WIDTH - LEFT - 16, height, fill=fill, line=line))
        parts.append(text(LEFT + 14, y + 22, f"{number}  {what}", extra=' font-weight="bold"'))
        parts.append(text(WIDTH - 30, y + 22, where, size=12, font=MONO, fill=FAINT, extra=' text-anchor="end"'))
        parts.extend(
            text(LEFT + 34, y + 41 + 17 * at, words, size=12, font=MONO, extra=' xml:space="preserve"')
            for at, words in enumerate(shown)
        )
        spans.setdefault(part, [y, 0])[1] = y + height
        if number < len(rows):
            parts.append(arrow([(LEFT + 60, y + height), (LEFT + 60, y + height + 17)]))
        y += height + 18
    for part, (top, bottom) in spans.items():
        parts.append(
            f'<path d="M{LEFT - 10},{top:g} h-8 V{bottom:g} h8" fill="none" stroke="{COLOURS[part][1]}" stroke-width="2"/>'
        )
        middle = (top + bottom) / 2 - 8 * len(PARTS[part]) + 12
        for at, words in enumerate(PARTS[part]):
            bold = ' font-weight="bold"' if at == 0 else ""
            parts.append(text(10, middle + 17 * at, words, size=12, fill=INK, extra=bold))
    return picture(WIDTH, y, parts, "One step of the counting harness, from its yield to the next")
