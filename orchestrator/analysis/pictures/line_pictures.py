"""The progress of harnesses, as lines over time.

progress   passing features, against all features; a small cross for each failed try
equity     the value of trading accounts, and below it their drawdown, over market time
"""

from __future__ import annotations

from operator import itemgetter

from attrs import frozen

from harnesses.charts.chart_theme import FAINT, WIDTH, Spec
from harnesses.charts.time_axis import Span, span_of, thin
from orchestrator.analysis.answers.answer import times
from orchestrator.analysis.frames.analysis_run import Run
from orchestrator.analysis.pictures import chart_layers as chart
from orchestrator.analysis.pictures import picture_tables as tables

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
    """Time in microseconds since 1970, and how many features pass from then on."""
    failed: tuple[tuple[int, int], ...]
    """Time of each failed try, in microseconds since 1970, and how many features passed then."""
    regressed: int
    tries: int

    @property
    def passing(self) -> int:
        """Number of features that pass in the end."""
        return self.points[-1][1] if self.points else 0


def progress(run: Run, harness: str | None = None) -> chart.Picture:
    """Draw the number of passing features over time."""
    cast = tables.roll(run, harness)
    found = climbs(run, cast)
    if not found:
        return chart.nothing("progress", "No harness works on a list of features")
    shown = sorted(found, key=lambda one: -one.listed)[: chart.MOST_LINES]
    gone = len(found) - len(shown)
    notes = (f"{times(gone, 'harness', 'harnesses')} with fewer features not shown",) if gone else ()
    heard = [time_us for one in shown for time_us, _ in (*one.points, *one.failed)]
    span = span_of(min(heard), max(heard))
    key = "line: passing features; cross under it: a failed try; thin line: all features"
    return chart.sheet("progress", _progress_title(found), (key,), _climb_lines(cast, shown, span), (*notes, *cast.notes))


def climbs(run: Run, cast: tables.Roll) -> list[Climb]:
    """Return how features came to pass, by harness."""
    tables.read_tries(run)
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


def _progress_title(found: list[Climb]) -> str:
    passing, listed = sum(one.passing for one in found), sum(one.listed for one in found)
    tries, regressed = sum(one.tries for one in found), sum(one.regressed for one in found)
    back = f"; {regressed:,} of them fell back" if regressed else ""
    return f"{passing:,} of {times(listed, 'feature')} pass after {times(tries, 'try', 'tries')}{back}"


def _climb_lines(cast: tables.Roll, shown: list[Climb], span: Span) -> Spec:
    most = max(one.listed for one in shown)
    y = {
        "title": "features",
        "scale": {"domain": [0, most * 1.05]},
        "axis": {"tickMinStep": 1, "format": ",d", "tickCount": 6},
    }
    lines = {
        cast.labels[one.harness]: [
            *thin([(span.at(at), float(count)) for at, count in one.points], chart.MOST_POINTS, itemgetter(1)),
            (span.at(span.end_us), float(one.passing)),
        ]
        for one in shown
    }
    body = chart.drawn(lines, span.x(), y, is_stepped=True, height=_HEIGHT)
    layers = [*_lists(shown, y), *body["layer"], _crosses(shown, span, y)]
    return {"width": WIDTH, "height": _HEIGHT, "layer": layers}


def _lists(shown: list[Climb], y: Spec) -> list[Spec]:
    rows = [{"listed": listed, "said": f"{listed:,} in all"} for listed in sorted({one.listed for one in shown})]
    height = {**y, **chart.channel("listed:Q")}
    text = {**chart.LEFT, "baseline": "bottom", "dx": 4, "dy": -2, "color": FAINT}
    return [
        chart.layer(rows, {"type": "rule", "color": FAINT, "strokeWidth": 1}, y=height),
        chart.layer(rows, text, y=height, x={"value": 0}, text="said"),
    ]


