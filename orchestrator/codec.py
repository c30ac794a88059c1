"""Conversion between values and the JSON on disk. The only module that knows the encoder.

encode_step       step → body of its record              decode_step   body of its record → step
without_secrets   body of a record → the same without secrets
encode            any value, validated first → JSON      decode        JSON → plain data
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from harnesses.data.delta import Delta, modified
from harnesses.data.record_size import CEILING_BYTES, too_large
from harnesses.data.values import detach, explain
from harnesses.errors import Unstorable
from harnesses.redaction.redactor import may_hold_secret, redact
from harnesses.step import NewStep, StateDelta, Step
from orchestrator.errors import StoreCorrupt
from orchestrator.records import StepRecord

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode
_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def encode(value: object) -> str:
    """Return any storable value as JSON.

    Raises:
        Unstorable: names the path to the value that cannot be stored.
    """
    return encode_private(detach(value))


def encode_private(value: object) -> str:
    """Return as JSON a value that was validated already: a state that passed `detach`, or one of the project's own types."""
    try:
        return str(_encode(value), "utf-8")
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise Unstorable(explain(value)) from error


def decode(text: str | bytes) -> Any:
    """Parse JSON into plain data."""
    return _decode(text)


def encode_step(
    step: Step[Any, Any] | NewStep[Any, Any],
    delta: Delta,
    ticks: Mapping[str, Any] | None = None,
    governance: Mapping[str, Any] | None = None,
    *,
    took_us: Mapping[str, int] | None = None,
    consumed: Sequence[int] = (),
    most: int = CEILING_BYTES,
) -> str:
    """Return the body of a step's record.

    Args:
        ticks: progress of the harness's tickers.
        governance: state kept by the harness's governor.
        took_us: durations of the step's parts; see `harnesses.timing.stopwatch`.
        consumed: `seq`s of the messages that the step consumed.
        most: limit on the size of the body, bytes.

    Raises:
        Unstorable: names the path to the value that cannot be stored, from `input`, `output` or `state`.
        RecordTooLarge: names the parts and their sizes.
    """
    body: dict[str, Any] = {"input": step.input, "output": step.output, "delta": delta}
    summary = step.state_delta.summary
    if summary is not None:
        body["summary"] = summary
    if ticks:
        body["ticks"] = ticks
    if governance:
        body["governance"] = governance
    if consumed:
        body["consumed"] = consumed
    if took_us:
        body["took_us"] = took_us
    try:
        encoded = _encode(body)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise Unstorable(_explain_step(step, delta)) from error
    if len(encoded) > most:
        sizes = sorted(((len(_encode(value)), name) for name, value in body.items()), reverse=True)
        parts = ", ".join(f"{'change of the state' if name == 'delta' else name} {size:,}" for size, name in sizes[:3])
        raise too_large("its record", len(encoded), most, parts)
    return encoded.decode()


def without_secrets(text: str, names: Sequence[str] = (), *, is_suspect: bool = False) -> str:
    """Return a JSON object without its secrets; the same text if it has none.

    Args:
        names: fields to redact; all of them if empty. Other fields stay byte for byte the same.
        is_suspect: whether the text is known to be one that may hold a secret.
    """
    if not is_suspect and not may_hold_secret(text):
        return text
    fields = _fields(text)
    plain = {name: _decode(fields[name]) for name in names or fields if name in fields}
    clean = redact(plain)
    return text if clean is plain else str(_encode({**fields, **clean}), "utf-8")


def with_fields(text: str, names: Sequence[str], value: object) -> str:
    """Return a JSON object with `value` in those of the named fields that it has; in all its fields if no name is given."""
    fields = _fields(text)
    return str(_encode({**fields, **{name: value for name in names or fields if name in fields}}), "utf-8")


def decode_step(harness: str, attempt: int, seq: int, step: int, time_us: int, body: str | bytes) -> StepRecord:
    """Decode a step from its record; input and output are plain data."""
    try:
        data = _decode(body)
        return StepRecord(
            harness=harness,
            attempt=attempt,
            seq=seq,
            step_number=step,
            timestamp=datetime.fromtimestamp(time_us / 1e6, UTC),
            input=data["input"],
            output=data["output"],
            # Without the key, an encrypted delta is decoded as text.
            state_delta=StateDelta(modified(data["delta"] if isinstance(data["delta"], dict) else {}), data.get("summary")),
        )
    except _UNREADABLE as error:
        raise StoreCorrupt(
            f"harness {harness!r}, step {step} cannot be read back: {error}; it was changed by something else, restore the "
            "store from a copy"
        ) from error


def kept_of(body: str | bytes) -> dict[str, dict[str, Any]]:
    """Return what a step's record keeps for the next step: `ticks` and `governance`, those that are present."""
    text = str(body)
    if not any(f'"{name}"' in text for name in _KEPT):
        return {}
    fields = _decode(body)
    return {name: fields[name] for name in _KEPT if name in fields}


def _explain_step(step: Step[Any, Any] | NewStep[Any, Any], delta: Delta) -> str:
    for role, value in (("input", step.input), ("output", step.output), ("state", delta)):
        try:
            _encode(value)
        except (TypeError, ValueError, OverflowError, RecursionError):
            return explain(value, role)
    return "the step cannot be stored"


_KEPT = ("ticks", "governance")
_UNREADABLE = (msgspec.DecodeError, KeyError, IndexError, TypeError, AttributeError, ValueError)
