"""How far features have come: those that pass, over time, against all there are; a small cross for each try that failed."""

from __future__ import annotations

from attrs import frozen

from orchestrator.analysis.pictures.lines import MOST_LINES, drawn, thinned
from orchestrator.analysis.pictures.paper import ALARM, FAINT, WIDTH, Picture, Spec, nothing, sheet, values
from orchestrator.analysis.pictures.roll import Roll, roll
from orchestrator.analysis.pictures.spells import SIGNS
from orchestrator.analysis.pictures.tables import read_tries
from orchestrator.analysis.pictures.times import Span, span_of
from orchestrator.analysis.run import Run
from orchestrator.analysis.wording import times

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
            *thinned([(span.at(at), float(count)) for at, count in one.points]),
            (span.at(span.end_us), float(one.passing)),
        ]
        for one in shown
    }
    body = drawn(lines, span.x(), y, is_stepped=True, height=_HEIGHT)
    return {
        "width": WIDTH,
        "height": _HEIGHT,
        **body,
        "layer": [_lists(shown, y), *body["layer"], _crosses(shown, span, y)],
    }


def _lists(shown: list[Climb], y: Spec) -> Spec:
    rows = [{"listed": listed, "said": f"{listed:,} in all"} for listed in sorted({one.listed for one in shown})]
    height = {**y, "field": "listed", "type": "quantitative"}
    return {
        "data": values(rows),
        "layer": [
            {"mark": {"type": "rule", "color": FAINT, "strokeWidth": 1}, "encoding": {"y": height}},
            {
                "mark": {"type": "text", "align": "left", "baseline": "bottom", "dx": 4, "dy": -2, "color": FAINT},
                "encoding": {"y": height, "x": {"value": 0}, "text": {"field": "said"}},
            },
        ],
    }


def _crosses(shown: list[Climb], span: Span, y: Spec) -> Spec:
    failed = [point for one in shown for point in one.failed]
    kept = failed[:: -(-len(failed) // _MOST_CROSSES) or 1]
    rows = [{"at": span.at(at), "value": value} for at, value in kept]
    cross = {
        "type": "point",
        "shape": SIGNS["failed"].shape,
        "size": 32,
        "color": ALARM,
        "strokeWidth": 1.6,
        "opacity": 1,
        "yOffset": 8,
    }
    return {
        "data": values(rows),
        "mark": cross,
        "encoding": {"x": span.x(), "y": {**y, "field": "value", "type": "quantitative"}},
    }
