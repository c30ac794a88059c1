"""How far features have come: those that pass, over time, against all there are; a small cross for each try that failed."""

from __future__ import annotations

from operator import itemgetter

from attrs import frozen

from harnesses.charts.chart_theme import FAINT, WIDTH, Spec
from harnesses.charts.time_axis import Span, span_of, thin
from orchestrator.analysis.answers.answer_wording import times
from orchestrator.analysis.frames.analysis_run import Run
from orchestrator.analysis.pictures.chart_layers import LEFT, MOST_LINES, MOST_POINTS, channel, drawn, layer
from orchestrator.analysis.pictures.picture_page import Picture, nothing, sheet
from orchestrator.analysis.pictures.picture_tables import read_tries
from orchestrator.analysis.pictures.roll_picture import Roll, roll
from orchestrator.analysis.pictures.spells_picture import CROSS

_HEIGHT = 260
_MOST_CROSSES = 400
_TRIED = """
    SELECT harness, feature, epoch_us("timestamp"), passed, coalesce(regressed, false) FROM drawn_tries
    WHERE (passed IS NOT NULL OR regressed) AND list_contains(?, harness) ORDER BY seq
"""
_LISTED = "SELECT harness, listed FROM drawn_features WHERE list_contains(?, harness)"


@frozen
class Climb:
    """How the features of one harness came to pass."""

    harness: str
    listed: int
    points: tuple[tuple[int, int], ...]
    """Microseconds since 1970, and how many pass from then on."""
    failed: tuple[tuple[int, int], ...]
    """The same, where a try failed."""
    regressed: int
    tries: int

    @property
    def passing(self) -> int:
        """How many pass in the end."""
        return self.points[-1][1] if self.points else 0


def progress(run: Run, harness: str | None = None) -> Picture:
    """Draw the features that pass, over time."""
    cast = roll(run, harness)
    found = climbs(run, cast)
    if not found:
        return nothing("progress", "No harness works on a list of features")
    shown = sorted(found, key=lambda one: -one.listed)[:MOST_LINES]
    gone = len(found) - len(shown)
    notes = (f"{times(gone, 'harness', 'harnesses')} with fewer features not shown",) if gone else ()
    heard = [time_us for one in shown for time_us, _ in (*one.points, *one.failed)]
    span = span_of(min(heard), max(heard))
    key = "line: features that pass; cross under it: a try that failed; thin line: all there are"
    return sheet("progress", _title(found), (key,), _body(cast, shown, span), (*notes, *cast.notes))


def climbs(run: Run, cast: Roll) -> list[Climb]:
    """Return how features came to pass, by harness."""
    read_tries(run)
    listed = dict(run.rows(_LISTED, [list(cast.names)]))
    rows: dict[str, list[tuple[str, int, bool | None, bool]]] = {}
    for name, feature, time_us, passed, regressed in run.rows(_TRIED, [list(cast.names)]):
        rows.setdefault(name, []).append((feature, time_us, passed, regressed))
    return [_climb(name, int(listed.get(name, 0)), rows[name]) for name in cast.names if name in rows]


def _climb(name: str, listed: int, rows: list[tuple[str, int, bool | None, bool]]) -> Climb:
    passing: set[str] = set()
    points: list[tuple[int, int]] = [(rows[0][1], 0)]
    failed: list[tuple[int, int]] = []
    regressed = 0
    for feature, time_us, passed, is_regression in rows:
        if is_regression:
            regressed += feature in passing
            passing.discard(feature)
        elif passed:
            passing.add(feature)
        else:
            failed.append((time_us, len(passing)))
        points.append((time_us, len(passing)))
    tries = sum(passed is not None for _, _, passed, _ in rows)
    return Climb(name, max(listed, len(passing)), tuple(points), tuple(failed), regressed, tries)


def _title(found: list[Climb]) -> str:
    passing, listed = sum(one.passing for one in found), sum(one.listed for one in found)
    tries, regressed = sum(one.tries for one in found), sum(one.regressed for one in found)
    back = f"; {regressed:,} of them fell back" if regressed else ""
    return f"{passing:,} of {times(listed, 'feature')} pass after {times(tries, 'try', 'tries')}{back}"


def _body(cast: Roll, shown: list[Climb], span: Span) -> Spec:
    most = max(one.listed for one in shown)
    y = {
        "title": "features",
        "scale": {"domain": [0, most * 1.05]},
        "axis": {"tickMinStep": 1, "format": ",d", "tickCount": 6},
    }
    lines = {
        cast.labels[one.harness]: [
            *thin([(span.at(at), float(count)) for at, count in one.points], MOST_POINTS, itemgetter(1)),
            (span.at(span.end_us), float(one.passing)),
        ]
        for one in shown
    }
    body = drawn(lines, span.x(), y, is_stepped=True, height=_HEIGHT)
    layers = [*_lists(shown, y), *body["layer"], _crosses(shown, span, y)]
    return {"width": WIDTH, "height": _HEIGHT, "layer": layers}


def _lists(shown: list[Climb], y: Spec) -> list[Spec]:
    rows = [{"listed": listed, "said": f"{listed:,} in all"} for listed in sorted({one.listed for one in shown})]
    height = {**y, **channel("listed:Q")}
    text = {**LEFT, "baseline": "bottom", "dx": 4, "dy": -2, "color": FAINT}
    return [
        layer(rows, {"type": "rule", "color": FAINT, "strokeWidth": 1}, y=height),
        layer(rows, text, y=height, x={"value": 0}, text="said"),
    ]


def _crosses(shown: list[Climb], span: Span, y: Spec) -> Spec:
    failed = [point for one in shown for point in one.failed]
    kept = failed[:: -(-len(failed) // _MOST_CROSSES) or 1]
    rows = [{"at": span.at(at), "value": value} for at, value in kept]
    return layer(rows, {**CROSS, "size": 32, "strokeWidth": 1.6, "yOffset": 8}, x=span.x(), y={**y, **channel("value:Q")})
