"""How many steps a second are recorded, over time: all together above, and below a strip for each harness."""

from __future__ import annotations

from harnesses.charts.chart_theme import DEEP, STEPS, WIDTH, Spec
from harnesses.charts.time_axis import Span, moment
from orchestrator.analysis.answers.answer_wording import number, seconds, times
from orchestrator.analysis.frames.analysis_run import Run
from orchestrator.analysis.pictures.chart_layers import bars, channel, layer, rows_of
from orchestrator.analysis.pictures.picture_page import Picture, nothing, sheet
from orchestrator.analysis.pictures.picture_tables import pace, stretches
from orchestrator.analysis.pictures.roll_picture import Roll, roll, row_height

_UNITS = ((1.0, "a second"), (60.0, "a minute"), (3600.0, "an hour"), (86_400.0, "a day"), (365.25 * 86_400, "a year"))


def throughput(run: Run, harness: str | None = None) -> Picture:
    """Draw steps a second over time."""
    cast = roll(run, harness)
    if not cast.all_steps:
        return nothing("throughput", "No step has been recorded")
    count = stretches(cast, 120)
    counts = pace(run, cast, count)
    width_s = cast.span.seconds / count
    total = [sum(row.get(stretch, 0) for row in counts.values()) for stretch in range(count)]
    is_alone = len(cast.names) == 1
    body: Spec = _total(cast.span, total, width_s, is_alone=is_alone)
    if not is_alone:
        body = {"vconcat": [body, _strips(cast, counts, width_s, _unit(total, width_s))], "spacing": 14, "bounds": "flush"}
    key = f"counted in stretches of {seconds(width_s)}" + (
        "; below, each harness: a gap is a stretch without a step" * (len(counts) > 1)
    )
    return sheet("throughput", _title(cast.span, total, width_s), (key,), body, cast.notes)


def _unit(total: list[int], width_s: float) -> tuple[float, str]:
    """Return the smallest unit of time in which there is more than one step."""
    mean = sum(total) / (len(total) * width_s)
    return next(((unit_s, name) for unit_s, name in _UNITS if mean * unit_s >= 1), _UNITS[-1])


def _title(span: Span, total: list[int], width_s: float) -> str:
    most = max(range(len(total)), key=total.__getitem__)
    when = _when(span, int(span.begin_us + most * width_s * 1e6))
    if len([one for one in total if one]) == 1:
        return f"{times(sum(total), 'step')}, at about {when} UTC"
    unit_s, unit = _unit(total, width_s)
    mean, top = number(sum(total) / span.seconds * unit_s), number(total[most] / width_s * unit_s)
    return f"{mean} steps {unit} on average, {top} at the busiest, about {when} UTC"


def _when(span: Span, time_us: int) -> str:
    return moment(time_us)[:10] if span.seconds > 3 * 86_400 else moment(time_us)[11:19]


def _total(span: Span, total: list[int], width_s: float, *, is_alone: bool) -> Spec:
    unit_s, unit = _unit(total, width_s)
    rows = [{**_stretch(span, index, width_s), "rate": steps / width_s * unit_s} for index, steps in enumerate(total)]
    y = channel("rate:Q", title=f"steps {unit}, in all", axis={"tickCount": 5})
    bar = {"type": "bar", "color": DEEP, "binSpacing": 0, "strokeWidth": 0}
    x = span.x(is_written=is_alone)
    return {"width": WIDTH, "height": 150, **layer(rows, bar, x=x, x2="end", y=y, y2={"datum": 0})}


def _strips(cast: Roll, counts: dict[str, dict[int, int]], width_s: float, unit: tuple[float, str]) -> Spec:
    rows = [
        {"harness": cast.labels[name], **_stretch(cast.span, stretch, width_s), "rate": steps / width_s * unit[0]}
        for name, found in counts.items()
        for stretch, steps in found.items()
    ]
    lightness = {"type": "log", "range": list(reversed(STEPS)), "interpolate": "rgb"}
    legend = {"title": f"steps {unit[1]}", "orient": "bottom", "gradientLength": 220, "tickCount": 4}
    rate = channel("rate:Q", scale=lightness, legend=legend)
    strips = bars(rows, cast.span.x(), rate, band=0.8, binSpacing=0)
    return rows_of(cast.order, row_height(len(cast.names)), [strips])


def _stretch(span: Span, index: int, width_s: float) -> dict[str, float]:
    begin = span.begin_us + index * width_s * 1e6
    return {"at": span.at(begin), "end": span.at(begin + width_s * 1e6)}
