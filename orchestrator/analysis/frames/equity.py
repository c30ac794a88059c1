"""The frame `equity`: where a trading account stood after each step. Money is exact: `DECIMAL`, never a float."""

from __future__ import annotations

from orchestrator.analysis.frames.features import exact
from orchestrator.analysis.sources.reading import Source

_SAID = """{"time": "VARCHAR", "equity": "VARCHAR", "cash": "VARCHAR", "drawdown": "VARCHAR", "risk": "VARCHAR",
    "latched": "VARCHAR"}"""
_FIELDS = {"input": "JSON", "output": "JSON", "delta": "JSON"}


def query(source: Source) -> str:
    """Return the query of the frame `equity`."""
    return f"""
        SELECT seq, "timestamp", run, harness, attempt, step AS step_number, time, equity, cash,
               CASE WHEN said.equity::DOUBLE > 0 THEN 1 - said.cash::DOUBLE / said.equity::DOUBLE END AS exposure_share,
               said.drawdown::DOUBLE AS drawdown_share, said.risk AS risk, coalesce(said.latched, '') <> '' AS latched,
               json_extract(output, '$.positions') AS positions
        FROM ({told(source)})
    """


def told(source: Source) -> str:
    """Return a query for the steps of trading harnesses: what each says as a structure `said`, and the time of its bar."""
    return f"""
        SELECT * FROM (
            SELECT *, TRY_CAST(said.time AS TIMESTAMP) AS time, {exact("said.equity")} AS equity, {exact("said.cash")} AS cash
            FROM (SELECT *, json_transform(output, '{_SAID}') AS said FROM ({source.own(("step",), _FIELDS)}))
        ) WHERE time IS NOT NULL AND equity IS NOT NULL AND cash IS NOT NULL AND said.risk IS NOT NULL
            AND TRY_CAST(said.drawdown AS DOUBLE) IS NOT NULL
    """
