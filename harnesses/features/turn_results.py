"""The results of asking an agent and a validator, as values that can be recorded. No I/O.

Invariant: an error is a result like any other; so a result is on disk as soon as it exists, and a program killed after that
does not ask and pay again. Errors meant for the harness itself are not results; they are raised.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from hashlib import sha256
from math import isfinite
from typing import Any, TypeAlias, TypeVar, cast

from attrs import frozen

from harnesses.budgets.usage import Usage
from harnesses.effects.effect import OPEN, Effect, EffectOutcome
from harnesses.errors import BudgetExhausted, HarnessMisuse, Waiting
from harnesses.features.agent_text import is_storable, kept_part, storable
from harnesses.features.feature import TurnResult, Verdict
from harnesses.features.feature_record import MAX_PATH

WORK, JUDGE = "work", "judge"
_LONG = 100
"""Maximum characters of an id in the key of an effect; a key has at most 200."""


NounT = TypeVar("NounT", TurnResult, Verdict)
_Field: TypeAlias = tuple[str, Callable[[Any], bool], Callable[[Any], Any]]
"""A description of the expected value, a check for it, and how it is stored."""


@frozen(kw_only=True)
class Worked:
    """The result of asking the agent: a result, or why there is none."""

    result: TurnResult | None = None
    error: str = ""
    """The agent's error."""
    session: str | None = None
    """The conversation in which it failed, if the error names it."""
    cut_off: str = ""
    """Why it was interrupted."""
    duration_s: float = 0.0
    diff: str = ""
    """What the work changed, for people; empty without a repository."""


@frozen(kw_only=True)
class Judged:
    """The result of asking the validator: a verdict, or its error."""

    verdict: Verdict | None = None
    error: str = ""
    duration_s: float = 0.0


@frozen
class Try:
    """A try that is recorded as an effect of the step being made."""

    feature_id: str
    turn: int
    done: bool
    """Whether the agent has finished; otherwise it was interrupted."""


def effect_key(verb: str, feature_id: str, number: int) -> str:
    """Return the key of the effect of working on, or validating, a feature."""
    if len(feature_id) > _LONG:
        feature_id = f"{feature_id[:_LONG]}…{sha256(feature_id.encode(errors='backslashreplace')).hexdigest()[:12]}"
    return f"{verb} {feature_id} {number}"


def find_try(effects: tuple[Effect, ...]) -> Try | None:
    """Return the try that an earlier attempt at this step has begun; None if there is none.

    An interrupted try that recorded effects of its own counts as done: it is resumed, so that no effect is repeated.
    """
    for place, begun in enumerate(effects, 1):
        if begun.key.startswith(f"{WORK} ") and begun.outcome in (*OPEN, EffectOutcome.CONFIRMED):
            feature_id, turn = begun.arguments
            return Try(feature_id, turn, begun.outcome is EffectOutcome.CONFIRMED or len(effects) > place)
    return None


def check_result(result: object) -> TurnResult:
    """Return an agent's result in the form in which it can be stored.

    Raises:
        HarnessMisuse: it is not a `TurnResult`, or one of its fields has the wrong type.
    """
    return _check(result, TurnResult, _RESULT, "the agent")


def check_verdict(verdict: object, who: str = "the validator") -> Verdict:
    """Return a validator's verdict in the form in which it can be stored.

    Raises:
        HarnessMisuse: it is not a `Verdict`, or one of its fields has the wrong type.
    """
    return _check(verdict, Verdict, _VERDICT, who)


def _check(given: object, noun: type[NounT], fields: Mapping[str, _Field], who: str) -> NounT:
    """Return a plain `noun`; a subclass may hold values that cannot be stored or read back."""
    if not isinstance(given, noun):
        name = noun.__name__
        raise HarnessMisuse(f"{who} returned {given!r:.200}: expected a {name}; have its function return one")
    kept: dict[str, Any] = {}
    for name, (expected, fits, keep) in fields.items():
        value = getattr(given, name)
        if not fits(value):
            raise HarnessMisuse(f"{who} returned an invalid {name}: expected {expected}, was {value!r:.200}; correct it")
        kept[name] = keep(value)
    return noun(**kept)


def describe_error(error: BaseException) -> str:
    """Return an error as stored text: its type and its message."""
    error = unwrap_group(error)
    try:
        said = str(error)
    except Exception:
        said = "it cannot say what it is"
    return kept_part(f"{type(error).__name__}: {said}".rstrip(": "))


def unwrap_group(error: BaseException) -> BaseException:
    """Return the single error in a nursery's exception group; a group of several unchanged."""
    while len(inside := _inside(error)) == 1:
        error = inside[0]
    return error


def as_cause(error: Exception) -> Exception:
    """Return the error to use as a cause: the single one in a group, or the error itself."""
    inner = unwrap_group(error)
    return inner if isinstance(inner, Exception) else error


def find_order(error: Exception) -> Exception | None:
    """Return the part of an error that is meant for the harness (waiting for a person, budget spent), or None."""
    if isinstance(error, ExceptionGroup):
        found = cast(ExceptionGroup[Exception], error).subgroup((Waiting, BudgetExhausted))
        return None if found is None else find_order(found.exceptions[0])
    return error if isinstance(error, Waiting | BudgetExhausted) else None


def find_session(error: BaseException) -> str | None:
    """Return the conversation in which an agent failed, if its error names it as `session`, so that it can be resumed."""
    session: object = getattr(unwrap_group(error), "session", None)
    return _whole(session) if isinstance(session, str) else None


def _inside(error: BaseException) -> tuple[BaseException, ...]:
    if not isinstance(error, BaseExceptionGroup):
        return ()
    return cast(BaseExceptionGroup[BaseException], error).exceptions


def _whole(text: str | None) -> str | None:
    """Return an identifier unchanged if it can be stored completely, otherwise None."""
    return storable(text) if is_storable(text) and len(text) <= MAX_PATH else None


_TEXT: _Field = ("a text", lambda value: isinstance(value, str), kept_part)
_NAME: _Field = ("a text or None", lambda value: isinstance(value, str | None), lambda text: text and storable(text))
_RESULT: Mapping[str, _Field] = {
    "message": _TEXT,
    "artifact": _NAME,
    "session": ("a text or None", lambda value: isinstance(value, str | None), _whole),
    "stop_reason": _TEXT,
    "tokens": (
        "a whole number of 64 bits, 0 or more",
        lambda value: isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63,
        int,
    ),
    "usage": ("a Usage or None", lambda value: value is None or type(value) is Usage, lambda usage: usage),
    "base": _NAME,
    "commit": _NAME,
    "branch": _NAME,
    "touched": (
        "texts",
        lambda value: isinstance(value, tuple) and all(isinstance(one, str) for one in cast(tuple[object, ...], value)),
        lambda texts: tuple(map(storable, texts)),
    ),
    "before": _TEXT,
    "sandbox": _TEXT,
    "confined": ("True or False", lambda value: isinstance(value, bool), bool),
}
_VERDICT: Mapping[str, _Field] = {
    "passed": ("True or False", lambda value: isinstance(value, bool), bool),
    "evidence": _TEXT,
    "validator": _TEXT,
    "commit": _NAME,
    "duration_s": (
        "a finite number",
        lambda value: isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value),
        float,
    ),
}
