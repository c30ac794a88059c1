"""Data shared by several pictures: which harnesses, over what time, and their labels; attempts and pauses, thinned where there
are too many; steps by time. Attempts and tries at features are read from a run once.
"""

from __future__ import annotations

from collections.abc import Iterable
from weakref import WeakKeyDictionary

from attrs import evolve, frozen

from harnesses.charts.chart_theme import ALARM
from harnesses.charts.time_axis import Span, span_of
from orchestrator.analysis.answers.answer import times
from orchestrator.analysis.frames.analysis_run import Run, once_a_run
from orchestrator.analysis.frames.run_tables import gather
from orchestrator.analysis.sources.source_reading import LIFE
from orchestrator.events import Started
from orchestrator.text.terminal_text import one_line

WIDTH = 28
"""Limit on the characters of a label; a longer name is cut in the middle, since its ends distinguish it from others."""
MOST_ROWS = 100
"""Limit on the harnesses shown one by one: more rows do not fit on a page."""


def labels(names: Iterable[str], width: int = WIDTH) -> dict[str, str]:
    """Return a unique label for each name."""
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
    """Return text on one line, safe to show, shortened in the middle."""
    flat = one_line(text, 10_000)
    if len(flat) <= width:
        return flat
    tail = (width - 1) // 3
    return f"{flat[: width - 1 - tail]}…{flat[-tail:]}"


