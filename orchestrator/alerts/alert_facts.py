"""What is so now, of what rules ask: from the status of the harnesses, what needs a person, budgets, and queries."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from fnmatch import fnmatchcase
from typing import Any

from attrs import define, field, frozen

from harnesses.timing.clock import now_s
from orchestrator.alerts.alert_rules import Condition, Over, Query, Rule, Word
from orchestrator.errors import OrchestratorError
from orchestrator.text.step_lines import drawdown_of
from orchestrator.text.terminal_text import one_line
from orchestrator.web.needs import Need
from orchestrator.web.site import Site

QUERY_EVERY_S = 30.0
"""Seconds between two askings of a query."""
_QUERY_S = 20.0
_MOST_ROWS = 1000
_ENDED = frozenset({"finished", "completed", "failed", "gave_up", "stopped"})
_STALE = frozenset({"hung", "interrupted"})


@frozen
class Fact:
    """Something that is so."""

    condition: str
    """The text of the condition that it meets."""
    kind: str
    harness: str
    """Empty for what is of no single harness."""
    identity: str
    """Tells it from others of the same harness: an approval, an attempt, a pool."""
    what: str
    cause: str = ""
    since_us: int = field(default=0, eq=False)
    """When it began, as far as it is recorded, microseconds since 1970; 0 if it is not."""


@define(eq=False)
class Facts:
    """Finds what is so; of one store.

    Args:
        site: what is told of the store.
        ask: runs a query over the views of the store and returns its rows, as text.
        tell: is told of a query that failed.
    """

    site: Site
    ask: Callable[[str], Sequence[Sequence[str]]]
    tell: Callable[[str], None]
    _drawdowns: dict[str, tuple[int, float]] = field(factory=dict[str, tuple[int, float]])
    """Of each harness, its last step and the drawdown after it."""
    _answers: dict[str, tuple[float, Sequence[Sequence[str]]]] = field(
        factory=dict[str, tuple[float, Sequence[Sequence[str]]]]
    )
    """Of each query, when it was asked and what the rows were."""
    _told: set[str] = field(factory=set[str])
    """Failures of queries that were told: each is told once."""

    def now(self, rules: Iterable[Rule]) -> list[tuple[int, Fact]]:
        """Return what is so, each with the number of the rule that asks for it."""
        needs, rows = self.site.needs(), self.site.fleet.rows()
        return [
            (number, fact)
            for number, rule in enumerate(rules)
            for text, condition in rule.conditions.items()
            for fact in self._of(text, condition, needs, rows)
            if fnmatchcase(fact.harness, rule.harness)
        ]

    def _of(self, text: str, condition: Condition, needs: Sequence[Need], rows: Sequence[Mapping[str, Any]]) -> Iterator[Fact]:
        match condition:
            case Word("ended"):
                ended = (row for row in rows if row["status"] in _ENDED or row["activity"] in _ENDED)
                yield from (_of_row(text, row["activity"], row, f"has ended: {row['activity']}") for row in ended)
            case Word(word):
                yield from (_of_need(text, need) for need in needs if _is(word, need["kind"]))
            case Over("budget", limit):
                yield from self._budgets(text, limit)
            case Over("drawdown", limit):
                yield from self._falls(text, limit, rows)
            case Over(_, limit):
                yield from self._silent(text, limit, rows)
            case Query(sql):
                yield from self._answers_of(text, sql)

    def _budgets(self, text: str, limit: float) -> Iterator[Fact]:
        for account in self.site.budgets():
            for amount, most in account["limits"].items():
                used = float(account["spent"].get(amount) or 0)
                if float(most) > 0 and used > limit * float(most):
                    what = f"{account['pool']}: {account['spent'][amount]} of {most} {amount} are spent"
                    yield Fact(text, "budget", "", f"{account['pool']} {amount}", what)

    def _falls(self, text: str, limit: float, rows: Sequence[Mapping[str, Any]]) -> Iterator[Fact]:
        for row in rows:
            fall = self._drawdown(row["harness"], row["current_step"])
            if fall > limit:
                yield Fact(text, "drawdown", row["harness"], "", f"its equity is {fall:.1%} below its highest")

    def _drawdown(self, name: str, step: int) -> float:
        known = self._drawdowns.get(name)
        if known is None or known[0] != step:
            found = self.site.reader.steps(name, after=step - 1, limit=1) if step else []
            known = self._drawdowns[name] = (step, float(drawdown_of(found[0].output) or 0) if found else 0.0)
        return known[1]

    def _silent(self, text: str, limit_s: float, rows: Sequence[Mapping[str, Any]]) -> Iterator[Fact]:
        running = [row for row in rows if row["status"] == "running"]
        times = self.site.reader.recent_times([row["harness"] for row in running], 1)
        for row in running:
            last_s = max([*times[row["harness"]], _us(row["timestamp"])]) / 1e6
            if (age_s := now_s() - last_s) > limit_s:
                what = f"has recorded nothing for {age_s:.0f} s and is {row['activity']}"
                yield Fact(text, "stale", row["harness"], f"attempt {row['attempt']}", what, row["cause"])

    def _answers_of(self, text: str, sql: str) -> Iterator[Fact]:
        asked, rows = self._answers.get(sql, (-QUERY_EVERY_S, ()))
        if time.monotonic() - asked >= QUERY_EVERY_S:
            try:
                rows = self.ask(sql)
            except OrchestratorError as error:
                if (said := f"{sql!r:.100}: {one_line(str(error))}") not in self._told:
                    self._told.add(said)
                    self.tell(said)
            self._answers[sql] = (time.monotonic(), rows)
        for row in rows[:_MOST_ROWS]:
            first, *others = row or ("",)
            yield Fact(text, "query", first, "", ", ".join(others))


def query_rows(location: str, sql: str) -> Sequence[Sequence[str]]:
    """Return the rows of a query over the views of a run, as text.

    Raises:
        OrchestratorError: it is refused or wrong, or takes too long.
    """
    from orchestrator.analysis.sql.sql_room import Page, Room

    with Room(location) as room:
        pages = [part for part in room.ask(sql, limit=_MOST_ROWS, timeout_s=_QUERY_S) if isinstance(part, Page)]
    return [["" if value is None else str(value) for value in row] for page in pages for row in page.rows]


def _is(word: str, kind: str) -> bool:
    return word in (kind, "needs_you") or (word == "stale" and kind in _STALE)


def _of_need(text: str, need: Need) -> Fact:
    facts, kind = need["facts"], need["kind"]
    if kind == "budget":
        return Fact(text, kind, "", f"{facts['pool']} {facts['amount']}", need["what"])
    if kind == "kill_switch":
        return Fact(text, kind, need["harness"], "", need["what"])
    if kind == "approval":
        what = f"asks: {need['what']}; `orchestrator approve {facts['id']}`"
        return Fact(text, kind, need["harness"], facts["id"], what, need["cause"], _us(facts["timestamp"]))
    if kind == "unknown_effect":
        return Fact(text, kind, need["harness"], facts["key"], need["what"], need["cause"], _us(facts["timestamp"]))
    return _of_row(text, kind, facts, need["what"])


def _of_row(text: str, kind: str, row: Mapping[str, Any], what: str) -> Fact:
    # The time of a row is that of the last event, which has ended or blocked the harness if that is its status.
    since_us = _us(row["timestamp"]) if kind == row["status"] else 0
    return Fact(text, kind, row["harness"], f"attempt {row['attempt']}", what, row["cause"], since_us)


def _us(stamp: str | None) -> int:
    """Return a moment as microseconds since 1970; 0 for none."""
    return round(datetime.fromisoformat(stamp).timestamp() * 1e6) if stamp else 0
