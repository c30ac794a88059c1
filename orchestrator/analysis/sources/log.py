"""A run read from its log: JSON lines as `orchestrator.log` writes them, in one file or many, plain or compressed.

The laws: a record counts once, by its `seq`; what is no line of ours is left out, and `bad_lines` names it; and what is
appended after the run was opened is not seen.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from orchestrator.analysis.duck import named, quoted
from orchestrator.analysis.sources.cleaning import add_functions
from orchestrator.analysis.sources.reading import RECORD, TYPES, among
from orchestrator.analysis.sources.survey import Group, Survey, survey
from orchestrator.log import HEADER

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_PREFIX = "harness."
_KIND = f"event[{len(_PREFIX) + 1}:]"
_HEAD = {name: TYPES[name] for name in RECORD if name != "kind"} | {"event": "VARCHAR"}
_CLASHING = '"(' + "|".join(HEADER) + ')_+":'
"""How a name looks in JSON that may have had an underscore put behind it."""
_NO_HEAD = "json_merge_patch(json, json_object(" + ", ".join(f"'{name}', NULL" for name in HEADER) + "))"
_HEAD_OF = quoted("{" + ", ".join(f'"{name}": "{type}"' for name, type in _HEAD.items()) + "}")


class LogSource:
    """JSON lines.

    Args:
        paths: of the files.
    """

    def __init__(self, paths: Sequence[str]) -> None:
        self._paths = tuple(paths)
        self.survey = Survey(())

    def prepare(self, db: DuckDBPyConnection) -> None:
        """Raises: `UsageError`, see `survey`."""
        add_functions(db)
        self.survey = survey(db, self._paths)
        db.execute(f"CREATE VIEW records AS {self.but(())}")

    def own(self, kinds: Sequence[str], fields: Mapping[str, str]) -> str:
        columns = ", ".join(f"{quoted(name)}: {quoted(type)}" for name, type in (_HEAD | dict(fields)).items())
        events = among([f"{_PREFIX}{kind}" for kind in kinds])
        listed = "".join(f", {named(name)}" for name in fields)
        return self._once(
            lambda group: (
                f"""
                SELECT seq, "timestamp", run, harness, attempt, step, {_KIND} AS kind{listed}
                FROM read_json({group.files}, format = 'newline_delimited', columns = {{{columns}}})
                WHERE event IN ({events}) AND {group.bound}
            """
            )
        )

    def sweep(self, kinds: Sequence[str], fields: Mapping[str, str]) -> str:
        return self.own(kinds, fields)

    def but(self, kinds: Sequence[str]) -> str:
        head = ", ".join(f"head.{named(name)} AS {named(name)}" for name in _HEAD)
        # How lines of these kinds begin as we write them: they need not be taken apart to be left out.
        begin = f'^{{"timestamp":"[^"]*","level":"[^"]*","event":"{_PREFIX}({"|".join(kinds)})"'
        which = f"NOT regexp_matches(json, {quoted(begin)})" if kinds else "true"
        left_out = f"AND event NOT IN ({among([f'{_PREFIX}{kind}' for kind in kinds])})" if kinds else ""
        return self._once(
            lambda group: (
                f"""
                SELECT seq, "timestamp", run, harness, attempt, step, {_KIND} AS kind,
                       CASE WHEN regexp_matches(own, {quoted(_CLASHING)}) THEN json(own_names(own)) ELSE own END AS body
                FROM (SELECT {head}, own FROM (
                    SELECT json_transform(json, {_HEAD_OF}) AS head, {_NO_HEAD} AS own
                    FROM read_ndjson_objects({group.files}) WHERE {which}
                )) WHERE starts_with(event, '{_PREFIX}') AND {group.bound} {left_out}
            """
            )
        )

    def close(self) -> None:
        """There is nothing to let go of."""

    def _once(self, query: Callable[[Group], str]) -> str:
        """Return a query for all files that has each record once: the one that was written last."""
        every = " UNION ALL ".join(map(query, self.survey.groups))
        if not self.survey.is_doubled:
            return every
        return f"""
            SELECT * FROM ({every})
            QUALIFY row_number() OVER (PARTITION BY seq ORDER BY "timestamp" DESC, run DESC, kind DESC, harness DESC) = 1
        """
