"""The `Source` protocol: how DuckDB gets the records of a run, whatever they are read from.

own(kinds, …)       the records of some kinds, with fields of their bodies as columns
but(kinds)          the records of all other kinds: seq, timestamp, run, harness, attempt, step, kind, body
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from orchestrator.analysis.sources.duckdb_session import named, quoted
from orchestrator.events import EARLIER_KINDS, EVENTS, Forked, Paused, Restarting, Resumed, Started
from orchestrator.records import LIMITS_SET, ORDERED, RELOADED, SUPERVISOR

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


def typed(text: str) -> dict[str, str]:
    """Parse fields with their SQL types from text such as `name:TYPE name:TYPE`."""
    return {name: type for name, _, type in (word.partition(":") for word in text.split())}


TYPES = typed("seq:BIGINT timestamp:TIMESTAMP run:VARCHAR harness:VARCHAR attempt:INTEGER step:BIGINT kind:VARCHAR")
"""The columns that every record has, besides its body."""
RECORD = tuple(TYPES)
LIFE = tuple(event.kind for event in EVENTS)
"""Kinds of lifecycle events."""
ENDS = tuple(event.kind for event in EVENTS if event not in (Started, Paused, Resumed, Restarting, Forked))
"""Kinds of events that end an attempt."""
APPROVALS = ("approval_requested", "approval_answered", "approval_used")
KINDS = (
    *("step", "message", "intent", "outcome", "output", "latch", "evidence", "task", "guardrail", "child", "budget"),
    "transcript",
    *(*APPROVALS, "pruned", "repaired", LIMITS_SET, ORDERED, RELOADED, SUPERVISOR, "loop_blocked"),
    *LIFE,
)
"""All kinds of records."""
_TEXT = ("JSON", "VARCHAR")


class Source(Protocol):
    """A source of records."""

    def prepare(self, db: DuckDBPyConnection) -> None:
        """Register with the connection what the queries need, besides the functions of `duckdb_session`."""
        ...

    def own(self, kinds: Sequence[str], fields: Mapping[str, str]) -> str:
        """Return a query for the records of some kinds: `RECORD`, then fields of the body by name and SQL type.

        A JSON null is NULL. Only the requested fields are read.
        """
        ...

    def results(self, fields: Mapping[str, str]) -> str:
        """Return `own` for steps; `input`, `output` and `delta` may lack what frames of ready-made harnesses do not read."""
        ...

    def sweep(self, kinds: Sequence[str], fields: Mapping[str, str]) -> str:
        """Return a query for the same that is optimised for one full pass: slower to start, faster to finish.

        Its result is valid only if `stands` returns true.
        """
        ...

    def stands(self, swept: tuple[int, int] | None) -> bool:
        """Return whether the result of a sweep over all kinds is valid; if not, the next sweep uses another query.

        Args:
            swept: number of its records, and the sum of their `seq`; None if it has failed.
        """
        ...

    def but(self, kinds: Sequence[str]) -> str:
        """Return a query for the records of other kinds: `RECORD`, and `body`."""
        ...

    def close(self) -> None:
        """Release the resources of the source."""
        ...


def listed(names: Sequence[str]) -> str:
    """Return columns as a select list."""
    return ", ".join(map(named, names))


def from_body(fields: Mapping[str, str], *, numbers: str = "body", texts: str = "body") -> str:
    """Return the select list for fields of JSON bodies, each preceded by a comma.

    Args:
        numbers: the column to read everything but text from.
        texts: the column to read text from; it is redacted.
    """
    return "".join(
        f", {_read(name, type, texts if is_text(type) else numbers)} AS {named(name)}" for name, type in fields.items()
    )


def is_text(type: str) -> bool:
    """Return whether a value of this SQL type can contain text."""
    return any(word in type for word in _TEXT)


def _read(name: str, type: str, body: str) -> str:
    if type == "JSON":
        # As DuckDB's reader of JSON lines does: null is NULL.
        return f"nullif({body} -> '$.{name}', 'null')"
    if type == "VARCHAR":
        return f"{body} ->> '$.{name}'"
    structure = quoted(f'{{"{name}": {structure_of(type)}}}')
    return f"json_transform({body}, {structure}).{named(name)}"


def structure_of(type: str) -> str:
    """Return an SQL type in the format of DuckDB's JSON functions."""
    if type.startswith("STRUCT("):
        fields = (part.strip().split(" ", 1) for part in type[7:-1].split(","))
        return "{" + ", ".join(f'"{name.strip(chr(34))}": "{of}"' for name, of in fields) + "}"
    if type.endswith("[]"):
        return f"[{structure_of(type[:-2])}]"
    return f'"{type}"'


def among(kinds: Sequence[str]) -> str:
    """Return kinds as an SQL list of literals."""
    return ", ".join(map(quoted, kinds))


def kind_of(column: str) -> str:
    """Return the SQL for the current word of a record's kind, from the column with the recorded word."""
    cases = "".join(f" WHEN {quoted(earlier)} THEN {quoted(kind)}" for earlier, kind in EARLIER_KINDS.items())
    return f"CASE {column}{cases} ELSE {column} END"
