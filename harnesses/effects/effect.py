"""Effects, the acts on the world that must not happen twice: what is known of them, and their journal. Pure.

intent     {"key", "arguments", "idempotent"?}                    `Entry.intent`
outcome    {"key", "outcome", "result"?, "reason"?, "by"?}        `Entry.concluded`, `operator_outcome`

Whoever reads or writes the journal does so here.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Iterable
from enum import StrEnum
from functools import partial
from typing import Any, Protocol, TypeAlias, cast

import msgspec
from attrs import define, frozen

from harnesses.data.record_size import check_not_marked
from harnesses.data.values import detach, explain
from harnesses.effects.approval import Action, Grant
from harnesses.errors import HarnessMisuse, RecordTooLarge, Refused, UnknownOutcome, Unstorable


class EffectOutcome(StrEnum):
    """What is known of an effect."""

    BEGUN = "begun"
    """The intent is on record, and no outcome: it is under way, or was cut off."""
    CONFIRMED = "confirmed"
    """It has happened."""
    REFUSED = "refused"
    """The world has said no: it has not happened, and is not tried again."""
    UNKNOWN = "unknown"
    """It may have happened."""
    NOT_DONE = "not_done"
    """It has not happened, and may be tried."""


OPEN = (EffectOutcome.BEGUN, EffectOutcome.UNKNOWN)
"""What has to be settled before its step can be recorded."""


@frozen
class Effect:
    """What is on record of one effect of the step being made."""

    key: str
    arguments: Any
    """As plain data: a list."""
    outcome: EffectOutcome
    result: Any = None
    """As plain data; None unless it is confirmed."""
    reason: str = ""
    """Why it was refused, or why nothing is known of it."""
    idempotent: bool = False
    """Whether doing it again does no harm."""


@frozen
class Confirmed:
    """The answer of a `reconcile`: it has happened, and this is what the function would have returned."""

    result: Any = None


@frozen
class NotDone:
    """The answer of a `reconcile`: it has not happened, and what was sent before cannot make it happen any more."""


@frozen
class Undecided:
    """The answer of a `reconcile`: nobody knows."""

    reason: str = ""


Answer: TypeAlias = Confirmed | NotDone | Undecided
Reconcile: TypeAlias = Callable[..., Answer | Awaitable[Answer]]


class Journal(Protocol):
    """Where intents and outcomes are written down, and who may forbid an effect."""

    async def note(self, kind: str, body: str) -> None:
        """Return when an `intent` or an `outcome` is on record. Never raises `Cancelled`."""
        ...

    def note_soon(self, kind: str, body: str) -> None:
        """Have it recorded without waiting."""
        ...

    async def approve(self, key: str, action: Action) -> Grant:
        """Return when a person has approved an action of the step being made; the approval is taken up then.

        Raises:
            ApprovalDenied, ApprovalExpired, ApprovalInvalid: it may not be done.
            Stopping: the harness is to stop. It is asked no second time when it is started again.
        """
        ...

    def check_latch(self) -> None:
        """Return if an effect may begin.

        Raises:
            Latched: the kill switch is on.
        """
        ...


MAX_REASON = 2000
WAY_OUT = "find out, and say so with `orchestrator effects settle`"
_MAX_KEY = 200
_encode = msgspec.json.Encoder().encode
_encode_arguments = msgspec.json.Encoder(order="deterministic").encode
"""Sets have another order in each process, and arguments are compared with those of an earlier one."""
_decode = msgspec.json.Decoder().decode


@define
class Entry:
    """One effect of the step being made."""

    key: str
    arguments: str
    outcome: EffectOutcome = EffectOutcome.BEGUN
    result: str | None = None
    reason: str = ""
    idempotent: bool = False
    settled_by: str = ""
    """`operator` if a person has said what became of it."""
    busy: bool = False
    """Whether a call of `once` is at it now."""

    @property
    def is_open(self) -> bool:
        return self.outcome in OPEN and not self.idempotent

    @property
    def effect(self) -> Effect:
        """What a harness sees of it."""
        result = None if self.result is None else _decode(self.result)
        return Effect(self.key, _decode(self.arguments), self.outcome, result, self.reason, self.idempotent)

    def intent(self) -> str:
        """Begin it; return the body of the record of that."""
        self.outcome, self.result, self.reason = EffectOutcome.BEGUN, None, ""
        idempotent = ',"idempotent":true' if self.idempotent else ""
        return f'{{"key":{_json(self.key)},"arguments":{self.arguments}{idempotent}}}'

    def concluded(self, outcome: EffectOutcome, reason: str = "", result: str | None = None) -> str:
        """Set what has become of it; return the body of the record of that."""
        self.outcome, self.reason, self.result = outcome, reason, result
        said = f',"result":{result}' if result is not None else ""
        because = f',"reason":{_json(reason)}' if reason else ""
        return f'{{"key":{_json(self.key)},"outcome":"{outcome.value}"{said}{because}}}'

    def check_unchanged(self, args: tuple[Any, ...]) -> None:
        """Make sure that what was approved is what is about to be done.

        Raises:
            HarnessMisuse: an argument that can be changed was, while a person was waited for.
        """
        now = arguments_of(self.key, args)
        if now != self.arguments:
            raise HarnessMisuse(
                f"effect {self.key!r}: its arguments were changed after they were approved: expected {self.arguments:.200}, "
                f"was {now:.200}; pass values that nobody changes"
            )

    def check_same(self, arguments: str) -> None:
        """Make sure that an effect is taken up again as it was begun. What was not done may be done otherwise.

        Raises:
            HarnessMisuse: it is under way, or it has ended and was another.
            UnknownOutcome: it was another, and nobody knows what became of it.
        """
        if self.busy:
            raise HarnessMisuse(f"effect {self.key!r} is under way: expected one call at a time; give each a key of its own")
        if self.arguments == arguments or _decode(self.arguments) == _decode(arguments):
            return
        if self.outcome is EffectOutcome.NOT_DONE:
            self.arguments = arguments
            return
        problem = (
            f"effect {self.key!r} was begun in this step with other arguments: expected {self.arguments:.200}, "
            f"was {arguments:.200}; derive arguments from the state, or give each effect a key of its own"
        )
        if self.is_open:
            raise UnknownOutcome(f"{problem}; what became of the first is unknown: {WAY_OUT}")
        raise HarnessMisuse(problem)


def entries_of(marks: Iterable[tuple[str, str]]) -> dict[str, Entry]:
    """Return the effects that intents and outcomes tell of, by key.

    Args:
        marks: kind (`intent` or `outcome`) and body of each record, oldest first.
    """
    entries: dict[str, Entry] = {}
    for kind, body in marks:
        take_in(entries, kind, body)
    return entries


def take_in(entries: dict[str, Entry], kind: str, body: str) -> Entry:
    """Take in the next record of the effects of a step; return the one that it tells of."""
    fields: dict[str, Any] = _decode(body)
    key: str = fields["key"]
    if kind == "intent":
        entries[key] = Entry(key, str(_encode(fields["arguments"]), "utf-8"), idempotent=fields.get("idempotent", False))
    else:
        result = str(_encode(fields["result"]), "utf-8") if "result" in fields else None
        entries[key].concluded(EffectOutcome(fields["outcome"]), fields.get("reason", ""), result)
        entries[key].settled_by = fields.get("by", "")
    return entries[key]


def operator_outcome(key: str, *, result: str | None, reason: str) -> str:
    """Return the body of the record of what a person has said: that it has happened with a result, or has not.

    Args:
        result: JSON; None if it has not happened.

    Raises:
        msgspec.DecodeError, UnicodeError: the result is not JSON.
    """
    outcome = EffectOutcome.NOT_DONE if result is None else EffectOutcome.CONFIRMED
    said = {"key": key, "outcome": outcome.value} | ({} if result is None else {"result": _decode(result)})
    return str(_encode({**said, "reason": reason, "by": "operator"}), "utf-8")


def arguments_of(key: str, args: tuple[Any, ...]) -> str:
    """Return arguments as they are written down and compared.

    Raises:
        Unstorable: with the path to what cannot be stored.
    """
    return text_of(args, f"effect {key!r}: its arguments cannot be stored", _encode_arguments)


def text_of(value: Any, problem: str, encode: Callable[[Any], bytes] = _encode) -> str:
    """Return the JSON of a value that can be read back."""
    try:
        text = str(encode(detach(value)), "utf-8")
    except RecordTooLarge as error:
        raise RecordTooLarge(f"{problem}: {error}") from None
    except Unstorable as error:
        raise Unstorable(f"{problem}: {error}") from error
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise Unstorable(f"{problem}: {explain(value)}") from error
    check_not_marked(problem, text)
    return text


def _json(text: str) -> str:
    return str(_encode(text), "utf-8")


def refusal_of(error: BaseException) -> Refused | None:
    """Return the refusal that an error is; a group of nothing else counts as its first."""
    if isinstance(error, Refused):
        return error
    if isinstance(error, BaseExceptionGroup):
        group = cast(BaseExceptionGroup[BaseException], error)
        found = [refusal_of(inner) for inner in group.exceptions]
        return found[0] if all(found) else None
    return None


def words_of(error: BaseException) -> str:
    """Return the message of an error as text that can be stored, whatever is in it."""
    try:
        return str(error).encode(errors="replace").decode()
    except Exception:
        return "its message cannot be read"


def check_key(key: object) -> None:
    if not isinstance(key, str) or not 0 < len(key) <= _MAX_KEY or any("\ud800" <= letter <= "\udfff" for letter in key):
        raise HarnessMisuse(f"once: expected a key of 1 to {_MAX_KEY} characters, was {key!r:.300}")


def check_function(key: str, function: object) -> None:
    if not callable(function):
        if isinstance(function, Coroutine):
            function.close()  # nobody will await it
        raise HarnessMisuse(
            f"effect {key!r}: expected a function, and its arguments after it, was {function!r:.200}; "
            "pass it without calling it: once(key, function, argument)"
        )


def check_timeout(key: str, timeout_s: object) -> None:
    if timeout_s is not None and not (isinstance(timeout_s, int | float) and timeout_s >= 0):
        raise HarnessMisuse(f"effect {key!r}: timeout_s: expected a number of seconds from 0 up, was {timeout_s!r}")


def bound_of(function: object) -> dict[str, Any]:
    """Return what a `functools.partial` brings along: its arguments and keywords; nothing for any other function."""
    bound: dict[str, Any] = {}
    while isinstance(function, partial):
        bound = {
            "bound": [*function.args, *bound.get("bound", ())],
            "keywords": {**function.keywords, **bound.get("keywords", {})},
        }
        function = function.func
    return {name: value for name, value in bound.items() if value}
