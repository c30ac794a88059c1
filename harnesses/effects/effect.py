"""Effects, the acts on the world that must not happen twice: their status and their journal format. Pure.

    intent     {"key", "arguments", "idempotent"?, "keep"?}           `Entry.intent`
    outcome    {"key", "outcome", "result"?, "reason"?, "by"?}        `Entry.concluded`, `operator_outcome`

All code that reads or writes the journal uses this module.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Iterable
from enum import StrEnum
from functools import partial
from typing import Any, Literal, Protocol, TypeAlias, cast

import msgspec
from attrs import define, fields, frozen

from harnesses.data.large_values import FILE, ReadFile, StoredText, as_stored_file, cannot_read
from harnesses.data.record_size import check_not_marked
from harnesses.data.values import detach, explain
from harnesses.effects.approval import Action, Grant
from harnesses.effects.same_arguments import is_same
from harnesses.errors import (
    EffectFailed,
    EffectInterrupted,
    HarnessMisuse,
    RecordTooLarge,
    Refused,
    UnknownOutcome,
    Unstorable,
)


class EffectOutcome(StrEnum):
    """Status of an effect."""

    BEGUN = "begun"
    """The intent is stored without an outcome: it is in progress, or was cut off by a crash."""
    CONFIRMED = "confirmed"
    """It has happened."""
    REFUSED = "refused"
    """It was refused: it has not happened, and is not tried again."""
    UNKNOWN = "unknown"
    """It may have happened."""
    NOT_DONE = "not_done"
    """It has not happened, and may be tried again."""
    FAILED = "failed"
    """With `errors="keep"`: it raised or timed out, which is its result. It may have happened, and is not tried again."""
    INTERRUPTED = "interrupted"
    """With `errors="keep"`: it was cut off. It may have happened, and is not tried again."""


OPEN = (EffectOutcome.BEGUN, EffectOutcome.UNKNOWN)
"""Statuses that must be settled before the step can be recorded, unless the effect is idempotent or kept."""
CUT_OFF = "it was cut off: its program ended before the outcome was known"
"""What is said of an effect without an outcome whose program is gone."""
KEPT = (EffectOutcome.FAILED, EffectOutcome.INTERRUPTED)
"""Errors that are results: they are raised again each time the effect is asked for."""
Errors: TypeAlias = Literal["raise", "keep"]
"""What becomes of an effect that raises or times out: its outcome is unknown, or the error is its recorded result."""


@frozen(eq=False)
class Effect:
    """The stored status of one effect of the step in progress."""

    key: str
    """Its identity within the step, with the scope of its agent."""
    arguments: Any
    """Positional arguments as a list of plain data."""
    outcome: EffectOutcome
    """What is known of it."""
    result: Any = None
    """Result as plain data; None unless it is confirmed."""
    reason: str = ""
    """Why it was refused, what it raised, or why its outcome is unknown."""
    idempotent: bool = False
    """Whether repeating it is harmless."""
    keep: bool = False
    """Whether a call of it that is cut off is a result, which blocks nothing."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Effect) and all(
            getattr(self, each.name) == getattr(other, each.name) for each in fields(Effect)
        )

    __hash__ = None  # type: ignore[assignment]


@frozen
class Confirmed:
    """Answer of a `reconcile`: the effect has happened, with this as the function's return value."""

    result: Any = None
    """The return value, as the function would have returned it."""


@frozen
class NotDone:
    """Answer of a `reconcile`: the effect has not happened, and no earlier request can still make it happen."""


@frozen
class Undecided:
    """Answer of a `reconcile`: the outcome is still unknown."""

    reason: str = ""
    """Why it is unknown, for the operator."""


Answer: TypeAlias = Confirmed | NotDone | Undecided
Reconcile: TypeAlias = Callable[..., Answer | Awaitable[Answer]]


class Journal(Protocol):
    """Stores intents and outcomes, and may forbid an effect."""

    async def note(self, kind: str, body: str) -> StoredText | None:
        """Store an `intent` or `outcome` and wait until it is on disk. Never raises `Cancelled`.

        Returns:
            Where the result is read from, if it is so large that it was put into a file; else None.
        """
        ...

    def note_soon(self, kind: str, body: str) -> None:
        """Store an `intent` or `outcome` without waiting."""
        ...

    async def redact(self, text: str) -> str:
        """Return a result, as JSON, without secrets, if they are kept out of what is stored. Never raises `Cancelled`."""
        ...

    async def approve(self, key: str, action: Action) -> Grant:
        """Wait for human approval of an action of the step in progress; the approval is marked as used.

        Raises:
            ApprovalDenied, ApprovalExpired, ApprovalInvalid: the action may not be done.
            Stopping: the harness is being stopped. The request stays open for the next start.
        """
        ...

    def check_latch(self) -> None:
        """Check that the kill switch allows an effect to start.

        Raises:
            Latched: the kill switch is on.
        """
        ...


