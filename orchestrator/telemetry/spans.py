"""Committed records as spans: one per attempt, below it one per step, below that its effects, approvals and agents. Pure.

    attempt ─┬─ step ─┬─ effect        one trace per attempt, since a harness may run for years
             │        ├─ approval
             │        └─ invoke_agent ─┬─ chat            see `gen_ai_spans`
             └─ step                   └─ execute_tool

Invariant: ids are derived from the records, so spans derived again from the store, the log or a live run have the same ids.
An attempt that was killed ends with its last record, whenever that is found out; no span ends twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from hashlib import blake2b
from typing import Any, TypeVar

import msgspec
from attrs import define, field
from msgspec.structs import replace

from harnesses.effects.effect import EffectOutcome
from orchestrator.records import Record
from orchestrator.telemetry.gen_ai_spans import AgentTurns
from orchestrator.telemetry.span import Moment, Span, Value, hash_of, id_of, object_in, text_of
from orchestrator.text.json_text import object_of

KeptT = TypeVar("KeptT")
INTERRUPTED = "interrupted"
_ENDS = frozenset(("failed", "completed", "finished", "stopped", "gave_up", "blocked", "budget_spent"))
_ERRORS = frozenset(("failed", "gave_up", INTERRUPTED))
_BESIDE = frozenset(("transcript", "evidence", "task", "guardrail", "child"))
"""Records of one transaction with a step, after it."""
_MOMENTS = frozenset(("paused", "resumed", "guardrail", "task", "evidence", "child"))
_OUTCOMES = tuple(EffectOutcome)
"""Outcomes that hold no secret."""
_MOST_MOMENTS = 128
"""Limit on the events of one span, the same as OpenTelemetry's."""
_MOST_PENDING = 10_000
"""Limit on the effects and approvals of one step that are held until it is recorded; beyond it the oldest are dropped."""


@define
class OpenAttempt:
    """An attempt in progress."""

    run: str
    harness: str
    attempt: int
    start_us: int
    last_us: int
    step_us: int
    """Earliest time at which the step in progress can have begun."""
    last_step: int
    moments: list[Moment] = field(factory=list[Moment])
    left_out: int = 0
    effects: dict[str, Span] = field(factory=dict[str, Span])
    """Effects begun and not ended, by key."""
    approvals: dict[str, Span] = field(factory=dict[str, Span])
    """Approvals requested and not answered, by id."""
    ended: list[Span] = field(factory=list[Span])
    """Ended spans of the step in progress."""
    spent: dict[str, float] = field(factory=dict[str, float])
    asked: dict[str, object] = field(factory=dict[str, object])
    """Arguments of effects begun and not ended, by key."""
    turns: AgentTurns = field(init=False)
    trace_id: str = field(init=False)
    own_id: str = field(init=False)
    common: dict[str, Value] = field(init=False)
    step_ids: blake2b = field(init=False)
    """What the ids of all steps begin with, hashed."""

    def __attrs_post_init__(self) -> None:
        self.common = {
            "orchestrator.harness": self.harness,
            "orchestrator.run": self.run,
            "orchestrator.attempt": self.attempt,
        }
        self.turns = AgentTurns(self)
        self.trace_id = id_of(16, self.run, self.harness, self.attempt)
        self.own_id = self.id_of()
        self.step_ids = hash_of(8, self.run, self.harness, self.attempt, "step", "")

    def id_of(self, *what: object) -> str:
        return id_of(8, self.run, self.harness, self.attempt, *what)

    def step_id(self, step: int) -> str:
        """Return the same as `id_of("step", step)`."""
        own = self.step_ids.copy()
        own.update(b"%d" % step)
        return own.hexdigest()

    def begin_step(self, last_step: int, now_us: int) -> None:
        """Begin the step after `last_step`, with nothing spent yet and nothing below it."""
        self.ended, self.spent, self.last_step, self.step_us = [], {}, last_step, now_us

    def release(self) -> list[Span]:
        """Return the spans of turns of the last step that are known from usage reports alone."""
        return self.turns.release(self.last_step, self.step_id(self.last_step)) if self.turns.is_holding else []

    def note(self, moment: Moment) -> None:
        """Add an event, unless the limit is reached."""
        if len(self.moments) < _MOST_MOMENTS:
            self.moments.append(moment)
        else:
            self.left_out += 1


def spans(records: Iterable[Record], *, is_over: bool = False) -> Iterator[Span]:
    """Yield the spans of records, in order of `seq`, as they end.

    Args:
        is_over: whether no more records will come, so that attempts without an end are over, too.
    """
    traces = Traces()
    for record in records:
        yield from traces.take(record)
    if is_over:
        yield from traces.interrupt()


