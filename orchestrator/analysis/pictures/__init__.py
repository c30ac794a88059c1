"""Pictures of a run, for the questions that are better answered with one.

    picture(run, "timeline").save("timeline.svg")            # or .png; a notebook shows it by itself
    save_pictures(run, "progress", "pictures", "png")

Invariant: data is aggregated by the engine first, so a picture of a million steps has as many marks as one of a thousand; it
says what is left out. No picture needs network access, and none depends on colour alone.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from orchestrator.analysis.frames.analysis_run import Run
from orchestrator.analysis.pictures.bar_pictures import cost, failures, shares
from orchestrator.analysis.pictures.chart_layers import Picture
from orchestrator.analysis.pictures.latency_picture import comparison, latency
from orchestrator.analysis.pictures.line_pictures import equity, progress
from orchestrator.analysis.pictures.time_pictures import restarts, throughput, timeline
from orchestrator.errors import UsageError

__all__ = ["DRAWN", "PICTURES", "Picture", "picture", "pictures", "save_pictures"]

DRAWN: dict[str, Callable[..., Picture]] = {
    "timeline": timeline,
    "latency": latency,
    "shares": shares,
    "throughput": throughput,
    "restarts": restarts,
    "failures": failures,
    "progress": progress,
    "equity": equity,
    "cost": cost,
    "comparison": comparison,
}
"""The function for each picture, by name: `(run, harness=None)`; `comparison` takes another run after the first."""

PICTURES: dict[str, tuple[str, ...]] = {
    "summary": ("shares", "timeline"),
    "timeline": ("timeline",),
    "slow": ("latency", "shares"),
    "failures": ("failures", "restarts"),
    "restarts": ("restarts",),
    "throughput": ("throughput",),
    "cost": ("cost",),
    "progress": ("progress", "equity"),
    "compare": ("comparison",),
    "why": ("timeline",),
    "report": tuple(name for name in DRAWN if name != "comparison"),
}
"""The pictures of each question; questions without pictures are missing."""


def picture(run: Run, name: str, *, harness: str | None = None, other: Run | None = None) -> Picture:
    """Draw one picture of a run.

    Args:
        harness: draw only this one.
        other: the run that `comparison` compares with.

    Raises:
        UsageError: there is no such picture, no such harness, or no run to compare with.
    """
    if (draw := DRAWN.get(name)) is None:
        raise UsageError(f"picture {name!r} is not known: expected one of {', '.join(DRAWN)}")
    if harness is not None and not run.rows("SELECT 1 FROM records WHERE harness = ? LIMIT 1", [harness]):
        raise UsageError(f"harness {harness!r} is not in {run.location}: expected the name of one that is; see `summary`")
    if name != "comparison":
        return draw(run, harness)
    if other is None:
        raise UsageError("picture 'comparison' needs a second run: expected other=…; open that too")
    return draw(run, other, harness)


def pictures(run: Run, question: str, *, harness: str | None = None, other: Run | None = None) -> list[Picture]:
    """Draw the pictures of a question; empty if it has none.

    A picture with nothing to show is left out if another one has something.
    """
    drawn = [picture(run, name, harness=harness, other=other) for name in PICTURES.get(question, ())]
    return [one for one in drawn if not one.is_empty] or drawn[:1]


def save_pictures(
    run: Run, question: str, folder: str | Path, format: str, *, harness: str | None = None, other: Run | None = None
) -> list[Path]:
    """Write the pictures of a question to a folder, which is created if necessary; return their files.

    Args:
        format: `svg`, `png`, or `json` for Vega-Lite.

    Raises:
        UsageError: the question has no picture, or the format is unknown.
        OSError: a file cannot be written.
    """
    if not (drawn := pictures(run, question, harness=harness, other=other)):
        raise UsageError(f"the question {question!r} has no picture: expected one of {', '.join(PICTURES)}")
    Path(folder).mkdir(parents=True, exist_ok=True)
    return [one.save(Path(folder) / f"{one.name}.{format}") for one in drawn]
