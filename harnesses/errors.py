"""Errors raised inside a harness. The class says whose fault it is; `orchestrator.errors` draws the whole tree."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import ClassVar


class OrchestratorError(Exception):
    """Base class of every error that this project raises deliberately."""

    is_explained: ClassVar[bool] = True
    """Whether the message says what is wrong and what to do; of an error where it does not, the traceback is shown."""


class UsageError(OrchestratorError):
    """The caller asked for something invalid: a name, a file, an option."""


class UnknownHarness(UsageError):
    """No harness has that name: in the store, or in the program when it runs alone."""


class HarnessError(OrchestratorError):
    """A harness broke a rule of the programming model. Its author can fix it."""


class NoRestart(HarnessError):
    """An error that a restart cannot fix: the harness fails at once, whatever its `restart` policy."""


class HarnessMisuse(NoRestart):
    """A method was called at a time, or with a value, that the programming model does not allow."""


class StateError(NoRestart):
    """The function given to `update_state` returned no valid state."""


class Unstorable(NoRestart):
    """A state, an input or an output contains a value that cannot be stored and read back."""


class RecordTooLarge(Unstorable):
    """A value exceeds `max_record_bytes`, the limit of one record. None of it was written."""


class ScopeError(HarnessError):
    """`execute()` left a Trio cancel scope or nursery in a condition from which the loop cannot continue."""


class StepTimeout(HarnessError):
    """A step took longer than the harness's `step_timeout_s`."""


class DeadlineExceeded(HarnessError):
    """A harness, or the whole run, took longer than its `deadline_s`."""


class MailboxFull(HarnessError):
    """The mailbox holds as many messages as its limit allows. Nothing was sent."""


class AskTimeout(HarnessError):
    """No reply arrived in time. The request may still be handled; its reply is then dropped."""


class Refused(HarnessError):
    """An effect was refused: it has certainly not happened. Raise it, or a subclass, in an effect.

    After any other error it is unknown whether the effect has happened.
    """


class EffectFailed(HarnessError):
    """An effect with `errors="keep"` has raised or timed out: that is its recorded result, raised each time it is asked for.

    Args:
        reason: the recorded text of what it raised, without secrets.
    """

    def __init__(self, message: str, *, reason: str = "") -> None:
        super().__init__(message)
        self.reason = reason


class EffectInterrupted(EffectFailed):
    """An effect with `errors="keep"` was cut off: it may have happened. It is not tried again."""


class Waiting(HarnessError):
    """A harness cannot continue until a person acts. Do not catch it: the outcome is then "blocked", not a crash."""


class NotReady(Waiting):
    """A program or package that the harness needs is not installed. The harness is blocked until a person installs it."""


class UnknownOutcome(Waiting):
    """It is unknown whether an effect has happened, and reconciliation found no answer. The effect is not retried blindly."""


class Latched(Waiting):
    """The kill switch is on: no effect may start."""


class ApprovalDenied(Refused):
    """A person denied an action. It is not done, and not requested again in its step.

    Catch it to continue without the action. A harness that does not is blocked until a person reopens the request and starts
    the harness again.
    """


class ApprovalExpired(Waiting):
    """An approval was not given in time, or not used in time. When started again, the harness requests a new one."""


class ApprovalInvalid(Waiting):
    """The stored approval is malformed or not genuine. The action is not done."""


class BudgetExhausted(HarnessError):
    """A budget does not allow a spend. Nothing was spent. Do not catch it: the outcome is then "budget spent", not a crash."""


class Stopping(BaseException):
    """Unwinds `execute()` out of one of the harness's own waits (`sleep`, `every`, `receive`) when the harness is stopped.

    Not an `Exception`, so that `except Exception` in a harness does not catch it. Clean-up code on the way may await, within
    the grace period.
    """


_OURS: tuple[type[HarnessError], ...] = (
    HarnessError,
    NoRestart,
    HarnessMisuse,
    MailboxFull,
    AskTimeout,
    StateError,
    Unstorable,
    RecordTooLarge,
    ScopeError,
    StepTimeout,
    DeadlineExceeded,
    Waiting,
    NotReady,
    UnknownOutcome,
    Latched,
    ApprovalDenied,
    ApprovalExpired,
    ApprovalInvalid,
    BudgetExhausted,
)


_SUBJECT = re.compile(r"harness '[^']*'(?:, step \d+)?(?=: )")
_PLACE = re.compile(r"\([^()]*:\d+\)")
"""A line of code, in a message."""
_LOOKED_AT = 4_000
"""Characters of a message."""


_WITHOUT_LINE = (Waiting, BudgetExhausted, StepTimeout, DeadlineExceeded)
"""Errors that are not about a line of the author's code."""


def located(error: BaseException, where: str, line: str = "") -> BaseException:
    """Return one of this project's errors with its harness and step in the message; any other error unchanged.

    Args:
        line: of the author's code, `file:line`; added unless the message names a line, or the error is not about one.
    """
    text = str(error) if type(error) in _OURS else ""
    if issubclass(type(error), _WITHOUT_LINE) and type(error) is not NotReady:
        line = ""
    subject = _SUBJECT.match(text)
    if not text or (text.startswith("harness ") and (subject is None or not line or has_place(text))):
        return error
    at = f" ({line})" if line and not has_place(text) else ""
    text = f"{where}{at}: {text}" if subject is None else f"{subject[0]}{at}{text[subject.end() :]}"
    named = type(error)(text)
    named.__cause__, named.__traceback__ = error.__cause__, error.__traceback__
    return named


def has_place(text: str) -> bool:
    """Return whether a message names a line of code, as `(file.py:41)`."""
    return _PLACE.search(text[:_LOOKED_AT]) is not None


def one_of(names: Iterable[object], none: str) -> str:
    """Return `expected one of` with these names.

    Args:
        none: the text if there are no names: what is wrong, and what to do.
    """
    known = ", ".join(map(str, names))
    return f"expected one of {known}" if known else none


def near(word: object, known: Iterable[str], synonyms: Mapping[str, str] | None = None) -> str:
    """Return `; did you mean …?` with the most similar known word, as the end of a message; empty if none is similar."""
    found = nearest(word, known, synonyms)
    return "" if found is None else f"; did you mean {found!r}?"


def nearest(word: object, known: Iterable[str], synonyms: Mapping[str, str] | None = None) -> str | None:
    """Return the most similar known word, whatever its case and its hyphens; None if none is similar.

    Args:
        synonyms: known words by others that are not like them, in lower case and with `_`.
    """
    from difflib import get_close_matches

    plain, words = _plain(str(word)[:100]), {_plain(one): one for one in known}
    if synonyms and plain in synonyms:
        return synonyms[plain]
    found = get_close_matches(plain, [*words], 1)
    return words[found[0]] if found else None


def _plain(word: str) -> str:
    return word.lower().replace("-", "_").replace(" ", "_")
