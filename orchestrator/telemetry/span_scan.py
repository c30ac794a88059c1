"""The spans of ranges of a store's records as text for OTLP: several times as fast as one by one as values.

Most spans are those of steps. What differs between two steps of an attempt is filled into one format, and only the times and
the summary are read of their bodies. Invariant: the text is that of the spans which `stored_spans` yields.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from hashlib import blake2b
from typing import Annotated

import msgspec
from attrs import frozen

from orchestrator.records import Record
from orchestrator.store.sqlite.sqlite_reader import ScannedRow, SqliteReader
from orchestrator.telemetry.otlp_export import more_text, span_form, span_text
from orchestrator.telemetry.span import Span, text_of
from orchestrator.telemetry.spans import OpenAttempt, Traces, close_step, name_of_time, spent_attributes

_TIME = ',{"key":%s,"value":{"doubleValue":%%s}}'
_PLACE = ',{"key":"orchestrator.step","value":{"intValue":"%d"}},{"key":"orchestrator.seq","value":{"intValue":"%d"}}%s%s'
_SHORT = tuple(msgspec.json.encode(us / 1e6).decode() for us in range(100))
"""Seconds of fewer than 100 µs: JSON's encoder writes their exponents in another way than Python."""


_PASSED = ("step", "intent", "outcome")
_MOST_PASSED = 1000


class _Facts(msgspec.Struct, gc=False):
    """What a span tells of a step, if its body is as it should be."""

    took_us: dict[str, Annotated[int, msgspec.Meta(ge=0, lt=1 << 53)]] = {}
    summary: str | None = None


class _Keyed(msgspec.Struct, gc=False):
    """What tells which effect a record is of."""

    key: object = None


_read_key = msgspec.json.Decoder(_Keyed).decode
_read_facts = msgspec.json.Decoder(_Facts).decode


@frozen(eq=False)
class _Steps:
    """What the spans of an attempt's steps have in common."""

    attempt: OpenAttempt
    number: int
    """Number of the attempt."""
    epoch: int
    form: str
    """Their format: of id, start, end, step, `seq`, times and further attributes."""
    hash: blake2b
    """What their ids begin with."""


def _steps_of(attempt: OpenAttempt, epoch: int) -> _Steps:
    span = Span(
        trace_id=attempt.trace_id,
        span_id="",
        parent_id=attempt.own_id,
        name="step",
        start_us=0,
        end_us=0,
        attributes=attempt.common,
    )
    return _Steps(attempt, attempt.attempt, epoch, span_form(span, _PLACE), attempt.step_ids)


class SpanScan:
    """Reads a store's records in their order: makes text of the spans of some ranges, and passes over others.

    Args:
        name: only this harness; None for all.
    """

    def __init__(self, reader: SqliteReader, name: str | None = None) -> None:
        self._reader = reader
        self._name = name
        self._names, self._runs = reader.claims()
        self._traces = Traces()
        self._known: dict[int, _Steps] = {}
        """The attempt under way of each harness, by its number."""
        self._passed: dict[int, list[ScannedRow]] = {}
        """Records of effects of the step in progress, not yet taken."""

    def texts(self, first: int, last: int) -> list[str]:
        """Return the spans that end with the records `first` to `last`."""
        for harness in [*self._passed]:
            self._settle(harness)
        made: list[str] = []
        for row in self._reader.scan(first, last, name=self._name):
            seq, harness, epoch, number, step, time_us, kind, body = row
            known = self._known.get(harness)
            if kind != "step" or known is None or known.epoch != epoch or known.number != number:
                made += map(span_text, self._take(row))
                continue
            try:
                facts = _read_facts(body)
            except (msgspec.DecodeError, UnicodeError):
                made += map(span_text, self._take(row))
                continue
            took, at, more = facts.took_us, known.attempt, ""
            if time_us > at.last_us:
                at.last_us = time_us
            if at.ended or at.spent or at.turns.is_pending:
                more = more_text(spent_attributes(at))
                made += map(span_text, at.release())
                below, _, start = close_step(at, step, time_us, took)
                made += map(span_text, below)
            else:
                # The same as `close_step`, without the calls.
                start = min(max(time_us - took["work"] if "work" in took else at.step_us, at.start_us), time_us)
                at.last_step, at.step_us = step, time_us
            if facts.summary is not None:
                more += more_text({"orchestrator.summary": text_of(facts.summary)})
            hash = known.hash.copy()
            hash.update(b"%d" % step)
            times = _times_form(tuple(took)) % tuple([us / 1e6 if us >= 100 else _SHORT[us] for us in took.values()])
            made.append(known.form % (hash.hexdigest(), start * 1000, time_us * 1000, step, seq, times, more))
        return made

    def skip(self, first: int, last: int) -> None:
        """Pass over records."""
        passed = self._passed
        for row in self._reader.scan(first, last, name=self._name):
            _, harness, epoch, number, step, time_us, kind, _ = row
            known = self._known.get(harness)
            if known is None or known.epoch != epoch or known.number != number or kind not in _PASSED:
                self._settle(harness)
                self._take(row)
                continue
            at = known.attempt
            if time_us > at.last_us:
                at.last_us = time_us
            if kind != "step":
                ahead = passed.setdefault(harness, [])
                ahead.append(row)
                if len(ahead) > _MOST_PASSED:
                    self._settle(harness)
            elif at.turns.is_pending:
                self._settle(harness)
                self._take(row)
            else:
                if rows := passed.pop(harness, None):
                    self._keep_open(at, rows)
                at.begin_step(step, time_us)

    def interrupt(self, names: Iterable[str]) -> list[str]:
        """Return the spans of the attempts of harnesses whose program is gone."""
        return [*map(span_text, self._traces.interrupt(names))]

    def _settle(self, harness: int) -> None:
        """Take the effects of a harness that were passed over."""
        for row in self._passed.pop(harness, ()):
            self._take(row)

    def _keep_open(self, at: OpenAttempt, rows: Iterable[ScannedRow]) -> None:
        """Take those of the effects that were passed over that have not ended; the others belong to a step that was, too."""
        begun: dict[str, ScannedRow] = {}
        for row in rows:
            key = _key_of(row[7])
            if row[6] == "intent":
                begun[key] = row
            else:
                begun.pop(key, None)
                at.effects.pop(key, None)
                at.asked.pop(key, None)
        for row in begun.values():
            self._take(row)

    def _take(self, row: ScannedRow) -> list[Span]:
        """Return the spans that end with a record of any kind."""
        seq, harness, epoch, attempt, step, time_us, kind, body = row
        name, run = self._names.get(harness, ""), self._runs.get((harness, epoch), "")
        made = self._traces.take(Record(seq, name, attempt, step, time_us, kind, body, run))
        known = self._known.get(harness)
        if known is None or self._traces.open.get(name) is not known.attempt:
            at = self._traces.attempt_of(name, run, attempt, time_us)
            if at is None or not run:
                self._known.pop(harness, None)
            else:
                self._known[harness] = _steps_of(at, epoch)
        return made


def _key_of(body: str) -> str:
    try:
        return str(_read_key(body).key)
    except (msgspec.DecodeError, UnicodeError):
        return str(None)


@lru_cache(1000)
def _times_form(parts: tuple[str, ...]) -> str:
    """Return a format for the durations of a step."""
    names = (msgspec.json.encode(name_of_time(text_of(part))).decode() for part in parts)
    return "".join(_TIME % name.replace("%", "%%") for name in names)
