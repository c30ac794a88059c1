"""A person's word on one exact action: what is asked, what was answered, and whether it may be done now. Pure.

The laws:

    a request names the action by digest, with the harness, the step and the key it is for: it serves no other
    what is malformed or not genuine blocks; what was reopened serves nothing any more: the same action is asked for anew,
    under another id; what was denied stays denied; only then does an approval count
    an approval is used once, before the act; until its step is recorded the very same act may take it up again
    which came first is told by the order of the records, never by a clock: clocks are set, and differ
    how long a request is good for is counted in ticks, while the machine that asked runs; the wall clock may end it, too, but
    only when it is past the end by more than the tolerance. Of another boot the wall clock alone tells: strictly, and a clock
    that is before the request by more than the tolerance ends it as well

    bodies on record ──audit──► INVALID │ REOPENED │ used: APPROVED │ DENIED │ EXPIRED │ APPROVED │ PENDING   the first holds
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping, Sequence
from enum import StrEnum
from hashlib import sha256
from math import isfinite
from typing import Any, TypeVar, cast
from unicodedata import category

import msgspec
from attrs import Attribute, asdict, evolve, field, frozen

from harnesses.data.record_size import check_not_marked
from harnesses.data.values import detach, explain
from harnesses.errors import HarnessMisuse, Unstorable
from harnesses.timing.clock import Ticks

DAY_S = 86_400.0
MAX_SUMMARY = 300
"""Characters."""
CLOCK_TOLERANCE_S = 3600.0
"""By how much a wall clock may be set while a request stands."""
_TOLERANCE_US = int(CLOCK_TOLERANCE_S * 1e6)
VERDICTS = ("approved", "denied", "reopened")
"""What a person may say of a request."""


class Category(StrEnum):
    """What needs a person's word. Any harness may have words of its own besides."""

    BROAD_DELETE = "broad-delete"
    GIT_FORCE = "git-force"
    PUBLISH = "publish"
    DEPLOY = "deploy"
    SECRET_WRITE = "secret-write"
    PROTECTED_CONFIG_WRITE = "protected-config-write"
    DB_DESTROY = "db-destroy"
    REMOTE_EXEC = "remote-exec"
    PERM_DESTROY = "perm-destroy"


def _check_word(_: object, attribute: Attribute[Any], value: object) -> None:
    # Marks and what has no width would show nothing to the person who decides.
    if not isinstance(value, str) or len(value) > MAX_SUMMARY or not any(category(letter)[0] in "LNPS" for letter in value):
        raise HarnessMisuse(f"action: {attribute.name}: expected 1 to {MAX_SUMMARY} characters, was {value!r:.400}; word it")


def _check_seconds(_: object, attribute: Attribute[Any], value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value) or value <= 0:
        raise HarnessMisuse(f"action: {attribute.name}: expected seconds above 0, was {value!r}; correct it")


@frozen
class Action:
    """An act that needs a person's word."""

    category: str = field(validator=_check_word)
    """Its kind: a `Category`, or a word of the harness's own, such as "order"."""
    summary: str = field(validator=_check_word)
    """What it is, for the person who decides."""
    arguments: Any = None
    """Exactly what is to be done, as plain data; for an effect without any, the effect's own arguments."""
    expires_s: float = field(default=DAY_S, validator=_check_seconds)
    """Seconds from the request after which nothing can be done with it."""


@frozen(kw_only=True)
class Request:
    """What is asked of people, as it is on record."""

    id: str
    harness: str
    step: int
    """The one being made."""
    key: str
    """Of the effect, or of the gate."""
    category: str
    summary: str
    arguments: Any
    digest: str
    requested_us: int
    expires_us: int
    era: str = ""
    """Of the ticks; empty if there are none, as in records of earlier versions."""
    ticks_us: int = 0
    """When it was asked, by the clock that cannot be set."""
    mac: str = ""


@frozen(kw_only=True)
class Answer:
    """What a person has said, as it is on record."""

    id: str
    digest: str
    verdict: str
    """`approved` or `denied`; `reopened` withdraws the request, so that the action is asked for anew."""
    by: str
    reason: str
    answered_us: int
    mac: str = ""