class Traces:
    """Builds spans from records one after the other. Its memory is bounded by the attempts in progress."""

    def __init__(self) -> None:
        self.open: dict[str, OpenAttempt] = {}
        """Attempts under way, by harness."""

    def take(self, record: Record) -> list[Span]:
        """Return the spans that end with a record."""
        if not record.harness:
            return []
        if record.kind == "started":
            made, now = self._cut_off(record.harness), record.time_us
            self.open[record.harness] = OpenAttempt(record.run, record.harness, record.attempt, now, now, now, record.step)
            return made
        attempt = self.attempt_of(record.harness, record.run, record.attempt, record.time_us)
        if attempt is None:
            return []
        if record.kind == "transcript":
            return attempt.turns.transcript(object_of(record.body), record.step, attempt.step_id(attempt.last_step))
        made = [] if record.kind in _BESIDE else attempt.release()
        if record.kind == "step":
            return [*made, *_step(attempt, record)]
        if record.kind in _ENDS:
            del self.open[record.harness]
            return [*made, *_end(attempt, record.kind, record.time_us, object_of(record.body))]
        _within(attempt, record)
        return made

    def attempt_of(self, harness: str, run: str, attempt: int, time_us: int) -> OpenAttempt | None:
        """Return the attempt under way that a record belongs to, and note its time; None if there is none."""
        found = self.open.get(harness)
        # Answers and messages from people have no run.
        if found is None or (run and (attempt != found.attempt or run != found.run)):
            return None
        if run and time_us > found.last_us:
            found.last_us = time_us
        return found

    def interrupt(self, names: Iterable[str] | None = None) -> list[Span]:
        """End the attempts of harnesses, or of all, whose program is gone."""
        return [span for name in list(self.open if names is None else names) for span in self._cut_off(name)]

    def _cut_off(self, name: str) -> list[Span]:
        attempt = self.open.pop(name, None)
        return [] if attempt is None else _end(attempt, INTERRUPTED, attempt.last_us, {"cause": "its program was killed"})


def _step(attempt: OpenAttempt, record: Record) -> list[Span]:
    facts = _facts_of(record.body)
    took = _times(facts.took_us)
    attributes: dict[str, Value] = {
        **attempt.common,
        "orchestrator.step": record.step,
        "orchestrator.seq": record.seq,
        **{name_of_time(part): us / 1e6 for part, us in took.items()},
        **spent_attributes(attempt),
    }
    if isinstance(facts.summary, str):
        attributes["orchestrator.summary"] = text_of(facts.summary)
    below, own, start = close_step(attempt, record.step, record.time_us, took)
    step = Span(
        trace_id=attempt.trace_id,
        span_id=own,
        parent_id=attempt.own_id,
        name="step",
        start_us=start,
        end_us=record.time_us,
        attributes=attributes,
    )
    return [*below, step]


def spent_attributes(attempt: OpenAttempt) -> dict[str, Value]:
    """Return what the step in progress has spent."""
    return {f"orchestrator.spent.{name}": amount for name, amount in attempt.spent.items()}


def close_step(attempt: OpenAttempt, step: int, end_us: int, took: Mapping[str, int]) -> tuple[list[Span], str, int]:
    """End the step in progress; return the spans below it, and its id and start."""
    begun = end_us - took["work"] if "work" in took else attempt.step_us
    own = attempt.step_id(step)
    # If the clock was set back, a step still does not begin before its attempt.
    start = min(max(begun, attempt.start_us), end_us)
    below = attempt.turns.end_step(step, own, start, took.get("agent", 0))
    if attempt.ended:
        below = [*(span if span.parent_id else replace(span, parent_id=own) for span in attempt.ended), *below]
    attempt.begin_step(step, end_us)
    return below, own, start


def _end(attempt: OpenAttempt, kind: str, end_us: int, fields: Mapping[str, Any]) -> list[Span]:
    """Return the span of an attempt that is over, and of what it left open."""
    cause = text_of(fields.get("cause") or "")
    own = attempt.own_id
    unknown = {"outcome": "unknown", "reason": "its attempt ended before it did"}
    left = [_ended(attempt, key, span, end_us, unknown) for key, span in attempt.effects.items()]
    left += [replace(span, end_us=max(end_us, span.start_us)) for span in attempt.approvals.values()]
    attributes: dict[str, Value] = {
        **attempt.common,
        "orchestrator.outcome": kind,
        "orchestrator.current_step": attempt.last_step,
    }
    if cause:
        attributes["orchestrator.cause"] = cause
    if attempt.left_out:
        attributes["orchestrator.events_left_out"] = attempt.left_out
    if kind == "failed":
        attributes["error.type"] = text_of(fields.get("error") or "error")
        attempt.moments.append(Moment("exception", end_us, _exception(fields)))
    span = Span(
        trace_id=attempt.trace_id,
        span_id=own,
        name=f"attempt {attempt.harness}",
        start_us=attempt.start_us,
        end_us=max(end_us, attempt.start_us),
        attributes=attributes,
        moments=tuple(attempt.moments),
        error=(cause or kind) if kind in _ERRORS else None,
    )
    cut = "cut_off: the step was not recorded"
    turns = [*attempt.turns.end_step(attempt.last_step + 1, own, attempt.step_us, 0, cut)]
    turns += attempt.turns.release(attempt.last_step + 1, own)
    below = [one if one.parent_id else replace(one, parent_id=own) for one in [*attempt.ended, *left]]
    return [*below, *turns, span]


