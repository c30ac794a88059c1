"""The line of a record in the log: header, level, sentence, and the record's own fields; and the record of a line.

Invariant: `record_of` returns the record of any line, of earlier versions too. Within a schema version a field has one type,
in every line: a field that would be called like another of a different type or unit is renamed, and what a harness attached,
whose fields are its author's, is one object, `attached`.
"""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from functools import cache, lru_cache
from typing import Any, cast

import msgspec

from orchestrator.codec import decode, encode
from orchestrator.records import FIRST_HEADER, HEADER, Record
from orchestrator.text.terminal_text import one_line

SCHEMA = 2
"""Version of the fields; lines of version 1 do not say it."""
PREFIX = "harness."
RENAMED: Mapping[str, Mapping[str, str]] = {
    "restarting": {"due": "due_s", "restarts": "restart_times_s"},
    "gave_up": {"restarts": "restart_count"},
    "approval_requested": {"arguments": "action_arguments"},
    "forked": {"rounds": "copied_rounds"},
    "pruned": {"keep": "keep_steps"},
}
"""Names that fields of records have in a line, by the kind of the record."""
ATTACHED = frozenset({"evidence", "task", "guardrail"})
"""Kinds of records whose fields are those of a value that a harness attached."""
_SAFE = frozenset(
    {"step", "output", "intent", "outcome", "budget", "started", "paused", "resumed", "failed", "stopped", "transcript"}
)
"""Kinds of frequent records of which no field is called like one of the header."""
_CLASH = re.compile(rf'"(?:{"|".join(HEADER)})_*":')
"""Matches a field that has the name of a header field."""
_HALTED = '"risk":"halted"'
"""What a step of a trading harness says while trading is halted."""
_EPOCH = datetime.fromtimestamp(0, UTC)
_LEVELS = {
    "failed": "error",
    "gave_up": "error",
    "blocked": "error",
    "restarting": "warning",
    "budget_spent": "warning",
    "guardrail": "warning",
    "loop_blocked": "warning",
    "repaired": "warning",
    "transcript": "debug",
}
_BAD_ENDS = frozenset({"refused", "unknown", "failed", "interrupted"})
_LONGEST = 300


def service() -> str:
    """Return the name of the program in its lines: `OTEL_SERVICE_NAME`, or `orchestrator`."""
    return os.environ.get("OTEL_SERVICE_NAME") or "orchestrator"


@cache
def _origin() -> Mapping[str, Any]:
    return {"schema": SCHEMA, "service": service(), "host": platform.node()}


def line(record: Record) -> dict[str, Any]:
    """Return the fields of a record's line, in order. `level` is the name of a logger method.

    A field of the record that has the name of a header field gets a trailing underscore; `record_of` removes it.
    """
    said = _said_by(record)
    own = decode(record.body)
    return {
        "timestamp": _stamp(record.time_us),
        "level": _level(record, said),
        "event": f"{PREFIX}{record.kind}",
        "run": record.run,
        "harness": record.harness,
        "attempt": record.attempt,
        "step": record.step,
        "seq": record.seq,
        **_origin(),
        "message": _message(record, said),
        **({"attached": own} if record.kind in ATTACHED else _named(record.kind, own)),
    }


def record_line(record: Record) -> str:
    """Return the JSON of a line, secrets included; the body is not decoded unless one of its fields has another name."""
    kind, body = record.kind, record.body
    said = _said_by(record)
    if kind in RENAMED or (kind not in _SAFE and kind not in ATTACHED and _CLASH.search(body)):
        return encode(line(record))
    head = (
        f'{{"timestamp":"{_stamp(record.time_us)}","level":"{_level(record, said)}",{_event(kind)},'
        f"{_place(record.run, record.harness, record.attempt)},"
        f'"step":{record.step},"seq":{record.seq},{_origin_text()},"message":{encode(_message(record, said))}'
    )
    if kind in ATTACHED:
        return f'{head},"attached":{body}}}'
    return f"{head}}}" if body == "{}" else f"{head},{body[1:]}"