@frozen(kw_only=True)
class Use:
    """That an approval was taken up, as it is on record."""

    id: str
    digest: str
    used_us: int
    mac: str = ""


class Word(StrEnum):
    """Where a request stands."""

    PENDING = "pending"
    APPROVED = "approved"
    DENIED = "denied"
    EXPIRED = "expired"
    REOPENED = "reopened"
    """A person has withdrawn it after it was denied, or had expired: the same action is asked for anew."""
    INVALID = "invalid"
    """What is on record of it cannot be trusted."""


@frozen
class Standing:
    """Where a request stands, and who has brought it there."""

    word: Word
    by: str = ""
    reason: str = ""
    used: bool = False


@frozen
class Case:
    """All that is on record of one request. `harness` and `step` are those of the record, not what its body says."""

    harness: str
    step: int
    request: str
    answers: tuple[str, ...] = ()
    uses: tuple[str, ...] = ()


@frozen
class Grant:
    """A person's approval, taken up."""

    id: str
    by: str
    reason: str = ""


def action_of(key: str, needed: Action | str) -> Action:
    """Return what is to be approved; of a category alone, the effect called `key` with its arguments."""
    if isinstance(needed, Action):
        return needed
    if not isinstance(cast(object, needed), str):
        raise HarnessMisuse(f"{key!r}: approval: expected an Action or a category, was {needed!r:.200}; correct it")
    return Action(needed, key[:MAX_SUMMARY])


RecordT = TypeVar("RecordT", Request, Answer, Use)


def digest_of(harness: str, step: int, key: str, action: Action) -> str:
    """Return the name of one exact action of one step."""
    return _digest(harness, step, key, action.category, action.summary, action.arguments)


def _digest(*exactly: object) -> str:
    return sha256(_canonical(exactly)).hexdigest()


def _canonical(value: object) -> bytes:
    return msgspec.json.encode(value, order="sorted")


def request_of(
    id: str, harness: str, step: int, key: str, action: Action, *, now_us: int, ticks: Ticks | None = None
) -> Request:
    """Return the request for an action.

    Args:
        now_us: wall time, microseconds since 1970.
        ticks: the same moment by the clock that cannot be set; None if there is none beside the wall clock.

    Raises:
        Unstorable: its arguments are nothing that JSON can carry.
    """
    try:
        text = str(msgspec.json.encode(detach(action.arguments)), "utf-8")
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise Unstorable(explain(action.arguments, "arguments")) from error
    check_not_marked("arguments", text)
    arguments = msgspec.json.decode(text)
    plain = evolve(action, arguments=arguments)
    return Request(
        id=id,
        harness=harness,
        step=step,
        key=key,
        category=str(plain.category),
        summary=plain.summary,
        arguments=arguments,
        digest=digest_of(harness, step, key, plain),
        requested_us=now_us,
        expires_us=now_us + int(plain.expires_s * 1e6),
        era="" if ticks is None else ticks.era,
        ticks_us=0 if ticks is None else ticks.us,
    )


def signed(record: RecordT, secret: bytes) -> str:
    """Return the body of a record, signed: whoever does not know the secret cannot make one, nor change one."""
    fields = _fields(record) | {"mac": ""}
    return msgspec.json.encode(fields | {"mac": _mac(fields, secret)}).decode()


def _fields(record: Request | Answer | Use) -> dict[str, Any]:
    """Return what is written of a record; without ticks if it has none: earlier versions knew of none."""
    fields = asdict(record)
    if not fields.get("era") and not fields.get("ticks_us"):
        fields.pop("era", None)
        fields.pop("ticks_us", None)
    return fields


def _mac(fields: Mapping[str, object], secret: bytes) -> str:
    return hmac.new(secret, _canonical({**fields, "mac": ""}), sha256).hexdigest()