MAX_REASON = 2000
WAY_OUT = "find out, and say so with `orchestrator effects settle`"
MAX_KEY = 200
"""Characters of a key."""
_encode = msgspec.json.Encoder().encode
_encode_arguments = msgspec.json.Encoder(order="deterministic").encode
"""Encoder with a deterministic order, since arguments are compared across processes and sets iterate differently in each."""
_decode = msgspec.json.Decoder().decode


@define
class Entry:
    """One effect of the step in progress."""

    key: str
    arguments: str
    outcome: EffectOutcome = EffectOutcome.BEGUN
    result: str | StoredText | None = None
    """Its JSON; or the file that has it, so that large results are not kept in memory."""
    reason: str = ""
    idempotent: bool = False
    keep: bool = False
    in_memory: bool = False
    """Whether what it changes ends with the program; see `Effects.noted`."""
    settled_by: str = ""
    """`operator` if a person settled it; else empty."""
    busy: bool = False
    """Whether a call of `once` is working on it."""
    journal: Journal | None = None
    """Where that call notes what becomes of it."""
    seen: RecordedEffect | None = None

    @property
    def is_open(self) -> bool:
        """Whether a person, or `reconcile`, has to say what became of it."""
        return self.outcome in OPEN and not self.idempotent and not self.keep

    @property
    def result_text(self) -> str | None:
        """JSON of the result; read from its file if it is in one."""
        return self.result.read() if isinstance(self.result, StoredText) else self.result

    @property
    def effect(self) -> Effect:
        """The read-only view that a harness gets. Nothing is decoded before it is looked at."""
        seen = self.seen
        if seen is None or (seen.outcome, seen.idempotent) != (self.outcome, self.idempotent):
            seen = self.seen = RecordedEffect(self)
        return seen

    def intent(self) -> str:
        """Mark the effect as begun; return the body of its intent record."""
        self.outcome, self.result, self.reason, self.seen = EffectOutcome.BEGUN, None, "", None
        return self.intent_text()

    def intent_text(self) -> str:
        """Return the body of its intent record."""
        flags = (',"idempotent":true' if self.idempotent else "") + (',"keep":true' if self.keep else "")
        return f'{{"key":{_json(self.key)},"arguments":{self.arguments}{flags}}}'

    def restore(self, outcome: EffectOutcome, result: str | StoredText | None, reason: str) -> None:
        """Undo `intent`, since its record was refused."""
        self.outcome, self.result, self.reason, self.seen = outcome, result, reason, None

    def concluded(self, outcome: EffectOutcome, reason: str = "", result: str | None = None) -> str:
        """Set the outcome; return the body of its outcome record."""
        self.outcome, self.reason, self.result, self.seen = outcome, reason, result, None
        said = f',"result":{result}' if result is not None else ""
        because = f',"reason":{_json(reason)}' if reason else ""
        return f'{{"key":{_json(self.key)},"outcome":"{outcome.value}"{said}{because}}}'

    def check_unchanged(self, args: tuple[Any, ...]) -> None:
        """Check that the arguments are still those that were approved.

        Raises:
            HarnessMisuse: a mutable argument was changed while the approval was pending.
        """
        now = arguments_of(self.key, args)
        if now != self.arguments:
            raise HarnessMisuse(
                f"effect {self.key!r}: its arguments were changed after they were approved: expected {self.arguments:.200}, "
                f"got {now:.200}; pass values that are not mutated"
            )

    def check_same(self, arguments: str, args: tuple[Any, ...]) -> None:
        """Check that an effect is resumed with the same arguments. One that was not done may have others.

        Raises:
            HarnessMisuse: it is in progress; or it has ended and had other arguments.
            UnknownOutcome: it had other arguments, and its outcome is unknown.
        """
        if self.busy:
            raise HarnessMisuse(
                f"effect {self.key!r} is under way: expected one call at a time, got a second; give each a key of its own"
            )
        if is_same(self.arguments, arguments, args):
            return
        if self.outcome is EffectOutcome.NOT_DONE:
            self.arguments, self.seen = arguments, None
            return
        problem = (
            f"effect {self.key!r} was begun in this step with other arguments: expected {self.arguments:.200}, "
            f"got {arguments:.200}; derive arguments from the state, or give each effect a key of its own"
        )
        if self.is_open:
            raise UnknownOutcome(f"{problem}; the outcome of the first is unknown: {WAY_OUT}")
        raise HarnessMisuse(problem)

    def kept_error(self) -> EffectFailed:
        """Return the error for a kept outcome."""
        if self.outcome is EffectOutcome.INTERRUPTED:
            return EffectInterrupted(
                f"effect {self.key!r} was interrupted ({self.reason}): it may have happened, and is not tried again",
                reason=self.reason,
            )
        return EffectFailed(f"effect {self.key!r} has failed: {self.reason}", reason=self.reason)


