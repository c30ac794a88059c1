"""The columns of steps: what the questions need of their bodies, with its types, so that no JSON is parsed for an answer.

    work … commit, is_timed     `took_us`, microseconds                  consumed    messages
    same, is_unchanged          fingerprint of the step, see `loops_question`, and whether it changed nothing in the state
    input, output, delta        JSON, without secrets: what frames of ready-made harnesses read
    given_kind … made_commit    of a try at a feature (`is_turn`)        `may_turn`   it may be one, read the JSON
    at, equity … latched        of a trading harness (`is_trade`)        `may_trade`  it may be one, read the JSON
    refused, expired, is_filled, is_adopted, is_split                    what has happened to its account

Invariant: a value of an unexpected type is left to DuckDB, as JSON, whose rules then apply. If it is among `took_us` and
`consumed`, the step is none of these rows, and its whole body is kept with the other records.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from importlib import import_module
from operator import attrgetter
from typing import Annotated, Any, TypeAlias
from zlib import crc32

import msgspec
from msgspec import Raw, Struct

from harnesses.redaction.prefilter import suspects
from harnesses.redaction.redactor import redact
from orchestrator.codec import decode, encode_private

_NOTHING = Raw()
_ABSENT = (b"", b"null")
_Long: TypeAlias = Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)]
_Int: TypeAlias = Annotated[int, msgspec.Meta(ge=-(1 << 31), le=(1 << 31) - 1)]
TOOK = ("work", "agent", "effects", "waiting", "held", "commit")
_TURNS = ("turn", "recheck", "recover")


class _Took(Struct, gc=False):
    work: _Long | None = None
    agent: _Long | None = None
    effects: _Long | None = None
    waiting: _Long | None = None
    held: _Long | None = None
    commit: _Long | None = None


_UNTIMED = _Took()


class Body(Struct, gc=False):
    """A step's body."""

    input: Raw = _NOTHING
    output: Raw = _NOTHING
    delta: Raw = _NOTHING
    took_us: _Took | None = None
    consumed: list[_Long] | None = None
    governance: Raw = _NOTHING


read_body = msgspec.json.Decoder(Body).decode
"""Raises `msgspec.DecodeError` for types that are not expected."""


def _only(name: str, raw: str, nested: Mapping[str, Any] | None = None) -> type:
    """Return a type of objects of which these fields are kept as they are, and others are left out."""
    fields: list[tuple[str, Any, Any]] = [(field, Raw, _NOTHING) for field in raw.split()]
    fields += [(field, type | None, None) for field, type in (nested or {}).items()]
    return msgspec.defstruct(name, fields, omit_defaults=True, gc=False)


_list: Any = list
_Kept: Any = _only("Kept", "kind feature_id turn streamed task attempt bars")
_read_input = msgspec.json.Decoder(_Kept | list[Raw] | str | int | float | bool | None).decode
_read_output = msgspec.json.Decoder(
    _only(
        "Output",
        "status note duration_s events time equity cash drawdown risk latched positions fills adopted refused cancelled quiet",
        {
            "result": _only("Result", "tokens commit"),
            "verdict": _only("Verdict", "evidence validator commit"),
            "reports": _list[_only("Report", "status")],
        },
    )
    | list[Raw]
    | str
    | int
    | float
    | bool
    | None
).decode
"""All that the frames of ready-made harnesses read of inputs and outputs."""


class _Given(Struct, gc=False):
    kind: str | None = None
    feature_id: str | None = None
    turn: _Int | None = None
    streamed: Raw = _NOTHING
    task: Raw = _NOTHING
    attempt: _Int | None = None
    bars: Raw = _NOTHING


class _Result(Struct, gc=False):
    tokens: _Long | None = None
    commit: str | None = None


class _Verdict(Struct, gc=False):
    evidence: str | None = None
    validator: str | None = None
    commit: str | None = None


class _Fill(Struct, gc=False):
    fill_id: str | None = None


class _Execution(Struct, gc=False):
    fill: _Fill | None = None


class _Cancelled(Struct, gc=False):
    refused: str | None = None


