"""The frames of trading harnesses, whose money and units are exact: `DECIMAL`, never a float.

equity    where the account stood after each step
trades    a row for each fill
"""

from __future__ import annotations

from orchestrator.analysis.frames.features_frame import MONEY, exact
from orchestrator.analysis.sources.source_reading import Source

_SAID = """{"time": "VARCHAR", "equity": "VARCHAR", "cash": "VARCHAR", "drawdown": "VARCHAR", "risk": "VARCHAR",
    "latched": "VARCHAR"}"""
_FIELDS = {"input": "JSON", "output": "JSON", "delta": "JSON"}


def equity(source: Source) -> str:
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


_REALISED = "coalesce(json_extract_string(delta, '$.in.book.set.realised'), json_extract_string(delta, '$.set.book.realised'))"
"""What all sales until then have brought, where a step has changed that."""
_FILLS = """[{"fill": {"fill_id": "VARCHAR", "client_id": "VARCHAR", "symbol": "VARCHAR", "side": "VARCHAR",
    "units": "VARCHAR", "price": "VARCHAR", "fee": "VARCHAR", "time": "VARCHAR"}, "wanted_by": "VARCHAR"}]"""


def trades(source: Source) -> str:
    """Return the query of the frame `trades`.

    `realised` is what a sale brought beyond the average cost of what it sold, before fees. The book keeps it for a step: where
    several sales are in one, it is NULL for each of them.
    """
    return f"""
        WITH steps AS ({told(source)}),
        gains AS (
            SELECT harness, step, total, total - lag(total) OVER (PARTITION BY harness ORDER BY step) AS gain
            FROM (SELECT harness, step, {exact(_REALISED)} AS total FROM steps) WHERE total IS NOT NULL
        ),
        fills AS (
            SELECT *, made.fill AS fill,
                   count(*) FILTER (made.fill.side = 'sell') OVER (PARTITION BY harness, step) AS sales
            FROM (
                SELECT seq, "timestamp", run, harness, attempt, step, time AS bar_time,
                       unnest(json_transform(json_extract(output, '$.fills'), '{_FILLS}')) AS made
                FROM steps WHERE json_extract_string(output, '$.fills[0].fill.fill_id') IS NOT NULL
            )
        )
        SELECT seq, "timestamp", run, harness, attempt, step AS step_number, TRY_CAST(fill.time AS TIMESTAMP) AS time,
               bar_time, fill.symbol AS symbol, fill.side AS side, {exact("fill.units")} AS quantity,
               {exact("fill.price")} AS price, {exact("fill.fee")} AS fee,
               (CASE WHEN fill.side = 'buy' OR (sales = 1 AND total IS NULL) THEN 0 WHEN sales = 1 THEN gain END)::{MONEY}
                   AS realised,
               fill.client_id AS order_id, fill.fill_id AS fill_id, made.wanted_by AS wanted_by
        FROM fills LEFT JOIN gains USING (harness, step)
    """
