"""Rules: who is told of what. Pure.

when = "blocked"              a word: what the operator's page says of a harness, an approval, an effect or a budget
when = "drawdown > 0.1"       a measure above a limit
when = "SELECT harness, …"    a query over the views of the run; each row is an alert
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from attrs import frozen

from orchestrator.errors import UsageError

WORDS: Mapping[str, str] = {
    "blocked": "a harness waits for something that is missing, such as a program",
    "gave_up": "a harness has used up its restarts",
    "failed": "a harness failed and is not restarted",
    "halted": "a guardrail or its own rules keep a harness from its work",
    "stale": "a step takes far longer than usual, or its program is gone; `hung` and `interrupted` together",
    "hung": "a step takes far longer than usual, or than `step_timeout_s`",
    "interrupted": "the program of a running harness is gone",
    "budget_spent": "a harness has spent its budget",
    "budget": "a budget is spent to 80 % or more",
    "approval": "a harness asks a person",
    "unknown_effect": "nobody knows whether an effect happened",
    "kill_switch": "the kill switch is on",
    "needs_you": "any of these",
    "ended": "a harness has finished, completed, failed, given up or been stopped",
}
"""What each word of a condition means."""
MEASURES: Mapping[str, str] = {
    "budget": "the share that is spent of any limit of a budget, 0 to 1",
    "drawdown": "how far the equity of a trading harness is below its highest, 0 to 1",
    "stale": "seconds since the last step or start of a harness that runs",
}
"""What each measure of a condition means."""
_OVER = re.compile(r"(\w+)\s*>\s*([0-9]+(?:\.[0-9]+)?)")
_QUERY = re.compile(r"\s*(?:select|with|from)\b", re.IGNORECASE)


@frozen
class Word:
    """One of `WORDS`."""

    word: str


@frozen
class Over:
    """A measure above a limit."""

    measure: str
    limit: float


@frozen
class Query:
    """A query, each row of whose result is an alert; its first column tells the rows apart."""

    sql: str


Condition: TypeAlias = Word | Over | Query


@frozen(kw_only=True)
class AlertTable:
    """An `[[alert]]` table."""

    when: str | list[str]
    to: str | list[str]
    harness: str = "*"
    for_s: float = 0.0
    again_s: float | None = None


@frozen(kw_only=True)
class PingTable:
    """The `[ping]` table."""

    url: str
    every_s: float = 60.0


@frozen
class Rule:
    """Who is told of what."""

    conditions: Mapping[str, Condition]
    """By their text."""
    to: tuple[str, ...]
    """Addresses, as written: `${NAME}` is not replaced."""
    harness: str = "*"
    """Pattern that the name of the harness must match."""
    for_s: float = 0.0
    """Seconds that it must have been so."""
    again_s: float | None = None
    """Seconds after which it is told again, while it lasts."""


@frozen
class Alerts:
    """What a run file says of alerts."""

    rules: tuple[Rule, ...] = ()
    ping: PingTable | None = None

    @property
    def targets(self) -> tuple[str, ...]:
        """All addresses, as written."""
        return tuple(dict.fromkeys(to for rule in self.rules for to in rule.to))

    def __bool__(self) -> bool:
        return bool(self.rules) or self.ping is not None


def rule_of(table: AlertTable, where: str) -> Rule:
    """Return the rule that a table describes.

    Raises:
        UsageError: something in it is not as expected.
    """
    when, to = _listed(table.when), _listed(table.to)
    for key, texts, such in (("when", when, '"blocked"'), ("to", to, '"mailto://user:password@example.org"')):
        if not all(text.strip() for text in texts) or not texts:
            raise UsageError(f"{where}: {key}: expected at least one text such as {such}, got {list(texts)!r}; add one")
    for key, seconds in (("for_s", table.for_s), ("again_s", table.again_s)):
        if seconds is not None and not 0 <= seconds <= 1e9:
            raise UsageError(f"{where}: {key}: expected seconds from 0 up, was {seconds!r}; correct it")
    conditions = {text: condition_of(text, where) for text in when}
    return Rule(conditions, to, table.harness, table.for_s, table.again_s or None)


def condition_of(text: str, where: str) -> Condition:
    """Return the condition that a text means.

    Raises:
        UsageError: it means none.
    """
    if text in WORDS:
        return Word(text)
    if (over := _OVER.fullmatch(text.strip())) is not None and over[1] in MEASURES:
        return Over(over[1], float(over[2]))
    if _QUERY.match(text):
        return Query(text)
    measures = " or ".join(f'"{measure} > NUMBER"' for measure in MEASURES)
    raise UsageError(
        f"{where}: when: expected one of {', '.join(WORDS)}, {measures}, or a SELECT, was {text!r:.100}; correct it"
    )


def check_ping(ping: PingTable, where: str) -> None:
    """Refuse a ping that cannot be sent.

    Raises:
        UsageError: the URL is not one of HTTP, or the time is not above 0.
    """
    if not re.fullmatch(r"https?://\S+|\$\{\w+\}\S*", ping.url):
        raise UsageError(f"{where}: url: expected an address that begins with https://, was {ping.url!r:.100}; correct it")
    if not 1 <= ping.every_s <= 1e9:
        raise UsageError(f"{where}: every_s: expected seconds from 1 up, was {ping.every_s!r}; correct it")


def _listed(given: str | Sequence[str]) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)
