"""A person's word on one exact action: what is asked, what was answered, and whether it may be done now. Pure.

The laws:

    a request names the action by digest, with the harness, the step and the key it is for: it serves no other
    what is malformed or not genuine blocks; what was denied stays denied; only then does an approval count
    an approval is used once, before the act; until its step is recorded the very same act may take it up again

    bodies on record ──audit──► INVALID  │ DENIED │ used: APPROVED │ EXPIRED │ APPROVED │ PENDING     the first that holds
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

from harnesses.errors import HarnessMisuse, Unstorable
from harnesses.values import detach, explain

DAY_S = 86_400.0
MAX_SUMMARY = 300
"""Characters."""
_MAX_BACKWARD_US = 60_000_000
"""By how much two clocks may differ: an answer that is older than its request by more is not one to it."""


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
    mac: str = ""


@frozen(kw_only=True)
class Answer:
    """What a person has said, as it is on record."""

    id: str
    digest: str
    verdict: str
    """`approved` or `denied`."""
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
    INVALID = "invalid"
    """What is on record of it can not be trusted."""


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


def request_of(id: str, harness: str, step: int, key: str, action: Action, *, now_us: int) -> Request:
    """Return the request for an action.

    Raises:
        Unstorable: its arguments are nothing that JSON can carry.
    """
    try:
        arguments = msgspec.json.decode(msgspec.json.encode(detach(action.arguments)))
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise Unstorable(explain(action.arguments, "arguments")) from error
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
    )


def signed(record: RecordT, secret: bytes) -> str:
    """Return the body of a record, signed: whoever does not know the secret can not make one, nor change one."""
    fields = asdict(record) | {"mac": ""}
    return msgspec.json.encode(fields | {"mac": _mac(fields, secret)}).decode()


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
    if msgspec.json.encode(asdict(record)).decode() != body:
        raise ValueError("it is malformed: it has other fields than those of a record")
    if not hmac.compare_digest(record.mac.encode(), _mac(asdict(record), secret).encode()):
        raise ValueError("it is not genuine: its signature does not fit")
    return record


def stand(case: Case, secret: bytes, *, now_us: int) -> Standing:
    """Return where a request stands, having audited all that is on record of it.

    Args:
        secret: what the records were signed with.
        now_us: wall time, microseconds since 1970.
    """
    try:
        request, answers, uses = _audited(case, secret)
    except ValueError as error:
        return Standing(Word.INVALID, reason=str(error))
    used = bool(uses)
    denied = next((answer for answer in answers if answer.verdict == "denied"), None)
    approved = next((answer for answer in answers if answer.verdict == "approved"), None)
    if used and approved is not None:
        return Standing(Word.APPROVED, approved.by, approved.reason, used=True)
    if denied is not None:
        return Standing(Word.DENIED, denied.by, denied.reason)
    if now_us >= request.expires_us:
        return Standing(Word.EXPIRED)
    if approved is not None:
        return Standing(Word.APPROVED, approved.by, approved.reason)
    return Standing(Word.PENDING)


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
        if answer.verdict not in ("approved", "denied") or not answer.by.strip():
            raise ValueError(f"an answer is malformed: {answer.verdict!r:.40} by {answer.by!r:.40}")
        if answer.answered_us < request.requested_us - _MAX_BACKWARD_US:
            raise ValueError("an answer is older than the request")
        if answer.verdict == "approved" and answer.answered_us >= request.expires_us:
            raise ValueError("an approval is newer than the end of its request")
    if uses and not any(answer.verdict == "approved" for answer in answers):
        raise ValueError("it was used without an approval")
    return request, answers, uses


def _read(what: str, kind: type[RecordT], body: str, secret: bytes) -> RecordT:
    try:
        return read(kind, body, secret)
    except ValueError as error:
        raise ValueError(f"{what}: {error}") from error