def record_of(fields: Mapping[str, Any]) -> Record:
    """Parse the fields of a line back into a record.

    Raises:
        ValueError: it is not a line of this log format.
    """
    try:
        stamp = datetime.fromisoformat(fields["timestamp"])
        return Record(
            seq=int(fields["seq"]),
            harness=str(fields["harness"]),
            attempt=int(fields["attempt"]),
            step=int(fields["step"]),
            time_us=(stamp - _EPOCH) // timedelta(microseconds=1),
            kind=str(fields["event"]).removeprefix(PREFIX),
            body=encode(body_of(fields)),
            run=str(fields["run"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"not a line of a log: expected the fields {', '.join(FIRST_HEADER)}, {error!r} is wrong") from error


def body_of(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the body of a record from the fields of its line."""
    kind = str(fields.get("event")).removeprefix(PREFIX)
    if not is_current(fields):
        return {_own_name(name, FIRST_HEADER): value for name, value in fields.items() if name not in FIRST_HEADER}
    if kind in ATTACHED and isinstance(fields.get("attached"), dict):
        return cast("dict[str, Any]", fields["attached"])
    own_names = {shown: name for name, shown in RENAMED.get(kind, {}).items()}
    own = {name: value for name, value in fields.items() if name not in HEADER}
    return {own_names.get(name) or _own_name(name, HEADER): value for name, value in own.items()}


def is_current(fields: Mapping[str, Any]) -> bool:
    """Return whether a line has the fields of this version of the schema."""
    return fields.get("schema") == SCHEMA and isinstance(fields.get("service"), str) and isinstance(fields.get("host"), str)


def _and(conclusion: object) -> str:
    return f": {conclusion}" if conclusion else ""


def _own_name(name: str, header: tuple[str, ...]) -> str:
    return name[:-1] if name.endswith("_") and name.rstrip("_") in header else name


def _named(kind: str, own: Mapping[str, Any]) -> dict[str, Any]:
    names = RENAMED.get(kind, {})
    return {names.get(name) or (f"{name}_" if name.rstrip("_") in HEADER else name): value for name, value in own.items()}


def _stamp(time_us: int) -> str:
    second, us = divmod(time_us, 1_000_000)
    return f"{_second(second)}.{us:06d}Z"


@lru_cache(maxsize=16)
def _second(second: int) -> str:
    return (_EPOCH + timedelta(seconds=second)).strftime("%Y-%m-%dT%H:%M:%S")


@lru_cache(maxsize=256)
def _event(kind: str) -> str:
    return f'"event":{encode(PREFIX + kind)}'


@lru_cache(maxsize=4096)
def _place(run: str, harness: str, attempt: int) -> str:
    return f'"run":{encode(run)},"harness":{encode(harness)},"attempt":{attempt}'


@cache
def _origin_text() -> str:
    return encode(_origin())[1:-1]


class _Said(msgspec.Struct, gc=False):
    """The fields of a record that its level and its sentence are made of."""

    added: Any = ()
    after_step: Any = 0
    agent: Any = ""
    by: Any = ""
    category: Any = ""
    cause: Any = ""
    change: Any = ""
    child: Any = ""
    delay_s: Any = 0
    error: Any = ""
    found: Any = ""
    from_version: Any = ""
    id: Any = ""
    intensity: Any = 0
    key: Any = ""
    limit_name: Any = ""
    limits: Any = None
    limits_before: Any = None
    line: Any = ""
    model: Any = ""
    near: Any = None
    not_applied: Any = ()
    on: Any = False
    order: Any = ""
    origin: Any = ""
    origin_step: Any = 0
    outcome: Any = ""
    over: Any = None
    period_s: Any = 0
    place: Any = ""
    policy: Any = ""
    pools: Any = ()
    reason: Any = ""
    restarts: Any = 0
    seconds: Any = 0
    sender: Any = msgspec.field(name="from", default="")
    strategy: Any = ""
    summary: Any = ""
    supervisor: Any = ""
    to: Any = ""
    to_version: Any = ""
    verdict: Any = ""


_NOTHING = _Said()
_read = msgspec.json.Decoder(_Said).decode


def _said_by(record: Record) -> _Said:
    # Steps are by far the most frequent records, and only their summary is said.
    if record.body == "{}" or (record.kind == "step" and '"summary":' not in record.body):
        return _NOTHING
    try:
        return _read(record.body)
    except msgspec.MsgspecError:
        return _NOTHING


def _level(record: Record, said: _Said) -> str:
    match record.kind:
        case "step":
            return "warning" if _HALTED in record.body else "info"
        case "outcome":
            return "warning" if said.outcome in _BAD_ENDS else "info"
        case "latch":
            return "warning" if said.on else "info"
        case "budget":
            return "warning" if said.near is not None or said.over is not None else "info"
        case "reloaded":
            return "warning" if said.error or said.not_applied else "info"
        case "approval_answered":
            return "warning" if said.verdict == "denied" else "info"
        case kind:
            return _LEVELS.get(kind, "info")


_SENTENCES: Mapping[str, Callable[[Record, _Said], str]] = {
    "started": lambda record, said: f"attempt {record.attempt} began after step {said.after_step}",
    "paused": lambda record, said: f"paused by an operator after step {record.step}",
    "resumed": lambda record, said: f"resumed by an operator after step {record.step}",
    "failed": lambda record, said: f"attempt {record.attempt} failed after step {record.step}: {said.cause}",
    "restarting": lambda record, said: f"restarts in {said.delay_s:.3g} s: {said.cause}",
    "completed": lambda record, said: f"completed with step {record.step}{_and(said.cause)}",
    "finished": lambda record, said: f"finished with step {record.step}: execute() returned{_and(said.cause)}",
    "stopped": lambda record, said: f"stopped after step {record.step}: {said.cause}",
    "gave_up": lambda record, said: f"gave up after step {record.step}: {said.cause}",
    "blocked": lambda record, said: f"blocked after step {record.step}: {said.cause}",
    "budget_spent": lambda record, said: f"has spent its budget after step {record.step}: {said.cause}",
    "forked": lambda record, said: f"forked from {said.origin} at step {said.origin_step}",
    "step": lambda record, said: f"step {record.step}: {said.summary}" if said.summary else f"step {record.step} is recorded",
    "output": lambda record, said: f"{said.line}",
    "intent": lambda record, said: f"effect {said.key} of step {record.step} begins",
    "outcome": lambda record, said: (
        f"effect {said.key} of step {record.step}: {said.outcome}" + (f": {said.reason}" if said.reason else "")
    ),
    "message": lambda record, said: f"message from {said.sender or 'outside'}",
    "reply": lambda record, said: f"reply to {said.to}",
    "approval_requested": lambda record, said: f"asks for an approval {said.id}: {said.category}: {said.summary}",
    "approval_answered": lambda record, said: f"approval {said.id} is {said.verdict} by {said.by}",
    "approval_used": lambda record, said: f"approval {said.id} is used",
    "child": lambda record, said: f"started the harness {said.child}",
    "evidence": lambda record, said: f"evidence of step {record.step}",
    "task": lambda record, said: f"a task changed in step {record.step}",
    "transcript": lambda record, said: f"a turn of {said.agent} with {said.model}" + (f": {said.error}" if said.error else ""),
    "guardrail": lambda record, said: f"guardrail {said.limit_name} is reached: {said.reason}",
    "budget": lambda record, said: f"budget {', '.join(map(str, said.pools))}: {said.change}",
    "limits_set": lambda record, said: _limits_set(said),
    "supervisor": lambda record, said: (
        f"supervisor {said.supervisor}: {said.strategy}, {said.intensity} restarts within {said.period_s:g} s"
    ),
    "reloaded": lambda record, said: _reloaded(said),
    "latch": lambda record, said: f"the kill switch is turned {'on' if said.on else 'off'}: {said.reason}",
    "ordered": lambda record, said: f"{said.by} has ordered: {said.order}",
    "loop_blocked": lambda record, said: f"blocked the event loop for {said.seconds:.3g} s in {said.place}",
    "migrated": lambda record, said: f"its state is migrated from version {said.from_version} to {said.to_version}",
    "pruned": lambda record, said: f"old steps were deleted by {said.by}",
    "repaired": lambda record, said: f"the store was repaired by {said.by}: {said.found}",
}

KINDS = tuple(_SENTENCES)
"""Every kind of record that this version writes."""


def sentence_of(record: Record) -> str:
    """Return a sentence for people: who, and what happened."""
    return _message(record, _said_by(record))


def _limits_set(said: _Said) -> str:
    """Return which time limits an operator has set, or the program has declared anew."""
    before, after = said.limits_before, said.limits
    changes = ", ".join(
        f"{name} {_limit(before[name])} -> {_limit(after[name]) if name in after else 'as declared'}" for name in before
    )
    if not said.by:
        return f"the program declares {changes}"
    return f"{changes}, by {said.by}" + (f": {said.reason}" if said.reason else "")


def _reloaded(said: _Said) -> str:
    """Return what a run file that was read again has come to."""
    parts = [f"added {', '.join(said.added)}" if said.added else "nothing is added"]
    parts += [f"not applied: {'; '.join(said.not_applied)}"] if said.not_applied else []
    return f"the run file was read again: {'; '.join([said.error, *parts] if said.error else parts)}"


def _limit(seconds: object) -> str:
    return "none" if seconds is None else f"{seconds:g} s"


def _message(record: Record, said: _Said) -> str:
    """Return a sentence for people: who, and what happened."""
    sentence = _SENTENCES.get(record.kind)
    if sentence is None:
        what = record.kind
    else:
        try:
            what = sentence(record, said)
        except (TypeError, ValueError):  # A field of another type than this version writes.
            what = record.kind
    who = f"{record.harness}: {what}" if record.harness else what
    # A step without a summary holds nothing that a harness or an agent has written but the harness's name.
    return who if said is _NOTHING and record.kind == "step" and len(who) <= _LONGEST else one_line(who, _LONGEST)
