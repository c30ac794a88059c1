"""What happened to the harnesses of a store, from their lifecycle records: chains of causes, spans of time, grouped failures.

The records of all harnesses are read at once and kept for ten times as long as that took, so however many pages look at a
large store, reading it takes a tenth of a processor at most.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

from attrs import define, field, frozen

from orchestrator.analysis.questions.failures_question import Group, grouped, with_next
from orchestrator.analysis.questions.record_scan import Said, innermost
from orchestrator.analysis.questions.timeline_question import Life, Span, spans
from orchestrator.analysis.questions.why_question import answer_from
from orchestrator.analysis.questions.why_steps import Around
from orchestrator.analysis.questions.why_store import StoreEvidence
from orchestrator.store.sqlite.sqlite_file import open_reader, translated
from orchestrator.store.sqlite.sqlite_reader import SqliteReader
from orchestrator.text.json_text import stamp

_SHARE = 10
"""How many times as long as it took to read is what was read kept."""
_LEAST_S = 1.0
"""Seconds for which it is kept at least."""
_MOST_SPANS = 20_000
"""Spans that one answer has at most: the newest ones."""
_MOST_GROUPS = 500
_RUN_OF = "SELECT c.run FROM records r JOIN claims c ON c.harness = r.harness AND c.epoch = r.epoch WHERE r.seq = ?"
_LAST_OF_RUN = (
    "SELECT r.time_us FROM records r JOIN claims c ON c.harness = r.harness AND c.epoch = r.epoch "
    "WHERE r.seq < ? AND c.run = ? AND r.kind <> 'budget' ORDER BY r.seq DESC LIMIT 1"
)
"""The last sign of life of a program, by the `seq` of a later record of another one.