class RecordedEffect(Effect):
    """An effect whose arguments and result are decoded when they are looked at; those in memory only once."""

    def __init__(self, entry: Entry) -> None:
        for name in ("key", "outcome", "reason", "idempotent", "keep"):
            object.__setattr__(self, name, getattr(entry, name))
        object.__setattr__(self, "_texts", {"arguments": entry.arguments, "result": entry.result})

    def __getattr__(self, name: str) -> Any:
        texts: dict[str, str | StoredText | None] = object.__getattribute__(self, "_texts")
        if name not in texts:
            raise AttributeError(name)
        text = texts[name]
        if isinstance(text, StoredText):
            return _decode(text.read())
        value = None if text is None else _decode(text)
        object.__setattr__(self, name, value)
        return value


def entries_of(marks: Iterable[tuple[str, str]], read: ReadFile = cannot_read) -> dict[str, Entry]:
    """Build the effects from their intent and outcome records, by key.

    Args:
        marks: kind (`intent` or `outcome`) and body of each record, oldest first.
        read: reads a large result from its file.
    """
    entries: dict[str, Entry] = {}
    for kind, body in marks:
        try:
            take_in(entries, kind, body, read)
        except KeyError:
            # An effect of an agent in the background that was not done in the end: its intent is in the step before.
            if kind == "intent":
                raise
    return entries


def take_in(entries: dict[str, Entry], kind: str, body: str, read: ReadFile = cannot_read) -> Entry:
    """Apply the next record of the effects of a step; return the effect it belongs to."""
    fields: dict[str, Any] = _decode(body)
    key: str = fields["key"]
    if kind == "intent":
        arguments = str(_encode(fields["arguments"]), "utf-8")
        flags = {name: fields.get(name, False) for name in ("idempotent", "keep")}
        entries[key] = Entry(key, arguments, **flags)
    else:
        result = str(_encode(fields["result"]), "utf-8") if "result" in fields else None
        entries[key].concluded(EffectOutcome(fields["outcome"]), fields.get("reason", ""), result)
        entries[key].settled_by = fields.get("by", "")
        if FILE in fields:
            entries[key].result = StoredText(as_stored_file(fields[FILE], kind), read)
    return entries[key]


def operator_outcome(key: str, *, result: str | None, reason: str) -> str:
    """Return the body of the outcome record of an operator's decision: done with a result, or not done.

    Args:
        result: JSON; None if the effect has not happened.

    Raises:
        msgspec.DecodeError, UnicodeError: the result is not JSON.
    """
    outcome = EffectOutcome.NOT_DONE if result is None else EffectOutcome.CONFIRMED
    said = {"key": key, "outcome": outcome.value} | ({} if result is None else {"result": _decode(result)})
    return str(_encode({**said, "reason": reason, "by": "operator"}), "utf-8")


def arguments_of(key: str, args: tuple[Any, ...]) -> str:
    """Encode arguments as they are stored and compared.

    Raises:
        Unstorable: names the path to the value that cannot be stored.
    """
    return text_of(args, f"effect {key!r}: its arguments cannot be stored", _encode_arguments)


def text_of(value: Any, problem: str, encode: Callable[[Any], bytes] = _encode) -> str:
    """Encode a value as JSON that can be read back."""
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
    """Return the refusal in an error; for a group of refusals only, its first one; otherwise None."""
    if isinstance(error, Refused):
        return error
    if isinstance(error, BaseExceptionGroup):
        group = cast(BaseExceptionGroup[BaseException], error)
        found = [refusal_of(inner) for inner in group.exceptions]
        return found[0] if all(found) else None
    return None


def words_of(error: BaseException) -> str:
    """Return the message of an error as storable text, whatever characters it contains."""
    try:
        return str(error).encode(errors="replace").decode()
    except Exception:
        return "its message cannot be read"


def check_key(key: object) -> None:
    if not isinstance(key, str) or not 0 < len(key) <= MAX_KEY or any("\ud800" <= letter <= "\udfff" for letter in key):
        raise HarnessMisuse(f"once: expected a key of 1 to {MAX_KEY} characters, got {key!r:.300}")


def check_function(key: str, function: object) -> None:
    if not callable(function):
        if isinstance(function, Coroutine):
            function.close()  # The coroutine will not be awaited.
        raise HarnessMisuse(
            f"effect {key!r}: expected a function, and its arguments after it, got {function!r:.200}; "
            "pass it without calling it: once(key, function, argument)"
        )


def check_errors(key: str, errors: object) -> None:
    if errors not in ("raise", "keep"):
        raise HarnessMisuse(f"effect {key!r}: errors: expected 'raise' or 'keep', got {errors!r:.100}")


def check_timeout(key: str, timeout_s: object) -> None:
    if timeout_s is not None and not (isinstance(timeout_s, int | float) and timeout_s >= 0):
        raise HarnessMisuse(f"effect {key!r}: timeout_s: expected a number of seconds from 0 up, got {timeout_s!r}")


def bound_of(function: object) -> dict[str, Any]:
    """Return the bound arguments and keywords of a `functools.partial`; empty for any other function."""
    bound: dict[str, Any] = {}
    while isinstance(function, partial):
        bound = {
            "bound": [*function.args, *bound.get("bound", ())],
            "keywords": {**function.keywords, **bound.get("keywords", {})},
        }
        function = function.func
    return {name: value for name, value in bound.items() if value}
