"""Attempts and pauses as stretches of time, each with how it ended. What marks a picture has too many of is thinned here."""

from __future__ import annotations

from attrs import evolve, frozen

from harnesses.charts.chart_theme import ALARM
from orchestrator.analysis.frames.analysis_run import Run
from orchestrator.analysis.pictures.picture_tables import read_attempts
from orchestrator.analysis.pictures.roll_picture import Roll

MOST_SPELLS = 2_000
"""Attempts that a picture shows: of more, those that lasted longest, and the newest of each harness."""


@frozen
class Sign:
    """How the end of an attempt is drawn."""

    words: str
    shape: str
    is_alarming: bool = False


SIGNS = {
    "failed": Sign("crashed", "M-0.8,-0.8L0.8,0.8M-0.8,0.8L0.8,-0.8", is_alarming=True),
    "killed": Sign("ended with its program", "M-1,0L1,0M0,-1L0,1M-0.7,-0.7L0.7,0.7M-0.7,0.7L0.7,-0.7", is_alarming=True),
    "gave_up": Sign("gave up", "triangle-down", is_alarming=True),
    "blocked": Sign("blocked", "triangle-up"),
    "budget_spent": Sign("budget spent", "triangle-left"),
    "stopped": Sign("stopped", "square"),
    "taken_down": Sign("restarted with a sibling", "cross"),
    "exhausted": Sign("had no more to do", "diamond"),
    "completed": Sign("completed", "circle"),
    "": Sign("was running", "triangle-right"),
}
"""By the kind of the event; `killed` if there is none and it is over, nothing if it may be running."""


CROSS = {"type": "point", "shape": SIGNS["failed"].shape, "color": ALARM, "opacity": 1}
"""The mark of a crash, and of a try that failed."""


@frozen
class Spell:
    """A stretch of time of one harness."""

    harness: str
    begin_us: int
    end_us: int
    attempt: int
    end: str = ""
    """A key of `SIGNS`."""
    steps: int = 0


def spells(run: Run, cast: Roll) -> list[Spell]:
    """Return the attempts, by harness, oldest first; one whose start is not on record begins with what is."""
    read_attempts(run)
    query = """
        SELECT harness, epoch_us(coalesce(started, first)), epoch_us(coalesce(ended, last)), attempt,
               coalesce(ended_by, ''), g.steps
        FROM gathered g LEFT JOIN drawn_attempts USING (harness, attempt)
        WHERE attempt > 0 AND list_contains(?, harness) ORDER BY harness, attempt
    """
    found = [Spell(*row) for row in run.rows(query, [list(cast.names)])]
    ended = [evolve(one, end_us=max(one.begin_us, one.end_us)) for one in found]
    place = {name: index for index, name in enumerate(cast.names)}
    return sorted(ended, key=lambda one: (place[one.harness], one.attempt))


def thinned(found: list[Spell]) -> tuple[list[Spell], tuple[str, ...]]:
    """Return as many attempts as a picture has room for, and what is to be said of the others."""
    if len(found) <= MOST_SPELLS:
        return found, ()
    newest = {one.harness: one for one in found}
    rest = sorted((one for one in found if one is not newest[one.harness]), key=lambda one: one.begin_us - one.end_us)
    kept = {(one.harness, one.attempt) for one in (*newest.values(), *rest[: MOST_SPELLS - len(newest)])}
    note = f"{MOST_SPELLS:,} of {len(found):,} attempts are drawn: those that lasted longest, and the newest ones"
    return [one for one in found if (one.harness, one.attempt) in kept], (note,)


def pauses(run: Run, cast: Roll) -> list[Spell]:
    """Return when an operator held a harness; a pause that nobody has ended lasts as long as the picture."""
    read_attempts(run)
    query = """
        SELECT harness, kind, epoch_us("timestamp") FROM drawn_pauses
        WHERE list_contains(?, harness) ORDER BY seq
    """
    since: dict[str, int] = {}
    found: list[Spell] = []
    for harness, kind, time_us in run.rows(query, [list(cast.names)]):
        if kind == "paused":
            since.setdefault(harness, time_us)
        elif harness in since:
            found.append(Spell(harness, since.pop(harness), time_us, 0))
    return [*found, *(Spell(harness, begin, cast.span.end_us, 0) for harness, begin in since.items())][:MOST_SPELLS]