Not a record of a budget: what an attempt had reserved is charged in its name when the next one begins."""


@frozen
class _Known:
    """What is on record of all harnesses, without their steps."""

    told: Mapping[str, Sequence[Said]]
    steps: Mapping[str, int]
    """The number of the last step of each."""
    gone: frozenset[str]
    """The harnesses that no living program owns."""
    ended_at: datetime | None
    last_seq: int


@define(eq=False)
class Histories:
    """What happened to the harnesses of one store.

    Args:
        reader: reads the store.
    """

    reader: SqliteReader
    _known: _Known | None = None
    _until: float = 0.0
    _lock: threading.Lock = field(factory=threading.Lock)

    def why(self, name: str, step: int | None = None) -> list[dict[str, Any]]:
        """Return why a harness is where it is, or how a step came about: a sentence for each link of the chain of causes.

        A link that is about a lifecycle event has its kind, and its class of error.

        Raises:
            UsageError: there is no such harness, or no such step.
        """
        known = self._read()
        with closing(StoreEvidence(self.reader.location)) as store:
            answer = answer_from(_Evidence(store, known), name, step)
        rows: list[dict[str, Any]] = answer.tables[0].dicts()
        about = {row["harness"] for row in rows}
        events = {one.seq: one for each in about for one in known.told.get(each, ())}
        return [{**row, **_about(events.get(row["seq"]))} for row in rows]

    def timeline(self, names: Sequence[str] = ()) -> dict[str, Any]:
        """Return what some harnesses, or all, were doing when: spans in order of time, by harness.

        A span without a program is `gone`, from the last sign of life of the program.
        """
        known = self._read()
        chosen = [name for name in names if name in known.told] if names else sorted(known.told)
        with closing(open_reader(self.reader.path)) as db, translated(self.reader.location):
            lives = _Lives(db)
            found = {name: self._spans(known, lives, name) for name in chosen if name}
        kept = _newest(found, _MOST_SPANS)
        times = [events[0].at for events in known.told.values() if events]
        return {
            "begin": _stamp(min(times, default=None)),
            "end": _stamp(known.ended_at),
            "harnesses": {name: [_span_fields(one) for one in each] for name, each in kept.items()},
            "left_out": sum(map(len, found.values())) - sum(map(len, kept.values())),
        }

    def _spans(self, known: _Known, lives: _Lives, name: str) -> list[Span]:
        events, is_gone = known.told[name], name in known.gone
        found = lives.of(events, known.steps.get(name, 0), known.last_seq if is_gone else None)
        return spans(name, events, found, known.ended_at or datetime.min, is_gone=is_gone)

    def failures(self) -> list[dict[str, Any]]:
        """Return failures in groups by error and message, over all harnesses; the most frequent ones first."""
        known = self._read()
        groups = list(_joined(grouped(each for events in known.told.values() for each in with_next(events))))[:_MOST_GROUPS]
        with closing(StoreEvidence(self.reader.location)) as store:
            traces = store.tracebacks([group.each[-1].seq for group in groups])
        return [_group_fields(group, traces.get(group.each[-1].seq, "")) for group in groups]

    def _read(self) -> _Known:
        with self._lock:
            known, last = self._known, self.reader.last_seq()
            if known is not None and (known.last_seq == last or time.monotonic() < self._until):
                return known
            began = time.monotonic()
            with closing(StoreEvidence(self.reader.location)) as store:
                told = store.said_by_all()
                records = self.reader.harnesses()
                gone = frozenset(one.name for one in records if not one.owned)
                steps = {one.name: one.current_step for one in records}
                self._known = known = _Known(told, steps, gone, store.ended_at(), last)
            now = time.monotonic()
            self._until = now + max(_LEAST_S, _SHARE * (now - began))
            return known


@frozen
class _Evidence:
    """The evidence of `why`: what was read before, and the rest from the store."""

    _store: StoreEvidence
    _known: _Known

    def names(self, wanted: str | None = None) -> list[str]:
        return self._store.names(wanted)

    def said(self) -> Mapping[str, Sequence[Said]]:
        return self._known.told

    def last_step(self, name: str) -> int:
        return self._known.steps.get(name, 0)

    def gone(self) -> set[str]:
        return set(self._known.gone)

    def ended_at(self) -> datetime | None:
        return self._known.ended_at

    def around(self, name: str, number: int) -> Around:
        return self._store.around(name, number)

    def tracebacks(self, seqs: Sequence[int]) -> dict[int, str]:
        return self._store.tracebacks(seqs)

    def spent(self, name: str) -> list[tuple[list[str], dict[str, Any]]]:
        return self._store.spent(name)


@define(eq=False)
class _Lives:
    """The attempts that have no end on record, with the last sign of life of their programs."""

    _db: Any
    _found: dict[str, datetime] = field(factory=dict[str, datetime])

    def of(self, events: Sequence[Said], last_step: int, gone_after: int | None) -> dict[int, Life]:
        """Return them by attempt.

        Args:
            last_step: the number of the harness's last step.
            gone_after: the `seq` of the last record, if the harness's program is gone.
        """
        found: dict[int, Life] = {}
        life = [event for event in events if event.is_life and event.kind not in ("paused", "resumed", "forked")]
        for event, after in pairwise([*life, None]):
            if event is None or event.kind != "started":
                continue
            if after is not None and after.kind == "started":
                found[event.attempt] = Life(self._last(event, after.seq), after.step, True)
            elif after is None and gone_after is not None:
                found[event.attempt] = Life(self._last(event, gone_after + 1), last_step, False)
            elif after is None:
                found[event.attempt] = Life(event.at, last_step, False)
        return found

    def _last(self, event: Said, before: int) -> datetime:
        row = self._db.execute(_RUN_OF, (event.seq,)).fetchone()
        if row is None:
            return event.at
        if row[0] not in self._found:
            last = self._db.execute(_LAST_OF_RUN, (before, row[0])).fetchone()
            self._found[row[0]] = event.at if last is None else _at(last[0])
        return max(event.at, self._found[row[0]])


def _about(event: Said | None) -> dict[str, Any]:
    return {} if event is None else {"kind": event.kind, **({"error": event.error} if event.error else {})}


def _at(time_us: int) -> datetime:
    return datetime.fromtimestamp(time_us // 1_000_000, UTC).replace(tzinfo=None, microsecond=time_us % 1_000_000)


def _stamp(at: datetime | None) -> str | None:
    return None if at is None else stamp(at.replace(tzinfo=UTC))


def _newest(found: Mapping[str, list[Span]], most: int) -> Mapping[str, list[Span]]:
    """Return the spans of each harness, the same number of the newest ones of each where they are too many."""
    share = max(1, most // max(1, len(found)))
    return found if sum(map(len, found.values())) <= most else {name: each[-share:] for name, each in found.items()}


def _span_fields(span: Span) -> dict[str, Any]:
    return {
        "attempt": span.attempt,
        "kind": span.kind,
        "begin": _stamp(span.begin),
        "end": _stamp(span.end),
        "first_step": span.first_step,
        "last_step": span.last_step,
        "cause": span.cause[:300],
        "open": span.is_open,
    }


def _joined(groups: Iterable[Group]) -> Iterator[Group]:
    """Yield the groups of the same error and message as one, whichever harness they are of."""
    joined: dict[tuple[str, str], Group] = {}
    for group in groups:
        same = joined.setdefault((group.error, group.message), Group("", group.error, group.message))
        same.each.extend(group.each)
        same.then.update(group.then)
    for group in joined.values():
        group.each.sort(key=lambda one: one.seq)
    yield from sorted(joined.values(), key=lambda one: -len(one.each))


def _group_fields(group: Group, trace: str) -> dict[str, Any]:
    first, last = group.each[0], group.each[-1]
    names = dict.fromkeys(one.harness for one in reversed(group.each))
    return {
        "error": group.error,
        "message": group.message,
        "count": len(group.each),
        "harnesses": list(names)[:20],
        "harness_count": len(names),
        "first": _stamp(first.at),
        "last": _stamp(last.at),
        "last_step": last.step + 1,
        "then": dict(group.then),
        "where": innermost(trace),
        "example": (last.cause or "")[:1000],
        "traceback": trace[-20_000:],
    }
