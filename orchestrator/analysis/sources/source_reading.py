"""How the records of a run reach the engine, whatever they are read from. Each source gives the same to DuckDB:

own(kinds, …)       the records of some kinds with fields of their bodies as columns
but(kinds)          the records of all other kinds: seq, timestamp, run, harness, attempt, step, kind, body
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from orchestrator.analysis.sources.duckdb_session import named, quoted
from orchestrator.events import EARLIER_KINDS, EVENTS, Forked, Paused, Restarting, Resumed, Started

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


def typed(text: str) -> dict[str, str]:
    """Return fields by name and SQL type, written `name:TYPE` with blanks between them."""
    return {name: type for name, _, type in (word.partition(":") for word in text.split())}


TYPES = typed("seq:BIGINT timestamp:TIMESTAMP run:VARCHAR harness:VARCHAR attempt:INTEGER step:BIGINT kind:VARCHAR")
"""The columns that every record has, besides its body."""
RECORD = tuple(TYPES)
LIFE = tuple(event.kind for event in EVENTS)
"""Kinds of lifecycle events."""
ENDS = tuple(event.kind for event in EVENTS if event not in (Started, Paused, Resumed, Restarting, Forked))
"""Kinds of events after which an attempt is over."""
APPROVALS = ("approval_requested", "approval_answered", "approval_used")
KINDS = (
    *("step", "message", "intent", "outcome", "output", "latch", "evidence", "task", "guardrail", "child", "budget"),
    *(*APPROVALS, "pruned", "repaired", "loop_blocked"),
    *LIFE,
)
"""Of all records."""
_TEXT = ("JSON", "VARCHAR")


class Source(Protocol):
    """One way to read a run."""

    def prepare(self, db: DuckDBPyConnection) -> None:
        """Make all known to the connection that the queries need, besides the functions of `cleaning`."""
        ...

    def own(self, kinds: Sequence[str], fields: Mapping[str, str]) -> str:
        """Return a query for the records of some kinds: `RECORD`, then fields of the body by name and SQL type.

        What is null in JSON is NULL. Only what is asked of it is read.
        """
        ...

    def sweep(self, kinds: Sequence[str], fields: Mapping[str, str]) -> str:
        """Return a query for the same that is made to go over all of it, once: slower to begin, and sooner done.

        What it gives holds only if `stands` says so.
        """
        ...

    def stands(self, swept: tuple[int, int] | None) -> bool:
        """Return whether a sweep over all kinds is to be relied on; where it is not, the next one is another query.

        Args:
            swept: how many records it gave, and the sum of their `seq`; None if it has failed.
        """
        ...

    def but(self, kinds: Sequence[str]) -> str:
        """Return a query for the records of other kinds: `RECORD`, and `body`."""
        ...

    def close(self) -> None:
        """Let go of what was made for it."""
        ...


def from_body(fields: Mapping[str, str], *, numbers: str = "body", texts: str = "body") -> str:
    """Return what to select for fields of JSON bodies, each with a comma before it.

    Args:
        numbers: the column to read what is no text from.
        texts: the column to read text from; secrets are not in it.
    """
    return "".join(
        f", {_read(name, type, texts if is_text(type) else numbers)} AS {named(name)}" for name, type in fields.items()
    )


def is_text(type: str) -> bool:
    """Return whether what is read as this type can hold text."""
    return any(word in type for word in _TEXT)


def _read(name: str, type: str, body: str) -> str:
    if type == "JSON":
        # As the reader of JSON lines has it: what is null is NULL.
        return f"nullif({body} -> '$.{name}', 'null')"
    if type == "VARCHAR":
        return f"{body} ->> '$.{name}'"
    structure = quoted(f'{{"{name}": {structure_of(type)}}}')
    return f"json_transform({body}, {structure}).{named(name)}"


def structure_of(type: str) -> str:
    """Return a SQL type as DuckDB's functions for JSON write it."""
    if type.startswith("STRUCT("):
        fields = (part.strip().split(" ", 1) for part in type[7:-1].split(","))
        return "{" + ", ".join(f'"{name.strip(chr(34))}": "{of}"' for name, of in fields) + "}"
    if type.endswith("[]"):
        return f"[{structure_of(type[:-2])}]"
    return f'"{type}"'


def among(kinds: Sequence[str]) -> str:
    """Return kinds as SQL lists them."""
    return ", ".join(map(quoted, kinds))


def kind_of(column: str) -> str:
    """Return SQL for the kind of a record as it is shown, from the column that has it as it was written."""
    cases = "".join(f" WHEN {quoted(earlier)} THEN {quoted(kind)}" for earlier, kind in EARLIER_KINDS.items())
    return f"CASE {column}{cases} ELSE {column} END"