def _exception(fields: Mapping[str, Any]) -> dict[str, Value]:
    """Return an error as OpenTelemetry's exception attributes."""
    error = text_of(fields.get("error") or "error")
    return {
        "exception.type": error,
        "exception.message": text_of(fields.get("cause") or "").removeprefix(f"{error}: "),
        "exception.stacktrace": text_of(fields.get("traceback") or ""),
    }


def _within(attempt: OpenAttempt, record: Record) -> None:
    """Add a record that belongs to the step in progress."""
    fields = object_of(record.body)
    match record.kind:
        case "intent":
            key = str(fields.get("key"))
            _keep(attempt.effects, key, _begun(attempt, record, "effect", {"key": fields.get("key")}))
            if "/tool/" in key:
                _keep(attempt.asked, key, fields.get("arguments"))
        case "outcome":
            key = str(fields.get("key"))
            if (span := attempt.effects.pop(key, None)) is not None:
                attempt.ended.append(_ended(attempt, key, span, record.time_us, fields))
        case "approval_requested":
            about = {name: fields.get(name) for name in ("id", "key", "category", "summary")}
            _keep(attempt.approvals, text_of(fields.get("id")), _begun(attempt, record, "approval", about))
        case "approval_answered":
            _answer(attempt, record, fields)
        case "budget":
            _spend(attempt, fields)
            attempt.turns.charge(text_of(fields.get("agent") or ""), object_in(fields, "usage"), record.time_us)
        case kind if kind in _MOMENTS:
            attempt.note(Moment(kind, record.time_us, {"orchestrator.seq": record.seq}))
        case _:
            pass
    del attempt.ended[:-_MOST_PENDING]


def _answer(attempt: OpenAttempt, record: Record, fields: Mapping[str, Any]) -> None:
    said = {f"orchestrator.approval.{name}": text_of(fields.get(name) or "") for name in ("verdict", "by", "reason")}
    span = attempt.approvals.pop(text_of(fields.get("id")), None)
    if span is None:
        attempt.note(Moment("approval_answered", record.time_us, said))
    else:
        attributes = {**span.attributes, **said}
        attempt.ended.append(replace(span, end_us=max(record.time_us, span.start_us), attributes=attributes))


def _spend(attempt: OpenAttempt, fields: Mapping[str, Any]) -> None:
    for name, amount in object_in(fields, "spent").items():
        try:
            attempt.spent[name] = attempt.spent.get(name, 0.0) + float(amount)
        except (TypeError, ValueError):
            continue


def _begun(attempt: OpenAttempt, record: Record, name: str, about: Mapping[str, Any]) -> Span:
    attributes: dict[str, Value] = {**attempt.common, "orchestrator.step": record.step, "orchestrator.seq": record.seq}
    return Span(
        trace_id=attempt.trace_id,
        span_id=attempt.id_of(name, record.seq),
        # An effect in memory comes after its step, in the same commit, maybe after later steps.
        parent_id=attempt.step_id(record.step) if record.step <= attempt.last_step else "",
        name=name,
        start_us=record.time_us,
        end_us=record.time_us,
        attributes={**attributes, **{f"orchestrator.{name}.{key}": text_of(value or "") for key, value in about.items()}},
    )


def _ended(attempt: OpenAttempt, key: str, span: Span, end_us: int, fields: Mapping[str, Any]) -> Span:
    ended = _effect(span, end_us, fields)
    shown = str(span.attributes["orchestrator.effect.key"])
    return attempt.turns.effect(ended, shown, attempt.last_step + 1, attempt.asked.pop(key, None), fields)


def _effect(span: Span, end_us: int, fields: Mapping[str, Any]) -> Span:
    outcome, reason = fields.get("outcome") or "", text_of(fields.get("reason") or "")
    if outcome not in _OUTCOMES:
        outcome = text_of(outcome)
    attributes = {**span.attributes, "orchestrator.effect.outcome": outcome}
    error = f"{outcome}: {reason}" if outcome in ("refused", "unknown", "failed", "interrupted") else None
    return replace(span, end_us=max(end_us, span.start_us), attributes=attributes, error=error)


def _keep(pending: dict[str, KeptT], key: str, value: KeptT) -> None:
    while len(pending) >= _MOST_PENDING:
        del pending[next(iter(pending))]
    pending[key] = value


def _times(took: object) -> dict[str, int]:
    """Return the valid durations of a step."""
    return {
        _part_of(part): us for part, us in object_in({"took": took}, "took").items() if type(us) is int and 0 <= us < 1 << 53
    }


_part_of = lru_cache(100)(text_of)


@lru_cache(100)
def name_of_time(part: str) -> str:
    """Return the name of the attribute with a duration of a step."""
    return f"orchestrator.took.{part}_s"


class _StepFacts(msgspec.Struct, gc=False):
    """What a span tells of a step; the rest of its body is not even parsed."""

    took_us: object = None
    summary: object = None


_read_facts = msgspec.json.Decoder(_StepFacts).decode


def _facts_of(body: str) -> _StepFacts:
    try:
        return _read_facts(body)
    except (msgspec.DecodeError, UnicodeError):
        return _StepFacts()
