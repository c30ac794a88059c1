"""What comes of asking an agent and a validator, as values that can be put on record. Pure.

The law: an error of theirs is a result like any other; so what has been done is on disk once it is done, and a program that
was killed after that does not ask, and pay, again. Errors that are orders to the harness itself are no results: they pass.
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
"""Characters of an id in the key of an effect; a key has at most 200."""


NounT = TypeVar("NounT", TurnResult, Verdict)
_Field: TypeAlias = tuple[str, Callable[[Any], bool], Callable[[Any], Any]]
"""What is expected, whether a value is that, and how it is kept."""


@frozen(kw_only=True)
class Worked:
    """What came of asking the agent: a result, or why there is none."""

    result: TurnResult | None = None
    error: str = ""
    """What it raised."""
    session: str | None = None
    """The conversation in which it raised that, if the error has named it."""
    cut_off: str = ""
    """Why it did not come to its end."""
    duration_s: float = 0.0


@frozen(kw_only=True)
class Judged:
    """What came of asking the validator: a verdict, or what it raised."""

    verdict: Verdict | None = None
    error: str = ""
    duration_s: float = 0.0


@frozen
class Try:
    """A try that is on record as an effect of the step being made."""

    feature_id: str
    turn: int
    done: bool
    """Whether the agent has come to its end; else it was cut off."""


def effect_key(verb: str, feature_id: str, number: int) -> str:
    """Return what the effect of working, or judging, a feature is called."""
    if len(feature_id) > _LONG:
        feature_id = f"{feature_id[:_LONG]}…{sha256(feature_id.encode(errors='backslashreplace')).hexdigest()[:12]}"
    return f"{verb} {feature_id} {number}"


def find_try(effects: tuple[Effect, ...]) -> Try | None:
    """Return the try that an earlier attempt at this step has begun; None if it has begun none.

    One that was cut off, and has done something that is on record by itself, counts as done: it is taken up again, so that
    what it has done is not done twice.
    """
    begun = next((effect for effect in effects if effect.key.startswith(f"{WORK} ")), None)
    if begun is None or begun.outcome not in (*OPEN, EffectOutcome.CONFIRMED):
        return None
    feature_id, turn = begun.arguments
    return Try(feature_id, turn, begun.outcome is EffectOutcome.CONFIRMED or len(effects) > 1)


def check_result(result: object) -> TurnResult:
    """Return what an agent has handed in, as it can be stored.

    Raises:
        HarnessMisuse: it is no `TurnResult`, or a field of it is not of its type.
    """
    return _check(result, TurnResult, _RESULT, "the agent")


def check_verdict(verdict: object, who: str = "the validator") -> Verdict:
    """Return what a validator has found, as it can be stored.

    Raises:
        HarnessMisuse: it is no `Verdict`, or a field of it is not of its type.
    """
    return _check(verdict, Verdict, _VERDICT, who)


def _check(given: object, noun: type[NounT], fields: Mapping[str, _Field], who: str) -> NounT:
    """Return a plain `noun`: one of a class of its own may hold what cannot be stored, or read back."""
    if not isinstance(given, noun):
        name = noun.__name__
        raise HarnessMisuse(f"{who} returned {given!r:.200}: expected a {name}; have its function return one")
    kept: dict[str, Any] = {}
    for name, (expected, fits, keep) in fields.items():
        value = getattr(given, name)
        if not fits(value):
            raise HarnessMisuse(f"{who} returned an unusable {name}: expected {expected}, was {value!r:.200}; correct it")
        kept[name] = keep(value)
    return noun(**kept)


def describe_error(error: BaseException) -> str:
    """Return an error as it is kept: its type, and what it says."""
    error = unwrap_group(error)
    try:
        said = str(error)
    except Exception:
        said = "it cannot say what it is"
    return kept_part(f"{type(error).__name__}: {said}".rstrip(": "))


def unwrap_group(error: BaseException) -> BaseException:
    """Return the one error that a nursery has wrapped in a group; a group of several as it is."""
    while len(inside := _inside(error)) == 1:
        error = inside[0]
    return error


def as_cause(error: Exception) -> Exception:
    """Return the error to name as a cause: the one in a group, if it is alone there."""
    inner = unwrap_group(error)
    return inner if isinstance(inner, Exception) else error


def find_order(error: Exception) -> Exception | None:
    """Return the error that is meant for the harness, not for the try: it waits for a person, or its budget is spent."""
    if isinstance(error, ExceptionGroup):
        found = cast(ExceptionGroup[Exception], error).subgroup((Waiting, BudgetExhausted))
        return None if found is None else find_order(found.exceptions[0])
    return error if isinstance(error, Waiting | BudgetExhausted) else None


def find_session(error: BaseException) -> str | None:
    """Return the conversation in which an agent has failed, if its error names it as `session`: it can be gone on with."""
    session: object = getattr(unwrap_group(error), "session", None)
    return _whole(session) if isinstance(session, str) else None


def _inside(error: BaseException) -> tuple[BaseException, ...]:
    if not isinstance(error, BaseExceptionGroup):
        return ()
    return cast(BaseExceptionGroup[BaseException], error).exceptions


def _whole(text: str | None) -> str | None:
    """Keep what stands for something else as it is, or not at all."""
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
