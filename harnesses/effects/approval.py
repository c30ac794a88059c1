"""Approvals: requests, answers and uses, and the decision whether an action may be done now. Pure.

Invariants:

    A request is bound by digest to one action, harness, step and key; it is valid for no other.
    Checked in this order: a malformed or forged record blocks; a reopened request is void (the same action is requested anew,
    under another id); a denied one stays denied; only then does an approval count.
    An approval is used once, before the act; until its step is recorded, the same act may use it again after a crash.
    The order of records decides which came first, never a clock: clocks may be set, and differ between machines.
    The lifetime of a request is counted in monotonic ticks while the machine that made it runs. The wall clock also ends it,
    but only when it is past the end by more than the tolerance. After a reboot only the wall clock counts, strictly; if it is
    before the request by more than the tolerance, the request has expired.

    stored bodies ──audit──► INVALID │ REOPENED │ used: APPROVED │ DENIED │ EXPIRED │ APPROVED │ PENDING   first match
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from hashlib import sha256
from math import isfinite
from typing import Any, TypeAlias, TypeVar, cast
from unicodedata import category

import msgspec
from attrs import Attribute, asdict, evolve, field, frozen

from harnesses.data.record_size import check_not_marked
from harnesses.data.values import detach, explain
from harnesses.errors import HarnessMisuse, Unstorable
from harnesses.timing.clock import Ticks

DAY_S = 86_400.0
MAX_SUMMARY = 300
"""Characters of a summary."""
CLOCK_TOLERANCE_S = 3600.0
"""Seconds by which a wall clock may be adjusted while a request is open."""
_TOLERANCE_US = int(CLOCK_TOLERANCE_S * 1e6)
VERDICTS = ("approved", "denied", "reopened")
"""Answers that a person may give to a request."""


class Category(StrEnum):
    """Common kinds of actions that need human approval. A harness may add kinds of its own."""

    BROAD_DELETE = "broad-delete"
    """Deletes many files at once."""
    GIT_FORCE = "git-force"
    """Rewrites git history, or discards uncommitted changes."""
    PUBLISH = "publish"
    """Publishes a package, an image or a release."""
    DEPLOY = "deploy"
    """Changes a running system."""
    SECRET_WRITE = "secret-write"
    """Reads or writes a file with secrets."""
    PROTECTED_CONFIG_WRITE = "protected-config-write"
    """Changes protected configuration."""
    DB_DESTROY = "db-destroy"
    """Destroys data in a database."""
    REMOTE_EXEC = "remote-exec"
    """Runs code that was downloaded, or on another machine."""
    PERM_DESTROY = "perm-destroy"
    """Loosens permissions of files."""


def _check_word(_: object, attribute: Attribute[Any], value: object) -> None:
    # Combining marks and zero-width characters would be invisible to the person who decides.
    if not isinstance(value, str) or len(value) > MAX_SUMMARY or not any(category(letter)[0] in "LNPS" for letter in value):
        raise HarnessMisuse(
            f"action: {attribute.name}: expected 1 to {MAX_SUMMARY} visible characters, got {value!r:.400}; reword it"
        )


def _check_seconds(_: object, attribute: Attribute[Any], value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value) or value <= 0:
        raise HarnessMisuse(f"action: {attribute.name}: expected seconds above 0, got {value!r}; correct it")


@frozen
class Action:
    """An act that needs human approval."""

    category: str = field(validator=_check_word)
    """Its kind: a `Category`, or a name of the harness's own, such as "order"."""
    summary: str = field(validator=_check_word)
    """Description for the person who decides."""
    arguments: Any = None
    """The exact arguments to approve, as plain data; None for the arguments of the effect."""
    expires_s: float = field(default=DAY_S, validator=_check_seconds)
    """Seconds after the request when it expires."""


@frozen(kw_only=True)
class Request:
    """A stored request for approval."""

    id: str
    harness: str
    step: int
    """The step in progress."""
    key: str
    """Key of the effect or approval gate."""
    category: str
    summary: str
    arguments: Any
    digest: str
    requested_us: int
    expires_us: int
    era: str = ""
    """Id of the boot that `ticks_us` counts in; empty without ticks, as in records of earlier versions."""
    ticks_us: int = 0
    """Time of the request on the monotonic clock, microseconds."""
    mac: str = ""


@frozen(kw_only=True)
class Answer:
    """A stored answer of a person."""

    id: str
    digest: str
    verdict: str
    """`approved` or `denied`; `reopened` voids the request, so that the action is requested anew."""
    by: str
    reason: str
    answered_us: int
    mac: str = ""


@frozen(kw_only=True)
class Use:
    """A stored use of an approval."""

    id: str
    digest: str
    used_us: int
    mac: str = ""


class Word(StrEnum):
    """Status of a request."""

    PENDING = "pending"
    APPROVED = "approved"
    DENIED = "denied"
    EXPIRED = "expired"
    REOPENED = "reopened"
    """A person has voided it after it was denied or had expired: the same action is requested anew."""
    INVALID = "invalid"
    """Its records are malformed or forged."""