class _Report(Struct, gc=False):
    status: str | None = None


class _Output(Struct, gc=False):
    status: str | None = None
    note: str | None = None
    duration_s: float | None = None
    events: Raw = _NOTHING
    result: _Result | None = None
    verdict: _Verdict | None = None
    time: str | None = None
    equity: str | None = None
    cash: str | None = None
    drawdown: str | None = None
    risk: str | None = None
    latched: str | None = None
    fills: list[_Execution] | None = None
    adopted: Raw = _NOTHING
    refused: list[Raw] | None = None
    cancelled: list[_Cancelled] | None = None
    reports: list[_Report] | None = None
    quiet: list[Raw] | None = None


class _Slim(Struct, gc=False):
    input: Any
    output: Any
    delta: Raw


class _Parts(Struct, gc=False):
    input: Raw
    output: Raw
    delta: Raw


class _Typed(Struct, gc=False):
    input: _Given | None
    output: _Output | None
    delta: Raw


_NO_GIVEN, _NO_OUTPUT, _NO_RESULT, _NO_VERDICT = _Given(), _Output(), _Result(), _Verdict()
_GROWS = re.compile(b'"(append|keep)":')
_encode = msgspec.json.Encoder().encode
_read_parts = msgspec.json.Decoder(_Parts).decode
_read_typed = msgspec.json.Decoder(_Typed).decode


def columns_of(steps: Sequence[Body]) -> dict[str, Any]:
    """Return the columns of some steps, besides those of every record."""
    arrow: Any = import_module("pyarrow")
    took = [one.took_us or _UNTIMED for one in steps]
    columns = {name: arrow.array(map(attrgetter(name), took), arrow.int64()) for name in TOOK}
    columns["is_timed"] = arrow.array([one.took_us is not None for one in steps], arrow.bool_())
    columns["consumed"] = arrow.array([one.consumed for one in steps], arrow.list_(arrow.int64()))
    return columns | fingerprints(steps) | _results(steps)


class _Loops(Struct, gc=False):
    recent: list[str]


class _Governance(Struct, gc=False):
    loops: _Loops | None = None


_read_governance = msgspec.json.Decoder(_Governance).decode


def fingerprints(steps: Sequence[Body]) -> dict[str, Any]:
    """Return what tells whether steps repeat themselves, for `loops_question`."""
    arrow: Any = import_module("pyarrow")
    return {
        "same": arrow.array(map(_fingerprint, steps), arrow.uint64()),
        "is_unchanged": arrow.array([bytes(one.delta) in (b"{}", b"null", b"") for one in steps], arrow.bool_()),
    }


def _fingerprint(one: Body) -> int | None:
    """Return the fingerprint that the guardrail `no_progress` has recorded, else one of what the step did, as a number."""
    if b'"recent"' in bytes(one.governance):
        try:
            loops = _read_governance(one.governance).loops
        except msgspec.DecodeError:
            loops = None
        if loops is not None:
            recorded = loops.recent[0].encode() if loops.recent else b""
            return crc32(recorded) << 32 | crc32(recorded[::-1]) if recorded else None
    delta = bytes(one.delta)
    if _GROWS.search(delta):
        return None
    return crc32(bytes(one.output), crc32(bytes(one.input))) << 32 | crc32(delta)


