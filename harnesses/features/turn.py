"""What comes of asking an agent and a validator, as values that can be put on record. Pure.

The law: an error of theirs is a result like any other; so what has been done is on disk once it is done, and a program that
was killed after that does not ask, and pay, again. Errors that are orders to the harness itself are no results: they pass.
"""

from __future__ import annotations

from hashlib import sha256
from typing import cast

from attrs import evolve, frozen

from harnesses.effects import OPEN, Effect, EffectOutcome
from harnesses.errors import BudgetExhausted, HarnessMisuse, Waiting
from harnesses.features.feature import TurnResult, Verdict
from harnesses.features.texts import last_part

WORK, JUDGE = "work", "judge"
_LONG = 100
"""Characters of an id in the key of an effect; a key has at most 200."""


@frozen(kw_only=True)
class Worked:
    """What came of asking the agent: a result, or why there is none."""

    result: TurnResult | None = None
    error: str = ""
    """What it raised."""
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


def key_of(verb: str, feature_id: str, number: int) -> str:
    """Return what the effect of working, or judging, a feature is called."""
    if len(feature_id) > _LONG:
        feature_id = f"{feature_id[:_LONG]}…{sha256(feature_id.encode(errors='backslashreplace')).hexdigest()[:12]}"
    return f"{verb} {feature_id} {number}"


def try_on_record(effects: tuple[Effect, ...]) -> Try | None:
    """Return the try that an earlier attempt at this step has begun; None if it has begun none.

    One that was cut off, and has done something that is on record by itself, counts as done: it is taken up again, so that
    what it has done is not done twice.
    """
    begun = next((effect for effect in effects if effect.key.startswith(f"{WORK} ")), None)
    if begun is None or begun.outcome not in (*OPEN, EffectOutcome.CONFIRMED):
        return None
    feature_id, turn = begun.arguments
    return Try(feature_id, turn, begun.outcome is EffectOutcome.CONFIRMED or len(effects) > 1)


def checked_result(result: object) -> TurnResult:
    """Return what an agent has handed in, as it can be stored.

    Raises:
        HarnessMisuse: it is no `TurnResult`.
    """
    if not isinstance(result, TurnResult):
        raise HarnessMisuse(f"the agent returned {result!r:.200}: expected a TurnResult; have its function return one")
    artifact = None if result.artifact is None else _encodable(result.artifact)
    return evolve(result, message=last_part(_encodable(result.message)), artifact=artifact)


def checked_verdict(verdict: object) -> Verdict:
    """Return what a validator has found, as it can be stored.

    Raises:
        HarnessMisuse: it is no `Verdict`.
    """
    if not isinstance(verdict, Verdict):
        raise HarnessMisuse(f"the validator returned {verdict!r:.200}: expected a Verdict; have `validate` return one")
    return evolve(verdict, evidence=last_part(_encodable(verdict.evidence)))


def words_of(error: BaseException) -> str:
    """Return an error as it is kept: its type, and what it says."""
    error = sole(error)
    return last_part(_encodable(f"{type(error).__name__}: {error}".rstrip(": ")))


def sole(error: BaseException) -> BaseException:
    """Return the one error that a nursery has wrapped in a group; a group of several as it is."""
    if not isinstance(error, BaseExceptionGroup):
        return error
    inside = cast(BaseExceptionGroup[BaseException], error).exceptions
    return sole(inside[0]) if len(inside) == 1 else cast(BaseException, error)


def order_in(error: Exception) -> Exception | None:
    """Return the error that is meant for the harness, not for the try: it waits for a person, or its budget is spent."""
    if isinstance(error, ExceptionGroup):
        found = cast(ExceptionGroup[Exception], error).subgroup((Waiting, BudgetExhausted))
        return None if found is None else order_in(found.exceptions[0])
    return error if isinstance(error, Waiting | BudgetExhausted) else None


def _encodable(text: str) -> str:
    """Return `text` with what UTF-8 can not say written out: an agent's text may hold it."""
    return text.encode(errors="backslashreplace").decode()