def read(kind: type[RecordT], body: str, secret: bytes) -> RecordT:
    """Return a record from its body.

    Raises:
        ValueError: it is malformed, or not genuine.
    """
    try:
        fields = cast(object, msgspec.json.decode(body))
        record = msgspec.convert(fields, kind)
    except (msgspec.DecodeError, msgspec.ValidationError, RecursionError) as error:
        raise ValueError(f"it is malformed: {error}") from error
    # What was not there, or there twice, was not written here.
    if msgspec.json.encode(_fields(record)).decode() != body:
        raise ValueError("it is malformed: it has other fields than those of a record")
    if not hmac.compare_digest(record.mac.encode(), _mac(_fields(record), secret).encode()):
        raise ValueError("it is not genuine: its signature does not fit")
    return record


def stand(case: Case, secret: bytes, *, now_us: int, ticks: Ticks | None = None) -> Standing:
    """Return where a request stands, having audited all that is on record of it.

    Args:
        secret: what the records were signed with.
        now_us, ticks: see `request_of`.
    """
    try:
        request, answers, uses = _audited(case, secret)
    except ValueError as error:
        return Standing(Word.INVALID, reason=str(error))
    used = bool(uses)
    reopened = next((answer for answer in answers if answer.verdict == "reopened"), None)
    if reopened is not None:
        return Standing(Word.REOPENED, reopened.by, reopened.reason)
    denied = next((answer for answer in answers if answer.verdict == "denied"), None)
    approved = next((answer for answer in answers if answer.verdict == "approved"), None)
    if used and approved is not None:
        return Standing(Word.APPROVED, approved.by, approved.reason, used=True)
    if denied is not None:
        return Standing(Word.DENIED, denied.by, denied.reason)
    if left_us(request, now_us=now_us, ticks=ticks) <= 0:
        return Standing(Word.EXPIRED)
    if approved is not None and approved.answered_us >= request.expires_us + _TOLERANCE_US:
        # No desk takes one so late.
        return Standing(Word.EXPIRED)
    if approved is not None:
        return Standing(Word.APPROVED, approved.by, approved.reason)
    return Standing(Word.PENDING)


def left_us(request: Request, *, now_us: int, ticks: Ticks | None = None) -> int:
    """Return for how long a request is good yet, microseconds; 0 or less if it has expired. For arguments see `request_of`."""
    allowed_us = request.expires_us - request.requested_us
    passed_us = now_us - request.requested_us
    if ticks is not None and ticks.era == request.era and ticks.us >= request.ticks_us:
        # The wall clock knows of the time for which a machine was stopped whole, as a virtual one may be.
        return min(allowed_us - (ticks.us - request.ticks_us), allowed_us + _TOLERANCE_US - passed_us)
    return allowed_us - passed_us if passed_us >= -_TOLERANCE_US else 0


def _audited(case: Case, secret: bytes) -> tuple[Request, Sequence[Answer], Sequence[Use]]:
    """Return what is on record, all of it in order.

    Raises:
        ValueError: something is not.
    """
    request = _read("the request", Request, case.request, secret)
    exactly = (request.harness, request.step, request.key, request.category, request.summary, request.arguments)
    if request.digest != _digest(*exactly) or (request.harness, request.step) != (case.harness, case.step):
        raise ValueError("the request is for another action than its digest names")
    answers = [_read("an answer", Answer, body, secret) for body in case.answers]
    uses = [_read("its use", Use, body, secret) for body in case.uses]
    said: list[Answer | Use] = [*answers, *uses]
    if any((record.id, record.digest) != (request.id, request.digest) for record in said):
        raise ValueError("an answer, or its use, is for another request")
    if len({answer.mac for answer in answers}) < len(answers) or len(uses) > 1:
        raise ValueError("an answer, or its use, is there twice")
    for answer in answers:
        if answer.verdict not in VERDICTS or not answer.by.strip():
            raise ValueError(f"an answer is malformed: {answer.verdict!r:.40} by {answer.by!r:.40}")
    if uses and not any(answer.verdict == "approved" for answer in answers):
        raise ValueError("it was used without an approval")
    if uses and any(answer.verdict == "reopened" for answer in answers):
        raise ValueError("it was used although it was reopened")
    return request, answers, uses


def _read(what: str, kind: type[RecordT], body: str, secret: bytes) -> RecordT:
    try:
        return read(kind, body, secret)
    except ValueError as error:
        raise ValueError(f"{what}: {error}") from error
