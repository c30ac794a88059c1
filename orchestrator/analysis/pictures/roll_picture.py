"""Which harnesses a picture shows, over what time, and how they are written: inert, short, and still each its own."""

from __future__ import annotations

from collections.abc import Iterable

from attrs import frozen

from harnesses.charts.time_axis import Span, span_of
from orchestrator.analysis.answers.answer_wording import times
from orchestrator.analysis.frames.analysis_run import Run
from orchestrator.analysis.frames.gathered import gather
from orchestrator.text.terminal_text import one_line

WIDTH = 28
"""Characters of a name that are written: what is longer is cut in the middle, as its ends tell names apart."""
MOST_ROWS = 100
"""Harnesses that are shown one by one: as many rows are still read on a page."""


def labels(names: Iterable[str], width: int = WIDTH) -> dict[str, str]:
    """Return what is written for each name; no two are the same."""
    written: dict[str, str] = {}
    taken: set[str] = set()
    for name in names:
        label = base = short(name, width) or "(no name)"
        count = 2
        while label in taken:
            label, count = f"{base} ({count})", count + 1
        taken.add(label)
        written[name] = label
    return written


def short(text: str, width: int = WIDTH) -> str:
    """Return text on one line, inert, with its middle left out if it is long."""
    flat = one_line(text, 10_000)
    if len(flat) <= width:
        return flat
    tail = (width - 1) // 3
    return f"{flat[: width - 1 - tail]}…{flat[-tail:]}"


def row_height(rows: int) -> int:
    """Return how high a row is, so that few are easily seen and many fit."""
    return max(13, min(34, 900 // max(rows, 1)))


@frozen
class Roll:
    """The harnesses of a picture, oldest first."""

    names: tuple[str, ...]
    labels: dict[str, str]
    """What is written for each; in the order of `names`."""
    steps: dict[str, int]
    span: Span
    """From the first record to the last one."""
    notes: tuple[str, ...]
    """Who is left out."""

    @property
    def all_steps(self) -> int:
        """Steps of those that are shown."""
        return sum(self.steps.values())

    @property
    def order(self) -> list[str]:
        """What is written, from top to bottom."""
        return list(self.labels.values())

    def row(self, harness: str, begin_us: float, end_us: float) -> dict[str, object]:
        """Return a stretch of the time of a harness as data."""
        return {"harness": self.labels[harness], "at": self.span.at(begin_us), "end": self.span.at(end_us)}


def roll(run: Run, harness: str | None = None, most: int = MOST_ROWS) -> Roll:
    """Return the harnesses to be shown: all, or one; of more than `most` those with the most steps."""
    gather(run)
    found = run.rows(
        """
        SELECT harness, sum(steps)::BIGINT AS steps, min(epoch_us(first)), max(epoch_us(last))
        FROM gathered WHERE harness <> '' AND harness = coalesce(?, harness) GROUP BY harness ORDER BY min(first), harness
        """,
        [harness],
    )
    kept = {row[0] for row in sorted(found, key=lambda row: -row[1])[:most]}
    shown = [row for row in found if row[0] in kept]
    span = span_of(min((row[2] for row in found), default=None), max((row[3] for row in found), default=None))
    gone = len(found) - len(shown)
    notes = (f"{times(gone, 'harness', 'harnesses')} of {len(found):,} left out: those with the fewest steps",) if gone else ()
    steps = {row[0]: int(row[1]) for row in shown}
    return Roll(tuple(steps), labels(steps), steps, span, notes)
