"""Where the records of a run are read from. Each source gives the same two things to DuckDB, and nothing else differs.

records           every record: seq, timestamp, run, harness, attempt, step, kind, body
own(kinds, …)     the records of some kinds with fields of their bodies as columns, read in one pass

store    SQLite, by the extension, bounded by the `seq` that was the last when it was opened
log      JSON lines, one file or many, plain or compressed; lines that are none are left out, and counted
parquet  what `orchestrator export --what records --format parquet` has written
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from orchestrator.analysis.duck import load_sqlite, quoted

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

RECORD = ("seq", "timestamp", "run", "harness", "attempt", "step", "kind")
"""The columns that every record has, besides its body."""


class Source(Protocol):
    """One way to read a run."""

    def prepare(self, db: DuckDBPyConnection) -> None:
        """Make the view `records`."""
        ...

    def own(self, kinds: Sequence[str], fields: Mapping[str, str]) -> str:
        """Return a query for the records of some kinds: `RECORD`, then fields of the body by name and SQL type."""
        ...


class StoreSource:
    """A store in a SQLite file.

    Args:
        last_seq: what is newer is left out, so that every look is at the same moment.
    """

    def __init__(self, path: Path, last_seq: int) -> None:
        self._path, self._last_seq = path, last_seq

    def prepare(self, db: DuckDBPyConnection) -> None:
        load_sqlite(db)
        db.execute(f"ATTACH {quoted(str(self._path))} AS store (TYPE sqlite, READ_ONLY)")
        db.execute(f"""
            CREATE VIEW records AS
            SELECT r.seq AS seq, make_timestamp(r.time_us) AS "timestamp", coalesce(c.run, '') AS run,
                   coalesce(h.name, '') AS harness, r.attempt::INTEGER AS attempt, r.step AS step, r.kind AS kind,
                   r.body::JSON AS body
            FROM store.records r LEFT JOIN store.harnesses h ON h.id = r.harness
            LEFT JOIN store.claims c ON c.harness = r.harness AND c.epoch = r.epoch
            WHERE r.seq <= {self._last_seq}
        """)

    def own(self, kinds: Sequence[str], fields: Mapping[str, str]) -> str:
        return own_of_body(kinds, fields)


class ParquetSource:
    """Exported records: a file, or a folder of parts."""

    def __init__(self, files: Sequence[str]) -> None:
        self._files = files

    def prepare(self, db: DuckDBPyConnection) -> None:
        files = ", ".join(map(quoted, self._files))
        db.execute(f"""
            CREATE VIEW records AS
            SELECT seq, "timestamp"::TIMESTAMP AS "timestamp", run, harness::VARCHAR AS harness,
                   attempt::INTEGER AS attempt, step, kind, body::JSON AS body
            FROM read_parquet([{files}], union_by_name = true, hive_partitioning = false)
        """)

    def own(self, kinds: Sequence[str], fields: Mapping[str, str]) -> str:
        return own_of_body(kinds, fields)


class LogSource:
    """JSON lines as `orchestrator.log` writes them."""

    def __init__(self, files: Sequence[str]) -> None:
        self._files = files

    def prepare(self, db: DuckDBPyConnection) -> None:
        nulls = ", ".join(f"'{name}', NULL" for name in ("timestamp", "level", "event", *RECORD[2:6], "seq"))
        db.execute(f"""
            CREATE VIEW records AS
            SELECT (json ->> '$.seq')::BIGINT AS seq, (json ->> '$.timestamp')::TIMESTAMP AS "timestamp",
                   json ->> '$.run' AS run, json ->> '$.harness' AS harness,
                   (json ->> '$.attempt')::INTEGER AS attempt, (json ->> '$.step')::BIGINT AS step,
                   (json ->> '$.event')[9:] AS kind, json_merge_patch(json, json_object({nulls})) AS body
            FROM read_ndjson_objects([{self._list()}], ignore_errors = true) WHERE json ->> '$.seq' IS NOT NULL
        """)

    def own(self, kinds: Sequence[str], fields: Mapping[str, str]) -> str:
        header = {"seq": "BIGINT", "timestamp": "TIMESTAMP", "event": "VARCHAR", "run": "VARCHAR", "harness": "VARCHAR"}
        types = header | {"attempt": "INTEGER", "step": "BIGINT"} | dict(fields)
        columns = ", ".join(f"{quoted(name)}: {quoted(type)}" for name, type in types.items())
        events = ", ".join(quoted(f"harness.{kind}") for kind in kinds)
        picked = ", ".join(f'"{name}"' for name in fields)
        return f"""
            SELECT seq, "timestamp", run, harness, attempt, step, event[9:] AS kind, {picked}
            FROM read_json([{self._list()}], format = 'newline_delimited', columns = {{{columns}}}, ignore_errors = true)
            WHERE event IN ({events}) AND seq IS NOT NULL
        """

    def _list(self) -> str:
        return ", ".join(map(quoted, self._files))


def own_of_body(kinds: Sequence[str], fields: Mapping[str, str]) -> str:
    """Return the query of `Source.own` where bodies are read as JSON text."""
    columns = ", ".join(f'{_read(name, type)} AS "{name}"' for name, type in fields.items())
    return f"SELECT {', '.join(RECORD)}, {columns} FROM records WHERE kind IN ({', '.join(map(quoted, kinds))})"


def _read(name: str, type: str) -> str:
    if type == "JSON":
        # As the reader of JSON lines has it: what is null is NULL.
        return f"nullif(body -> '$.{name}', 'null')"
    if type == "VARCHAR":
        return f"body ->> '$.{name}'"
    structure = quoted(f'{{"{name}": {_structure(type)}}}')
    return f'json_transform(body, {structure})."{name}"'


def _structure(type: str) -> str:
    """Return a SQL type as DuckDB's functions for JSON write it."""
    if type.startswith("STRUCT("):
        fields = (part.strip().split(" ", 1) for part in type[7:-1].split(","))
        return "{" + ", ".join(f'"{name.strip(chr(34))}": "{of}"' for name, of in fields) + "}"
    if type.endswith("[]"):
        return f"[{_structure(type[:-2])}]"
    return f'"{type}"'
