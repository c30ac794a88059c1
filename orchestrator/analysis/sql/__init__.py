"""Queries of SQL over a run, from whoever: they read its views, and nothing else in the world.

    with analysis.open("run.db") as run:
        answered = query(run, "select harness, count(*) from steps group by all")
        answered.rows, answered.df(), answered.pl()

Each is judged by its parsed form, and carried out in a process of its own, behind walls: `query_judge`, `query_process`,
`sql_room`. `run.db`, which is DuckDB's own connection, has none of these walls: it is for code that you trust.
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
    """What a query gave."""

    columns: tuple[str, ...]
    types: tuple[str, ...]
    """As DuckDB writes them."""
    rows: list[tuple[Any, ...]] = field(repr=False)
    """Without secrets; money as `Decimal`, moments as `datetime` in UTC without a zone."""
    more: bool = False
    """Whether the limit has kept some back."""

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def dicts(self) -> list[dict[str, Any]]:
        """Return the rows as dicts."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]

    def df(self) -> pandas.DataFrame:
        """Return the rows as a frame of pandas."""
        import pandas  # pyright: ignore[reportMissingTypeStubs]

        return pandas.DataFrame(self.rows, columns=list(self.columns))

    def pl(self) -> polars.DataFrame:
        """Return the rows as a frame of Polars."""
        import polars

        return polars.DataFrame(self.rows, schema=list(self.columns), orient="row", infer_schema_length=None)


def query(run: Run, sql: str, *, limit: int = MOST_ROWS, timeout_s: float | None = None) -> Answered:
    """Return what a query over the views of a run gives. It is opened anew for that: what came since then is seen, too.

    Args:
        sql: one query. Whatever else it is, it is refused.
        limit: rows; what is beyond is not fetched.
        timeout_s: real seconds, after which it is ended.

    Raises:
        QueryFailed: it is refused, or wrong.
        QueryStopped: it takes more time, memory or disk than it may.
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
    """Return the paths of a run by what it is called: one, or several logs."""
    if Path(location).exists() or ", " not in location:
        return [location]
    return location.split(", ")
