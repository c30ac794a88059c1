"""Which harnesses a picture shows, how they are written, and over what time."""

from __future__ import annotations

from attrs import frozen

from orchestrator.analysis.pictures.names import MOST_ROWS, labels
from orchestrator.analysis.pictures.times import Span, span_of
from orchestrator.analysis.questions.gathered import gather
from orchestrator.analysis.run import Run
from orchestrator.analysis.wording import times


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
