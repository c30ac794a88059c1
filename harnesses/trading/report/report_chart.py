"""A report as a picture: equity above, drawdown below, and when trading was held up shaded. Needs the extra `report`."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Any

from harnesses.charts.chart_theme import CONFIG, DEEP, FAINT, INK, SHADES, WIDTH
from harnesses.charts.thinning import thin
from harnesses.charts.time_axis import Span, span_of
from harnesses.diagnostics.extras import load_extra
from harnesses.trading.report.report_figures import Account, Interval, Point

_MOST_POINTS = 2000
"""More than a picture has pixels for."""
_HEIGHT, _LOWER = 260, 110


def draw(title: str, account: Account) -> tuple[bytes, str]:
    """Return the picture as PNG and as SVG.

    Raises:
        NotReady: what draws is not installed.
    """
    altair, converter = (load_extra(name, "report", "a picture", "say picture=False") for name in ("altair", "vl_convert"))
    spec = {**_chart(altair, title, account).to_dict(), "config": CONFIG}
    return converter.vegalite_to_png(spec, scale=2), converter.vegalite_to_svg(spec)


def _chart(altair: Any, title: str, account: Account) -> Any:
    times = [round(point.time.timestamp() * 1e6) for point in account.points]
    span = span_of(min(times, default=None), max(times, default=None))
    rows = [_row(span, point) for point in thin(account.points, _MOST_POINTS, attrgetter("equity"), attrgetter("drawdown"))]
    points = altair.Chart(altair.Data(values=rows))
    equity = points.mark_line(color=DEEP, strokeWidth=1.5).encode(
        x=altair.X.from_dict(span.x(is_written=False)), y=altair.Y("equity:Q", title="equity", scale=altair.Scale(zero=False))
    )
    below = altair.Y(
        "drawdown:Q", title="drawdown", axis=altair.Axis(format=".0%"), scale=altair.Scale(reverse=True, domainMin=0)
    )
    area = {"color": FAINT, "opacity": 0.5, "line": {"color": INK, "strokeWidth": 1}}
    drawdown = points.mark_area(**area).encode(x=altair.X.from_dict(span.x()), y=below)
    shades = _shades(altair, span, account.intervals)
    upper = altair.layer(*shades, equity).properties(width=WIDTH, height=_HEIGHT)
    lower = altair.layer(*shades, drawdown).properties(width=WIDTH, height=_LOWER)
    whole = altair.vconcat(upper, lower, spacing=10, bounds="flush")
    return whole.properties(title=altair.TitleParams(title, subtitle=_subtitle(account)))


def _shades(altair: Any, span: Span, intervals: Sequence[Interval]) -> list[Any]:
    if not intervals:
        return []
    rows = [
        {"at": span.at(one.begin.timestamp() * 1e6), "end": span.at(one.end.timestamp() * 1e6), "held up": one.kind}
        for one in intervals
    ]
    kinds = [kind for kind in SHADES if any(one.kind == kind for one in intervals)]
    colours = altair.Scale(domain=kinds, range=[SHADES[kind] for kind in kinds])
    shade = altair.Color("held up:N", scale=colours, legend=altair.Legend(title=None, symbolType="square"))
    bands = altair.Chart(altair.Data(values=rows)).mark_rect(opacity=1)
    return [bands.encode(x=altair.X.from_dict(span.x()), x2="end", color=shade)]


def _subtitle(account: Account) -> str:
    figures = account.figures
    return (
        f"{figures.gain:+.2%} · drawdown {figures.max_drawdown:.2%} at most, {figures.drawdown:.2%} now · "
        f"{figures.trades:,} trades · turnover {figures.turnover:,.0f} · fees {figures.fees:,.2f}"
    )


def _row(span: Span, point: Point) -> dict[str, object]:
    return {"at": span.at(point.time.timestamp() * 1e6), "equity": point.equity, "drawdown": point.drawdown}
