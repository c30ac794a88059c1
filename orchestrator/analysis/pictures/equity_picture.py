"""What trading accounts were worth, and below how far they stood under their highest: over the time of the market."""

from __future__ import annotations

from attrs import frozen

from harnesses.charts.chart_theme import WIDTH, Spec
from harnesses.charts.time_axis import Span, span_of
from orchestrator.analysis.answers.answer_wording import times
from orchestrator.analysis.frames.analysis_run import Run
from orchestrator.analysis.pictures.chart_layers import MOST_LINES, MOST_POINTS, drawn
from orchestrator.analysis.pictures.picture_page import Picture, nothing, sheet
from orchestrator.analysis.pictures.roll_picture import Roll, roll

_HEIGHTS = (240, 110)
_FIRST_AND_LAST = """
    SELECT harness, count(*), arg_min(equity, seq)::DOUBLE, arg_max(equity, seq)::DOUBLE, max(drawdown_share),
           min(epoch_us(time)), max(epoch_us(time))
    FROM equity WHERE list_contains(?, harness) GROUP BY harness ORDER BY min(seq)
"""
_POINTS = """
    WITH stood AS (
        SELECT epoch_us(time) AS time_us, equity::DOUBLE AS equity, drawdown_share AS lost,
               (row_number() OVER (ORDER BY seq) - 1) // ? AS stretch
        FROM equity WHERE harness = ?
    )
    SELECT DISTINCT unnest([
        arg_min(point, point.time_us), arg_min(point, point.equity), arg_max(point, point.equity), arg_max(point, point.lost),
        arg_max(point, point.time_us)
    ], recursive := true)
    FROM (SELECT {'time_us': time_us, 'equity': equity, 'lost': lost} AS point, stretch FROM stood)
    GROUP BY stretch
"""


@frozen
class Account:
    """What one account came to."""

    harness: str
    count: int
    first: float
    last: float
    most_lost: float
    begin_us: int
    end_us: int

    @property
    def gain(self) -> float:
        """The part of the first equity that was won."""
        return self.last / self.first - 1 if self.first else 0.0


def equity(run: Run, harness: str | None = None) -> Picture:
    """Draw equity and drawdown."""
    cast = roll(run, harness)
    found = [Account(*row) for row in run.rows(_FIRST_AND_LAST, [list(cast.names)])]
    if not found:
        return nothing("equity", "No harness trades")
    shown = found[:MOST_LINES]
    gone = len(found) - len(shown)
    notes = (f"{times(gone, 'account')} more not shown",) if gone else ()
    span = span_of(min(one.begin_us for one in shown), max(one.end_us for one in shown))
    thin = max(one.count for one in shown) > MOST_POINTS
    key = (
        "time of the market; of each stretch the ends, the extremes and the deepest loss are drawn"
        if thin
        else "time of the market"
    )
    return sheet("equity", _title(cast, found), (key,), _body(run, cast, shown, span), (*notes, *cast.notes))


def _title(cast: Roll, found: list[Account]) -> str:
    best = max(found, key=lambda one: one.gain)
    lost = max(one.most_lost for one in found)
    if len(found) == 1:
        return f"{best.gain:+.2%}: from {best.first:,.2f} to {best.last:,.2f}, at most {lost:.2%} below the highest"
    worst = min(found, key=lambda one: one.gain)
    return f"From {best.gain:+.2%} ({cast.labels[best.harness]}) to {worst.gain:+.2%}, at most {lost:.2%} below the highest"


def _body(run: Run, cast: Roll, shown: list[Account], span: Span) -> Spec:
    is_alone = len(shown) == 1
    worth: dict[str, list[tuple[float, float]]] = {}
    losses: dict[str, list[tuple[float, float]]] = {}
    for one in shown:
        rows = sorted(run.rows(_POINTS, [max(1, -(-5 * one.count // MOST_POINTS)), one.harness]))
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
        **drawn(worth, span.x(is_written=False), above, is_stepped=False, height=_HEIGHTS[0]),
    }
    lower: Spec = {
        "width": WIDTH,
        "height": _HEIGHTS[1],
        **drawn(losses, span.x(), below, is_stepped=False, height=_HEIGHTS[1]),
    }
    if is_alone:
        lower["layer"][0]["mark"] = {"type": "area", "color": "#9aa5b1", "line": {"strokeWidth": 1, "color": "#1b1f24"}}
        for key in ("color", "strokeDash"):
            del lower["layer"][0]["encoding"][key]
        del lower["layer"][1]
    return {"vconcat": [upper, lower], "spacing": 10, "bounds": "flush"}
