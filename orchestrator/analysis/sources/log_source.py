"""A run read from its log: JSON lines as `orchestrator.log` writes them, in one file or many, plain or compressed.

The laws: a record counts once, by its `seq`; what is no line of ours is left out, and `bad_lines` names it; and what is
appended after the run was opened is not seen.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from orchestrator.analysis.sources.duckdb_session import named, quoted
from orchestrator.analysis.sources.source_reading import RECORD, TYPES, among
from orchestrator.analysis.sources.source_survey import Group, Survey, glance, survey
from orchestrator.log import HEADER

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_PREFIX = "harness."
_KIND = f"substr(event, {len(_PREFIX) + 1})"
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
        self._db: DuckDBPyConnection | None = None
        self._sizes: dict[str, int] = {}
        self._likely: Survey | None = None
        self._known: Survey | None = None
        self._swept = Survey(())

    def prepare(self, db: DuckDBPyConnection) -> None:
        """Raises: `UsageError`, see `survey`."""
        self._db = db
        self._likely, self._sizes = glance(self._paths)
        if self._likely is None:
            self._look()

    @property
    def survey(self) -> Survey:
        """What is known of the files; to know it, they may have to be read.

        Raises:
            UsageError: see `survey`.
        """
        return self._known or self._look()

    def _look(self, *, is_doubtful: bool = False) -> Survey:
        assert self._db is not None
        self._known = survey(self._db, self._paths, self._sizes, is_doubtful=is_doubtful)
        return self._known

    def own(self, kinds: Sequence[str], fields: Mapping[str, str]) -> str:
        return self._own(self.survey, kinds, fields)

    def sweep(self, kinds: Sequence[str], fields: Mapping[str, str]) -> str:
        self._swept = self._known or self._likely or self.survey
        return self._own(self._swept, kinds, fields)

    def stands(self, swept: tuple[int, int] | None) -> bool:
        if swept is not None and self._swept.expected in (None, swept):
            return True
        if self._swept.expected is not None:
            self._look(is_doubtful=swept is not None)
        return False

    def _own(self, survey: Survey, kinds: Sequence[str], fields: Mapping[str, str]) -> str:
        columns = ", ".join(f"{quoted(name)}: {quoted(type)}" for name, type in (_HEAD | dict(fields)).items())
        one, others = f"{_PREFIX}{kinds[0]}", among([f"{_PREFIX}{kind}" for kind in kinds[1:]])
        # Nearly all lines are of one kind: to look for each of their words among many takes a tenth of all the time.
        which = f"(event = '{one}' OR event IN ({others}))" if others else f"event = '{one}'"
        listed = "".join(f", {named(name)}" for name in fields)
        return _once(
            survey,
            lambda group: (
                f"""
                SELECT seq, "timestamp", run, harness, attempt, step, {_KIND} AS kind{listed}
                FROM read_json({group.files}, format = 'newline_delimited', records = true, columns = {{{columns}}})
                WHERE {which} AND {group.bound}
            """
            ),
        )

    def but(self, kinds: Sequence[str]) -> str:
        head = ", ".join(f"head.{named(name)} AS {named(name)}" for name in _HEAD)
        # How lines of these kinds begin as we write them: they need not be taken apart to be left out.
        begin = f'^{{"timestamp":"[^"]*","level":"[^"]*","event":"{_PREFIX}({"|".join(kinds)})"'
        which = f"NOT regexp_matches(json, {quoted(begin)})" if kinds else "true"
        left_out = f"AND event NOT IN ({among([f'{_PREFIX}{kind}' for kind in kinds])})" if kinds else ""
        return _once(
            self.survey,
            lambda group: (
                f"""
                SELECT seq, "timestamp", run, harness, attempt, step, {_KIND} AS kind,
                       CASE WHEN regexp_matches(own, {quoted(_CLASHING)}) THEN json(own_names(own)) ELSE own END AS body
                FROM (SELECT {head}, own FROM (
                    SELECT {_valid(f"json_transform(json, {_HEAD_OF})")} AS head, {_valid(_NO_HEAD)} AS own
                    FROM read_ndjson_objects({group.files}) WHERE {which}
                )) WHERE starts_with(event, '{_PREFIX}') AND {group.bound} {left_out}
            """
            ),
        )

    def close(self) -> None:
        """There is nothing to let go of."""


def _once(survey: Survey, query: Callable[[Group], str]) -> str:
    """Return a query for all files that has each record once: the one that was written last."""
    every = " UNION ALL ".join(map(query, survey.groups))
    if not survey.is_doubled:
        return every
    return f"""
        SELECT * FROM ({every})
        QUALIFY row_number() OVER (PARTITION BY seq ORDER BY "timestamp" DESC, run DESC, kind DESC, harness DESC) = 1
    """


def _valid(expression: str) -> str:
    """Return an expression over a line that is NULL for one which only begins like JSON: it would end the whole query."""
    return f"CASE WHEN json_valid(json) THEN {expression} END"
