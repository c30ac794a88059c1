"""Runs to be drawn: logs in the form of `orchestrator.log`, made line by line; and what a picture looks like in grey."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime, timedelta
from itertools import groupby
from pathlib import Path
from typing import Any

from orchestrator import analysis
from orchestrator.analysis.frames.analysis_run import Run

BEGIN = datetime(2026, 3, 1, 12, tzinfo=UTC)


class Diary:
    """A log that is being written."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lines: list[str] = []

    def say(self, kind: str, harness: str, at_s: float, *, step: int = 0, attempt: int = 1, **body: Any) -> None:
        """Write a line `at_s` seconds after the beginning."""
        time = (BEGIN + timedelta(microseconds=round(at_s * 1e6))).isoformat(timespec="microseconds")[:-6] + "Z"
        head = {"timestamp": time, "level": "info", "event": f"harness.{kind}", "run": "r", "harness": harness}
        self._lines.append(json.dumps({**head, "attempt": attempt, "step": step, "seq": len(self._lines) + 1, **body}))

    def steps(
        self, harness: str, count: int, *, from_s: float = 0.0, every_s: float = 1.0, attempt: int = 1, first: int = 1
    ) -> None:
        """Write steps that took nine tenths of the time between them."""
        took = {"work": round(every_s * 9e5), "agent": round(every_s * 6e5), "commit": round(every_s * 5e4)}
        for index in range(count):
            at_s = from_s + (index + 1) * every_s
            self.say("step", harness, at_s, step=first + index, attempt=attempt, input=index, output="done", took_us=took)

    def life(self, harness: str, count: int, end: str = "completed", *, from_s: float = 0.0, every_s: float = 1.0) -> None:
        """Write one attempt from its start to its end."""
        self.say("started", harness, from_s)
        self.steps(harness, count, from_s=from_s, every_s=every_s)
        self.say(end, harness, from_s + (count + 1) * every_s, step=count)

    def open(self) -> Run:
        """Write the file, and open it."""
        self.path.write_text("".join(line + "\n" for line in self._lines), encoding="utf-8")
        return analysis.open(self.path)


def crashing(diary: Diary, harness: str, crashes: int, *, every_s: float = 10.0) -> None:
    """Write a harness that crashes again and again, and then completes."""
    for attempt in range(1, crashes + 1):
        at_s = (attempt - 1) * every_s
        diary.say("started", harness, at_s, attempt=attempt)
        diary.say("failed", harness, at_s + every_s / 3, attempt=attempt, error="ValueError", cause=f"crash {attempt}")
        diary.say("restarting", harness, at_s + every_s / 3, attempt=attempt, cause="", delay_s=1.0, due=0.0)
    diary.say("started", harness, crashes * every_s, attempt=crashes + 1)
    diary.say("completed", harness, crashes * every_s + 1, attempt=crashes + 1)


def turn(diary: Diary, harness: str, at_s: float, step: int, feature: str, status: str) -> None:
    """Write a try at a feature."""
    given = {"kind": "turn", "feature_id": feature, "turn": 1, "run": 1, "streamed": False, "last_failure": None}
    said = {"status": status, "duration_s": 1.0, "note": "", "verdict": None, "result": {"tokens": 100}}
    diary.say("step", harness, at_s, step=step, input=given, output=said, delta={}, took_us={"work": 1_000_000})


def listed(diary: Diary, harness: str, at_s: float, features: list[str]) -> None:
    """Write the first step of a harness with a list of features."""
    given = {"kind": "initialize", "feature_id": None, "turn": 0, "run": 0, "streamed": False, "last_failure": None}
    delta = {"set": {"features": [{"id": feature} for feature in features]}}
    diary.say("step", harness, at_s, step=1, input=given, output={"status": "done", "note": ""}, delta=delta)


def traded(diary: Diary, harness: str, at_s: float, step: int, day: datetime, equity: float, drawdown: float) -> None:
    """Write a step of a trading harness."""
    said = {"time": day.isoformat(), "equity": str(equity), "cash": str(equity), "drawdown": str(drawdown), "risk": "active"}
    said |= {"latched": "", "fills": [], "positions": {}}
    diary.say("step", harness, at_s, step=step, input={"bars": {}}, output=said, delta={})


def marks(spec: Any) -> int:
    """Return how many rows of data a picture holds."""
    if isinstance(spec, dict):
        own = len(spec["values"]) if isinstance(spec.get("values"), list) and "type" not in spec else 0
        return own + sum(marks(value) for key, value in spec.items() if key != "values")
    return sum(map(marks, spec)) if isinstance(spec, list) else 0


def lightness(colour: str) -> float:
    """Return how light a colour is in grey, 0 to 1, as Pillow and printers reckon it."""
    red, green, blue = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    return 0.299 * red + 0.587 * green + 0.114 * blue


def widest_parts(png: bytes) -> list[int]:
    """Return the greys of the parts of a bar from left to right: of the line of pixels that has the most of them."""
    from PIL import Image

    image = Image.open(io.BytesIO(png)).convert("L")
    lines = (image.crop((60, y, image.width - 90, y + 1)).tobytes() for y in range(image.height))
    wide = ([grey for grey, run in groupby(line) if len(list(run)) > 12] for line in lines)
    return max(
        ([grey for grey, _ in groupby(parts)] for parts in wide),
        key=lambda parts: (len(parts), parts and max(parts) - min(parts)),
    )