def _crosses(shown: list[Climb], span: Span, y: Spec) -> Spec:
    failed = [point for one in shown for point in one.failed]
    kept = failed[:: -(-len(failed) // _MOST_CROSSES) or 1]
    rows = [{"at": span.at(at), "value": value} for at, value in kept]
    return chart.layer(
        rows, {**tables.CROSS, "size": 32, "strokeWidth": 1.6, "yOffset": 8}, x=span.x(), y={**y, **chart.channel("value:Q")}
    )


_HEIGHTS = (240, 110)
_LOST = "coalesce(1 - equity::DOUBLE / nullif(max(equity::DOUBLE) OVER (PARTITION BY harness ORDER BY seq, time), 0), 0)"
"""Loss from the highest equity so far. What a step records as its drawdown begins anew with each `reset` of the limits."""
_FIRST_AND_LAST = f"""
    SELECT harness, count(*), arg_min(equity, (seq, time))::DOUBLE, arg_max(equity, (seq, time))::DOUBLE,
           coalesce(max(lost), 0), min(epoch_us(time)), max(epoch_us(time))
    FROM (SELECT *, {_LOST} AS lost FROM equity) WHERE list_contains(?, harness) GROUP BY harness ORDER BY min(seq)
"""
_POINTS = f"""
    WITH stood AS (
        SELECT epoch_us(time) AS time_us, equity::DOUBLE AS equity, {_LOST} AS lost,
               (row_number() OVER (ORDER BY seq, time) - 1) // ? AS stretch
        FROM equity WHERE harness = ?
    )
    SELECT DISTINCT unnest([
        arg_min(point, point.time_us), arg_min(point, point.equity), arg_max(point, point.equity), arg_max(point, point.lost),
        arg_max(point, point.time_us)
    ], recursive := true)
    FROM (SELECT {{'time_us': time_us, 'equity': equity, 'lost': lost}} AS point, stretch FROM stood)
    GROUP BY stretch
"""


@frozen
class Account:
    """The course of one account."""

    harness: str
    count: int
    first: float
    last: float
    most_lost: float
    begin_us: int
    end_us: int

    @property
    def gain(self) -> float:
        """Relative gain over the first equity."""
        return self.last / self.first - 1 if self.first else 0.0


def equity(run: Run, harness: str | None = None) -> chart.Picture:
    """Draw equity and drawdown."""
    cast = tables.roll(run, harness)
    found = [Account(*row) for row in run.rows(_FIRST_AND_LAST, [list(cast.names)])]
    if not found:
        return chart.nothing("equity", "No harness trades")
    shown = found[: chart.MOST_LINES]
    gone = len(found) - len(shown)
    notes = (f"{times(gone, 'account')} more not shown",) if gone else ()
    span = span_of(min(one.begin_us for one in shown), max(one.end_us for one in shown))
    thin = max(one.count for one in shown) > chart.MOST_POINTS
    key = (
        "time of the market; of each stretch the ends, the extremes and the deepest loss are drawn"
        if thin
        else "time of the market"
    )
    return chart.sheet(
        "equity", _equity_title(cast, found), (key,), _equity_lines(run, cast, shown, span), (*notes, *cast.notes)
    )


def _equity_title(cast: tables.Roll, found: list[Account]) -> str:
    best = max(found, key=lambda one: one.gain)
    lost = max(one.most_lost for one in found)
    if len(found) == 1:
        return f"{best.gain:+.2%}: from {best.first:,.2f} to {best.last:,.2f}, at most {lost:.2%} below the highest"
    worst = min(found, key=lambda one: one.gain)
    return f"From {best.gain:+.2%} ({cast.labels[best.harness]}) to {worst.gain:+.2%}, at most {lost:.2%} below the highest"


def _equity_lines(run: Run, cast: tables.Roll, shown: list[Account], span: Span) -> Spec:
    is_alone = len(shown) == 1
    worth: dict[str, list[tuple[float, float]]] = {}
    losses: dict[str, list[tuple[float, float]]] = {}
    for one in shown:
        rows = sorted(run.rows(_POINTS, [max(1, -(-5 * one.count // chart.MOST_POINTS)), one.harness]))
        name = cast.labels[one.harness]
        worth[name] = [(span.at(at), value if is_alone else value / (one.first or 1) - 1) for at, value, _ in rows]
        losses[name] = [(span.at(at), -lost) for at, _, lost in rows]
    every = [value for line in worth.values() for _, value in line]
    margin = (max(every) - min(every)) * 0.04 or abs(every[0]) * 0.001 or 1.0
    deepest = min([value for line in losses.values() for _, value in line] + [-0.0001])
    above = {
        "title": "equity" if is_alone else "gain",
        "scale": {"domain": [min(every) - margin, max(every) + margin], "zero": False},
        "axis": {"format": "~s" if max(map(abs, every)) >= 1e7 else ",~r" if is_alone else "+.1%", "tickCount": 6},
    }
    below = {
        "title": "drawdown",
        "scale": {"domain": [deepest * 1.05, 0]},
        "axis": {"format": ".0%" if deepest < -0.05 else ".2%", "tickCount": 4},
    }
    upper: Spec = {
        "width": WIDTH,
        "height": _HEIGHTS[0],
        **chart.drawn(worth, span.x(is_written=False), above, is_stepped=False, height=_HEIGHTS[0]),
    }
    lower: Spec = {
        "width": WIDTH,
        "height": _HEIGHTS[1],
        **chart.drawn(losses, span.x(), below, is_stepped=False, height=_HEIGHTS[1]),
    }
    if is_alone:
        lower["layer"][0]["mark"] = {"type": "area", "color": "#9aa5b1", "line": {"strokeWidth": 1, "color": "#1b1f24"}}
        for key in ("color", "strokeDash"):
            del lower["layer"][0]["encoding"][key]
        del lower["layer"][1]
    return {"vconcat": [upper, lower], "spacing": 10, "bounds": "flush"}
