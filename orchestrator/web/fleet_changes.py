"""The status of every harness, read again only for those that may have changed.

    what                                             whose status it may change
    a record of an event                             of its harness
    a step, or another step under way                of its harness; only number, time and activity while it runs undisturbed
    a change of owner, a run that ended              of those whose row differs
    an approval that is asked for, answered, over    of its harness
    a kill switch                                    of its harness, or of all
    the first program on a store, or the end of it   of all: what can be done is another
    time                                             of a harness whose step takes longer than usual from then on
    records that were removed or repaired            of all

Invariant: what is kept and what is read are together what `orchestrator.status.look` tells.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from math import inf

import msgspec
from attrs import define, field, frozen

from harnesses.timing.clock import now_s
from orchestrator.kill_switch import ALL
from orchestrator.lifecycle import Status
from orchestrator.records import ApprovalRecord
from orchestrator.runtime.activity import LEAST_S, Doing, Live, known_activity
from orchestrator.status import (
    AllApprovals,
    At,
    current_requests,
    last_steps,
    latched_beside,
    look_at,
    parents_of,
    shown_status,
)
from orchestrator.store.sqlite.sqlite_news import News
from orchestrator.store.sqlite.sqlite_reader import SqliteReader
from orchestrator.store.store_capabilities import HarnessRow
from orchestrator.store.store_operations import APPROVAL_KINDS
from orchestrator.web.live_programs import LivePrograms, LivesSince

_QUIET = frozenset({"intent", "outcome", "output", "message", "transcript", "budget", "charged"})
"""Kinds of records that change nothing about a harness that runs undisturbed."""
_UNDISTURBED = ("running", "working", "waiting", "hung")


class Stepped(msgspec.Struct, frozen=True, gc=False):
    """A harness that runs undisturbed: of its status only this has changed."""

    activity: str
    since_s: float
    step: int | None
    """None if it is the same."""


@frozen
class Changes:
    """What may have changed."""

    looked: Sequence[At]
    stepped: Mapping[str, Stepped]
    latched: Collection[str]
    lives: LivesSince
    """What the programs tell of all harnesses."""


@define(eq=False)
class FleetChanges:
    """Reads what has changed since the last call. Not for two threads at once.

    Args:
        reader: reads the store.
        programs: asks the programs that run on it.
    """

    reader: SqliteReader
    programs: LivePrograms
    _news: News = field(factory=News)
    _roster: Mapping[str, HarnessRow] = field(factory=dict[str, HarnessRow])
    _owned: set[str] = field(factory=set[str])
    _latched: frozenset[str] = frozenset()
    _parents: Mapping[str, str] = field(factory=dict[str, str])
    _requests: list[ApprovalRecord] = field(factory=list[ApprovalRecord])
    _steps: dict[str, int] = field(factory=dict[str, int])
    """The last step of each harness."""
    _asks: set[str] = field(factory=set[str])
    """Harnesses with requests of steps that are still to be recorded."""
    _undisturbed: dict[str, float] = field(factory=dict[str, float])
    """Time of the last event of each harness that runs undisturbed; infinite for one whose program tells what it does."""
    _due: dict[str, float] = field(factory=dict[str, float])
    """When the step of a harness is hung, if it goes on until then."""

    def read(self) -> Changes:
        """Return every harness that may have changed."""
        try:
            return self._read()
        except BaseException:
            self._news = News()  # what was found so far is lost
            raise

    def _read(self) -> Changes:
        lives, moved = self.programs.take()
        before, now = self._news, now_s()
        news, is_first = self.reader.news(before), not before.ownership
        latched = frozenset(latched_beside(self.reader))
        switched = latched ^ self._latched
        approvals = self._approvals(news, is_first=is_first)
        # What an open request adds to the status of its harness is another text at each moment.
        asks = {one.harness for one in self._requests}
        suspects = {name for name, at in self._due.items() if at < now} | switched | asks | self._asks
        suspects |= self._handed_over(before, news) | self._adopted(news, is_first=is_first)
        suspects.update(*(names for kind, names in news.others.items() if kind not in _QUIET))
        stepped = self._stepped(news, lives, moved, suspects, now)
        self._news, self._latched, self._asks = news, latched, asks
        suspects.update(name for names in news.others.values() for name in names if name not in self._undisturbed)
        suspects |= (news.steps.keys() | moved) - stepped.keys()
        is_whole = is_first or news.is_whole or ALL in switched
        return Changes(self._looked(None if is_whole else suspects, approvals, lives, now), stepped, latched, lives)

    def _approvals(self, news: News, *, is_first: bool) -> AllApprovals:
        """Return the requests that show; those of steps that are recorded by now are not looked at again."""
        if is_first or news.is_whole or not news.others.keys().isdisjoint(APPROVAL_KINDS):
            self._requests = self.reader.approvals()
        if is_first or news.is_whole:
            self._steps = last_steps(self.reader, self._requests)
        self._steps |= {name: step for name, (step, _) in news.steps.items()}
        self._requests = current_requests(self._requests, self._steps)
        return AllApprovals.among(self.reader, self._requests, self._steps)

    def _handed_over(self, before: News, news: News) -> set[str]:
        """Return the harnesses whose rows differ, if one may have changed hands."""
        if (before.ownership, before.alive) == (news.ownership, news.alive):
            return set()
        rows = {row[0]: row for row in self.reader.roster()}
        found = _differing(rows, self._roster)
        self._roster = rows
        return found

    def _adopted(self, news: News, *, is_first: bool) -> set[str]:
        """Return the harnesses that have another parent."""
        if not (is_first or news.is_whole or "child" in news.others):
            return set()
        parents = parents_of(self.reader)
        found = _differing(parents, self._parents)
        self._parents = parents
        return found

    def _stepped(
        self, news: News, lives: LivesSince, moved: Collection[str], suspects: Collection[str], now: float
    ) -> dict[str, Stepped]:
        """Return those that run undisturbed still, with what has changed."""
        found: dict[str, Stepped] = {}
        for name in news.steps.keys() | moved:
            event_s, live = self._undisturbed.get(name), lives.get(name)
            if event_s is None or (event_s == inf) != (live is not None) or name in suspects:
                continue
            step, time_us = news.steps.get(name, (None, 0))
            if live is None:
                found[name] = Stepped("running", max(event_s, time_us / 1e6), step)
            elif (word := known_activity(doing := live.at(now))) is not None:
                found[name] = Stepped(word, live.since_s, step)
                self._watch(name, doing, word, live.since_s, None)
        return found

    def _looked(self, names: Collection[str] | None, approvals: AllApprovals, lives: LivesSince, now: float) -> Sequence[At]:
        """Return the status of some harnesses, or of all."""
        records = [] if names is not None and not names else self.reader.harnesses(names)
        was_any_running = bool(self._owned)
        self._owned.difference_update(record.name for record in records)
        self._owned.update(record.name for record in records if record.owned)
        if bool(self._owned) != was_any_running and names is not None:
            records = self.reader.harnesses()
        ages = {record.name: lives[record.name].at(now) for record in records if record.name in lives}
        is_any = bool(self._owned)
        found = look_at(self.reader, records, ages, approvals, is_any_running=is_any, parents=self._parents)
        for at in found:
            self._keep(at)
        return found

    def _keep(self, at: At) -> None:
        record, name = at.record, at.record.name
        self._steps[name] = max(record.current_step, self._steps.get(name, 0))
        is_halted = at.live is not None and bool(at.live.halted)
        if shown_status(record) == Status.RUNNING and at.asks is None and not is_halted and at.activity in _UNDISTURBED:
            self._undisturbed[name] = inf if at.live else record.last_time_us / 1e6
        else:
            self._undisturbed.pop(name, None)
        if at.live is not None and at.since_s is not None:
            self._watch(name, at.live, at.activity, at.since_s, at.limit_s)
        else:
            self._due.pop(name, None)

    def _watch(self, name: str, live: Live, activity: str, since_s: float, limit_s: float | None) -> None:
        """Have a harness looked at again when its step takes longer than usual."""
        if live.doing is Doing.WORKING and activity != "hung":
            usual_s = LEAST_S if limit_s is None else limit_s
            self._due[name] = since_s + (usual_s if live.timeout_s is None else live.timeout_s)
        else:
            self._due.pop(name, None)


def _differing(some: Mapping[str, object], others: Mapping[str, object]) -> set[str]:
    """Return the keys of which the values differ, or that only one of the two has."""
    return {key for key in some.keys() | others.keys() if some.get(key) != others.get(key)}
