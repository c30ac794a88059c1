"""How much each harness has done, how fast, and where its time went."""

from __future__ import annotations

from typing import Any

from orchestrator.analysis.answer import Answer, Table
from orchestrator.analysis.run import Run

_QUANTILES = "[0.5, 0.95, 0.99]"


def answer(run: Run, *, harness: str | None = None) -> Answer:
    """Return the figures of each harness, and of all together."""
    where, given = ("WHERE harness = ?", [harness]) if harness is not None else ("", [])
    rows = run.rows(
        f"""
        SELECT harness, count(*), quantile_cont(work_s, {_QUANTILES}), max(work_s),
               quantile_cont(previous_commit_s, {_QUANTILES}), max(previous_commit_s), min("timestamp"), max("timestamp")
        FROM steps {where} GROUP BY GROUPING SETS ((harness), ()) ORDER BY harness NULLS FIRST
        """,
        given,
    )
    head = ("harness", "steps", "first", "last")
    latency = tuple(f"{part}_{which}_s" for part in ("work", "commit") for which in ("p50", "p95", "p99", "max"))
    return Answer(
        "summary",
        (
            Table("harnesses", head, [(row[0], row[1], moment(row[6]), moment(row[7])) for row in rows]),
            Table(
                "latency", ("harness", *latency), [(row[0], *_four(row[2], row[3]), *_four(row[4], row[5])) for row in rows]
            ),
        ),
    )


def _four(quantiles: Any, most: Any) -> tuple[Any, ...]:
    return (*(quantiles or (None,) * 3), most)


def moment(value: Any) -> str | None:
    """Return a timestamp of a frame as text."""
    return None if value is None else f"{value.isoformat(timespec='microseconds')}Z"
