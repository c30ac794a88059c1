"""A report as a picture: equity above, drawdown below, and when trading was held up shaded. Needs the extra `report`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from harnesses.extras import load_extra
from harnesses.trading.report_figures import Account, Interval, Point

_MOST_POINTS = 2000
"""More than a picture has pixels for. Of each stretch the ends, the extremes and the deepest loss are drawn."""
_SHADES = {"halted": "#d62728", "latched": "#9467bd", "reducing": "#ff9f1c"}
_STAMPS = ((4 * 365, "%Y"), (60, "%b %Y"), (3, "%d %b"), (0, "%d %b %H:%M"))
"""How moments are written, by the least days that are shown."""
_LINE, _LOSS = "#1f5fa8", "#b03a2e"
_WIDTH, _HEIGHT, _LOWER = 860, 300, 120


def draw(title: str, account: Account) -> tuple[bytes, str]:
    """Return the picture as PNG and as SVG.

    Raises:
        NotReady: what draws is not installed.
    """
    altair, converter = (load_extra(name, "report", "a picture", "say picture=False") for name in ("altair", "vl_convert"))
    spec: str = _chart(altair, title, account).to_json()
    return converter.vegalite_to_png(spec, scale=2), converter.vegalite_to_svg(spec)


def _chart(altair: Any, title: str, account: Account) -> Any:
    axis = altair.Axis(format=_stamp(account.points), tickCount=10, labelOverlap=True)
    times = altair.X("time:T", title=None, scale=altair.Scale(type="utc"), axis=axis)
    points = altair.Data(values=[_row(point) for point in thinned(account.points)])
    equity = (
        altair.Chart(points)
        .mark_line(color=_LINE, strokeWidth=1.2, interpolate="linear")
        .encode(x=times, y=altair.Y("equity:Q", title="equity", scale=altair.Scale(zero=False)))
    )
    below = altair.Scale(reverse=True, domainMin=0)
    drawdown = (
        altair.Chart(points)
        .mark_area(color=_LOSS, opacity=0.5, interpolate="linear", line={"color": _LOSS, "strokeWidth": 1})
        .encode(
            x=times,
            y=altair.Y("drawdown:Q", title="drawdown", axis=altair.Axis(format=".0%"), scale=below),
        )
    )
    shades = _shades(altair, account.intervals, times)
    upper = (shades + equity if shades is not None else equity).properties(width=_WIDTH, height=_HEIGHT)
    lower = (shades + drawdown if shades is not None else drawdown).properties(width=_WIDTH, height=_LOWER)
    subtitle = _subtitle(account)
    whole = altair.vconcat(upper, lower, spacing=8).resolve_scale(x="shared")
    return whole.properties(title=altair.TitleParams(title, subtitle=subtitle, anchor="start")).configure_view(stroke=None)


def _shades(altair: Any, intervals: Sequence[Interval], times: Any) -> Any:
    if not intervals:
        return None
    rows = [{"time": one.begin.isoformat(), "end": one.end.isoformat(), "held up": one.kind} for one in intervals]
    kinds = sorted({one.kind for one in intervals})
    colours = altair.Scale(domain=kinds, range=[_SHADES.get(kind, "#888888") for kind in kinds])
    return (
        altair.Chart(altair.Data(values=rows))
        .mark_rect(opacity=0.2)
        .encode(
            x=times, x2="end:T", color=altair.Color("held up:N", scale=colours, legend=altair.Legend(orient="top", title=None))
        )
    )


def _stamp(points: Sequence[Point]) -> str:
    """Return how moments are written: as finely as the time shown needs it."""
    days = (points[-1].time - points[0].time).days if points else 0
    return next(stamp for least, stamp in _STAMPS if days >= least)


def _subtitle(account: Account) -> str:
    figures = account.figures
    return (
        f"{figures.gain:+.2%} · drawdown {figures.max_drawdown:.2%} at most, {figures.drawdown:.2%} now · "
        f"{figures.trades:,} trades · turnover {figures.turnover:,.0f} · fees {figures.fees:,.2f}"
    )


def _row(point: Point) -> dict[str, object]:
    return {"time": point.time.isoformat(), "equity": point.equity, "drawdown": point.drawdown}


def thinned(points: Sequence[Point], most: int = _MOST_POINTS) -> list[Point]:
    """Return at most `most` points, and all that the eye can see of the others."""
    if len(points) <= most:
        return list(points)
    stretch = -(-5 * len(points) // most)
    kept: list[Point] = []
    for start in range(0, len(points), stretch):
        part = points[start : start + stretch]
        extremes = (min(part, key=_equity), max(part, key=_equity), max(part, key=_drawdown))
        kept += [point for point in part if any(point is one for one in (part[0], *extremes, part[-1]))]
    return kept


def _equity(point: Point) -> float:
    return point.equity


def _drawdown(point: Point) -> float:
    return point.drawdown