def _results(steps: Sequence[Body]) -> dict[str, Any]:
    arrow: Any = import_module("pyarrow")
    texts = _cleaned([_encode(_slim(one)) for one in steps])
    parts = [_read_parts(text) for text in texts]
    typed = [_typed(text) for text in texts]
    given = [one.input or _NO_GIVEN if one else _NO_GIVEN for one in typed]
    made = [one.output or _NO_OUTPUT if one else _NO_OUTPUT for one in typed]
    result, verdict = [one.result or _NO_RESULT for one in made], [one.verdict or _NO_VERDICT for one in made]
    is_turn = [_is_turn(one) for one in typed]
    has_bars = [bool(one.quiet) for one in made]
    is_trade = [one.time is not None and one.equity is not None and one.cash is not None and not one.quiet for one in made]
    text, flag = arrow.string(), arrow.bool_()

    def column(name: str, of: Sequence[Any], type: Any = text) -> Any:
        return arrow.array(map(attrgetter(name), of), type)

    columns: dict[str, Any] = {
        name: arrow.array([None if (raw := bytes(one)) in _ABSENT else raw for one in map(attrgetter(name), parts)], text)
        for name in ("input", "output", "delta")
    }
    columns |= {
        "is_turn": arrow.array(is_turn, flag),
        "may_turn": arrow.array([not is_it and _may_turn(one) for is_it, one in zip(is_turn, typed, strict=True)], flag),
        "given_kind": column("kind", given),
        "feature_id": column("feature_id", given),
        "turn": column("turn", given, arrow.int32()),
        **{name: column(name, made) for name in ("status", "note")},
        "duration_s": column("duration_s", made, arrow.float64()),
        "tokens": column("tokens", result, arrow.int64()),
        "made_commit": column("commit", result),
        "evidence": column("evidence", verdict),
        "validator": column("validator", verdict),
        "judged_commit": column("commit", verdict),
        "is_trade": arrow.array(is_trade, flag),
        "may_trade": arrow.array([one is None or several for one, several in zip(typed, has_bars, strict=True)], flag),
        "at": column("time", made),
        **{name: column(name, made) for name in ("equity", "cash", "drawdown", "risk", "latched")},
        "refused": arrow.array([_refusals(one) for one in made], arrow.int32()),
        "expired": arrow.array([sum(each.status == "expired" for each in one.reports or ()) for one in made], arrow.int32()),
        "is_filled": arrow.array([_is_filled(one) for one in made], flag),
        "is_adopted": arrow.array([bytes(one.adopted)[:1] == b"{" for one in made], flag),
        "is_split": arrow.array([b'"split"' in bytes(one.input) for one in parts], flag),
    }
    return columns


def _refusals(one: _Output) -> int:
    return len(one.refused or ()) + sum(bool(each.refused) for each in one.cancelled or ())


def _slim(one: Body) -> _Slim:
    """Return what is kept of a body; all of an input or output in which something has an unexpected type."""
    try:
        given = _slim_input(one.input)
    except msgspec.DecodeError:
        given = one.input
    try:
        made = _read_output(one.output) if bytes(one.output) else None
    except msgspec.DecodeError:
        made = one.output
    return _Slim(given, made if isinstance(made, Struct | Raw) else None, one.delta if bytes(one.delta) else Raw(b"null"))


def _slim_input(raw: Raw) -> Any:
    """Return what is kept of an input. A slice of a market is needed only where there is a split in it, and then whole."""
    given: Any = _read_input(raw) if bytes(raw) else None
    if isinstance(given, Struct):
        kept: Any = given
        bars = bytes(kept.bars)
        kept.bars = _NOTHING
        return raw if bars.count(b'"split"') != bars.count(b'"split":"1"') else given
    return raw if isinstance(given, list) and b'"split"' in bytes(raw) else None


def _cleaned(texts: list[bytes]) -> list[bytes]:
    """Return JSON texts without secrets."""
    shown = [str(text, "utf-8") for text in texts]
    for at in set(suspects(shown)):
        texts[at] = encode_private(redact(decode(shown[at]))).encode()
    return texts


def _typed(text: bytes) -> _Typed | None:
    try:
        return _read_typed(text)
    except msgspec.DecodeError:
        return None


def _is_turn(one: _Typed | None) -> bool:
    if one is None or one.input is None or one.input.kind not in _TURNS:
        return False
    given, events = one.input, b"" if one.output is None else bytes(one.output.events)
    return (
        all(bytes(each) in _ABSENT for each in (given.streamed, given.task, events))
        and given.attempt is None
        and b"standings" not in bytes(one.delta)
    )


def _may_turn(one: _Typed | None) -> bool:
    return one is None or (one.input is not None and (one.input.kind is not None or bytes(one.input.streamed) not in _ABSENT))


def _is_filled(one: _Output) -> bool:
    first = one.fills[0].fill if one.fills else None
    return first is not None and first.fill_id is not None