@frozen
class Standing:
    """The status of a request, and whose answer led to it."""

    word: Word
    by: str = ""
    reason: str = ""
    used: bool = False


@frozen
class Case:
    """All records of one request. `harness` and `step` come from the records' columns, not from their bodies."""

    harness: str
    step: int
    request: str
    answers: tuple[str, ...] = ()
    uses: tuple[str, ...] = ()


@frozen
class Grant:
    """An approval that has been used."""

    id: str
    """Id of the request that was approved."""
    by: str
    """Who approved it."""
    reason: str = ""
    """Why, as that person said; empty if they gave no reason."""


ApprovalRule: TypeAlias = Callable[[str, tuple[Any, ...]], Action | str | None]
"""Called with key and arguments of an effect; returns the action that needs approval, or its category, or None."""


def action_of(key: str, needed: Action | str) -> Action:
    """Return the action to approve; for a bare category, the effect called `key` with its arguments."""
    if isinstance(needed, Action):
        return needed
    if not isinstance(cast(object, needed), str):
        raise HarnessMisuse(f"{key!r}: approval: expected an Action or a category, got {needed!r:.200}; correct it")
    return Action(needed, key[:MAX_SUMMARY])


RecordT = TypeVar("RecordT", Request, Answer, Use)


def digest_of(harness: str, step: int, key: str, action: Action) -> str:
    """Return the digest that identifies one exact action of one step."""
    return _digest(harness, step, key, action.category, action.summary, action.arguments)


def _digest(*exactly: object) -> str:
    return sha256(_canonical(exactly)).hexdigest()


def _canonical(value: object) -> bytes:
    return msgspec.json.encode(value, order="sorted")


def request_of(
    id: str, harness: str, step: int, key: str, action: Action, *, now_us: int, ticks: Ticks | None = None
) -> Request:
    """Make the request for an action.

    Args:
        now_us: wall time, microseconds since 1970.
        ticks: the same time on the monotonic clock; None if only the wall clock is available.

    Raises:
        Unstorable: JSON cannot represent its arguments.
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
    """Return the signed body of a record; without the secret it can be neither forged nor changed."""
    fields = _fields(record) | {"mac": ""}
    return msgspec.json.encode(fields | {"mac": _mac(fields, secret)}).decode()


def _fields(record: Request | Answer | Use) -> dict[str, Any]:
    """Return the fields of a record to store; absent ticks are left out, as in records of earlier versions."""
    fields = asdict(record)
    if not fields.get("era") and not fields.get("ticks_us"):
        fields.pop("era", None)
        fields.pop("ticks_us", None)
    return fields


def _mac(fields: Mapping[str, object], secret: bytes) -> str:
    return hmac.new(secret, _canonical({**fields, "mac": ""}), sha256).hexdigest()


def read(kind: type[RecordT], body: str, secret: bytes) -> RecordT:
    """Decode and verify a record.

    Raises:
        ValueError: it is malformed, or its signature is wrong.
    """
    try:
        fields = cast(object, msgspec.json.decode(body))
        record = msgspec.convert(fields, kind)
    except (msgspec.DecodeError, msgspec.ValidationError, RecursionError) as error:
        raise ValueError(f"it is malformed: {error}") from error
    # A body that does not encode to the same bytes has extra, missing or duplicate fields, so it was not written here.
    if msgspec.json.encode(_fields(record)).decode() != body:
        raise ValueError("it is malformed: it has other fields than those of a record")
    if not hmac.compare_digest(record.mac.encode(), _mac(_fields(record), secret).encode()):
        raise ValueError("it is not genuine: its signature does not fit")
    return record


def stand(case: Case, secret: bytes, *, now_us: int, ticks: Ticks | None = None) -> Standing:
    """Return the status of a request, after auditing all its records.

    Args:
        secret: the signing key of the records.
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
        # An answer this late would not have been accepted.
        return Standing(Word.EXPIRED)
    if approved is not None:
        return Standing(Word.APPROVED, approved.by, approved.reason)
    return Standing(Word.PENDING)


def left_us(request: Request, *, now_us: int, ticks: Ticks | None = None) -> int:
    """Return the remaining lifetime of a request in microseconds; 0 or less if it has expired. See `request_of`."""
    allowed_us = request.expires_us - request.requested_us
    passed_us = now_us - request.requested_us
    if ticks is not None and ticks.era == request.era and ticks.us >= request.ticks_us:
        # Only the wall clock includes time for which the whole machine was suspended, as a virtual machine may be.
        return min(allowed_us - (ticks.us - request.ticks_us), allowed_us + _TOLERANCE_US - passed_us)
    return allowed_us - passed_us if passed_us >= -_TOLERANCE_US else 0


def _audited(case: Case, secret: bytes) -> tuple[Request, Sequence[Answer], Sequence[Use]]:
    """Decode and cross-check all records of a request, in order.

    Raises:
        ValueError: a record is invalid.
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