def row_height(rows: int) -> int:
    """Return the height of a row: higher where there are few."""
    return max(13, min(34, 900 // max(rows, 1)))


@frozen
class Roll:
    """The harnesses of a picture, oldest first."""

    names: tuple[str, ...]
    labels: dict[str, str]
    """Label of each, in the order of `names`."""
    steps: dict[str, int]
    span: Span
    """Time from the first record to the last."""
    notes: tuple[str, ...]
    """Which harnesses are left out."""

    @property
    def all_steps(self) -> int:
        """Number of steps of the harnesses shown."""
        return sum(self.steps.values())

    @property
    def order(self) -> list[str]:
        """Labels from top to bottom."""
        return list(self.labels.values())

    def row(self, harness: str, begin_us: float, end_us: float) -> dict[str, object]:
        """Return a time span of a harness as data."""
        return {"harness": self.labels[harness], "at": self.span.at(begin_us), "end": self.span.at(end_us)}


def roll(run: Run, harness: str | None = None, most: int = MOST_ROWS) -> Roll:
    """Return the harnesses to show: all, or one; of more than `most`, those with the most steps."""
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


_HOLDING = tuple(kind for kind in LIFE if kind != Started.kind)
"""Kinds of events that begin or end a pause; a start does neither."""


@once_a_run
def read_attempts(run: Run) -> None:
    """Create `drawn_attempts`, each attempt and how it ended, and `drawn_pauses`, the events that begin or end a pause."""
    run.rows("""
        CREATE OR REPLACE TEMP TABLE drawn_attempts AS
        SELECT harness, attempt, started, ended, cause, error, restart_delay_s, ended_by
        FROM attempts
    """)
    run.rows(f"""
        CREATE OR REPLACE TEMP TABLE drawn_pauses AS
        SELECT seq, harness, kind, "timestamp" FROM ({run.source.own(_HOLDING, {})})
    """)


@once_a_run
def read_tries(run: Run) -> None:
    """Create `drawn_tries`, the result of each try at a feature, and `drawn_features`, their number."""
    run.rows("""
        CREATE OR REPLACE TEMP TABLE drawn_tries AS
        SELECT seq, harness, feature, step_number, "timestamp", is_try, passed, regressed, tokens, money::DOUBLE AS money
        FROM features
    """)
    if run.rows("SELECT 1 FROM drawn_tries LIMIT 1"):
        listed = "SELECT harness, count(*) AS listed, count(passed_step) AS passed FROM feature_standing GROUP BY harness"
    else:
        listed = "SELECT '' AS harness, 0 AS listed, 0 AS passed LIMIT 0"
    run.rows(f"CREATE OR REPLACE TEMP TABLE drawn_features AS {listed}")


FINEST = 240
"""Limit on the time intervals of a picture: narrower ones than three pixels are of no use."""
_MOST = 6_000
"""Limit on the time intervals in all rows of a picture together, each of which may become a mark."""
_COUNTED: WeakKeyDictionary[Run, dict[Span, dict[str, dict[int, int]]]] = WeakKeyDictionary()


def stretches(cast: Roll, most: int = FINEST) -> int:
    """Return how many time intervals a picture of these harnesses has."""
    wanted = max(40, min(most, _MOST // max(len(cast.names), 1)))
    return max(count for count in (240, 120, 60, 40) if count <= wanted)


def pace(run: Run, cast: Roll, count: int) -> dict[str, dict[int, int]]:
    """Return the number of steps of each harness in each of `count` equal intervals, omitting empty ones."""
    spans = _COUNTED.setdefault(run, {})
    if cast.span not in spans:
        spans[cast.span] = _counted(run, cast.span)
    found: dict[str, dict[int, int]] = {}
    for name in cast.names:
        for stretch, steps in spans[cast.span].get(name, {}).items():
            row = found.setdefault(name, {})
            row[stretch * count // FINEST] = row.get(stretch * count // FINEST, 0) + steps
    return found


def _counted(run: Run, span: Span) -> dict[str, dict[int, int]]:
    query = f"""
        SELECT harness, greatest(least(floor((epoch_us("timestamp") - ?) / ?), ?), 0)::INTEGER AS stretch, count(*)
        FROM ({run.source.own(("step",), {})}) GROUP BY ALL ORDER BY ALL
    """
    found: dict[str, dict[int, int]] = {}
    for name, stretch, steps in run.rows(query, [span.begin_us, (span.end_us - span.begin_us) / FINEST, FINEST - 1]):
        found.setdefault(name, {})[stretch] = steps
    return found


MOST_SPELLS = 2_000
"""Limit on the attempts of a picture: of more, the longest, and the newest of each harness."""


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
    "finished": Sign("finished", "diamond"),
    "completed": Sign("completed", "circle"),
    "": Sign("was running", "triangle-right"),
}
"""Signs by the kind of the final event; `killed` for an attempt that ended without one, empty for one that may be running."""


CROSS = {"type": "point", "shape": SIGNS["failed"].shape, "color": ALARM, "opacity": 1}
"""The mark of a crash, and of a failed try."""


@frozen
class Spell:
    """A time span of one harness."""

    harness: str
    begin_us: int
    end_us: int
    attempt: int
    end: str = ""
    """A key of `SIGNS`."""
    steps: int = 0
    run: str = ""
    """The program that it belonged to."""


def spells(run: Run, cast: Roll) -> list[Spell]:
    """Return the attempts, by harness, oldest first; one without a recorded start begins with its first record."""
    read_attempts(run)
    query = """
        SELECT harness, epoch_us(coalesce(started, first)), epoch_us(coalesce(ended, lived_until)), attempt,
               coalesce(ended_by, ''), g.steps, coalesce(g.run, '')
        FROM gathered g JOIN (SELECT harness, attempt, lived_until FROM lives) USING (harness, attempt)
        LEFT JOIN drawn_attempts USING (harness, attempt)
        WHERE attempt > 0 AND list_contains(?, harness) ORDER BY harness, attempt
    """
    found = [Spell(*row) for row in run.rows(query, [list(cast.names)])]
    ended = [evolve(one, end_us=max(one.begin_us, one.end_us)) for one in found]
    place = {name: index for index, name in enumerate(cast.names)}
    return sorted(ended, key=lambda one: (place[one.harness], one.attempt))


def thinned(found: list[Spell]) -> tuple[list[Spell], tuple[str, ...]]:
    """Return as many attempts as a picture has room for, and a note on the others."""
    if len(found) <= MOST_SPELLS:
        return found, ()
    newest = {one.harness: one for one in found}
    rest = sorted((one for one in found if one is not newest[one.harness]), key=lambda one: one.begin_us - one.end_us)
    kept = {(one.harness, one.attempt) for one in (*newest.values(), *rest[: MOST_SPELLS - len(newest)])}
    note = f"{MOST_SPELLS:,} of {len(found):,} attempts are drawn: the longest and the newest ones"
    return [one for one in found if (one.harness, one.attempt) in kept], (note,)


def pauses(run: Run, cast: Roll) -> list[Spell]:
    """Return when an operator paused a harness; a pause without an end lasts until the end of the picture."""
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
