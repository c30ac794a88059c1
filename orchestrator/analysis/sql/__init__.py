"""Read-only SQL queries over a run, safe for untrusted text.

    with analysis.open("run.db") as run:
        answered = query(run, "select harness, count(*) from steps group by all")
        answered.rows, answered.df(), answered.pl()

Each query is checked in its parsed form, and executed in a sandboxed process: `query_judge`, `query_process`, `sql_room`.
`run.db`, DuckDB's own connection, has none of these restrictions: it is for trusted code.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attrs import field, frozen

from orchestrator.analysis.frames.analysis_run import Run
from orchestrator.analysis.sql.sql_room import End, Head, Page, QueryFailed, QueryStopped, Room, made

if TYPE_CHECKING:
    import pandas  # type: ignore[import-untyped]
    import polars

__all__ = ["Answered", "QueryFailed", "QueryStopped", "query"]

MOST_ROWS = 1_000_000


@frozen
class Answered:
    """The result of a query."""

    columns: tuple[str, ...]
    types: tuple[str, ...]
    """DuckDB's names of the types."""
    rows: list[tuple[Any, ...]] = field(repr=False)
    """Redacted rows; money as `Decimal`, moments as `datetime` in UTC without a zone."""
    more: bool = False
    """Whether there are more rows than the limit."""

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def dicts(self) -> list[dict[str, Any]]:
        """Return the rows as dicts."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]

    def df(self) -> pandas.DataFrame:
        """Return the rows as a pandas frame."""
        import pandas  # pyright: ignore[reportMissingTypeStubs]

        return pandas.DataFrame(self.rows, columns=list(self.columns))

    def pl(self) -> polars.DataFrame:
        """Return the rows as a Polars frame."""
        import polars

        return polars.DataFrame(self.rows, schema=list(self.columns), orient="row", infer_schema_length=None)


def query(run: Run, sql: str, *, limit: int = MOST_ROWS, timeout_s: float | None = None) -> Answered:
    """Run a query over the views of a run. The run is opened anew, so records since the first opening are included.

    Args:
        sql: one query; anything else is refused.
        limit: maximum number of rows to fetch.
        timeout_s: real seconds after which the query is stopped.

    Raises:
        QueryFailed: it is refused, or wrong.
        QueryStopped: it exceeds its limit on time, memory or disk.
    """
    head, rows, end = Head((), ()), list[tuple[Any, ...]](), End(0, False)
    with Room(*_paths(run.location)) as room:
        for said in room.ask(sql, limit=limit, timeout_s=timeout_s):
            if isinstance(said, Page):
                rows.extend(tuple(map(made, row, head.types)) for row in said.rows)
            elif isinstance(said, Head):
                head = said
            else:
                end = said
    return Answered(head.columns, head.types, rows, end.more)


def _paths(location: str) -> list[str]:
    """Return the paths of a run from its location: one, or several logs."""
    if Path(location).exists() or ", " not in location:
        return [location]
    return location.split(", ")
