"""What a person may say of an effect, decided the same way in every store. Pure."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from harnesses.choices import one_of
from harnesses.effects import OPEN, Effect, EffectOutcome
from harnesses.once import Effects
from orchestrator.codec import decode, encode
from orchestrator.errors import UnknownHarness, UsageError
from orchestrator.store.protocol import Settle


def settling(settle: Settle, step: int, marks: Iterable[tuple[str, str]]) -> str:
    """Return the body of the outcome that a person has given.

    Args:
        step: the step after the last one of the harness: only its effects can be open.
        marks: what is on record of the effects of that step.

    Raises:
        UsageError: there is no such effect, or what became of it is known; or the result is not JSON.
    """
    marks = tuple(marks)
    effects = Effects()
    effects.restore(marks)
    known = {effect.key: effect for effect in effects.known()}
    where = f"harness {settle.name!r}, step {step}"
    if settle.key not in known:
        there = one_of(map(repr, known), "nothing was begun in it")
        raise UsageError(f"{where} has no effect {settle.key!r}: {there}; see `orchestrator effects`")
    effect = known[settle.key]
    if effect.outcome not in OPEN and not _may_be_said_again(settle, effect, marks):
        raise UsageError(
            f"{where}: effect {settle.key!r} needs no settling: expected one of unknown outcome, it is {effect.outcome.value}"
        )
    outcome = EffectOutcome.CONFIRMED if settle.done else EffectOutcome.NOT_DONE
    said: dict[str, object] = {"key": settle.key, "outcome": outcome.value}
    if settle.done:
        try:
            said["result"] = decode(settle.result)
        except (ValueError, msgspec.DecodeError) as error:
            raise UsageError(
                f"{where}: effect {settle.key!r}: its result is not JSON: {error}; was {settle.result!r:.200}"
            ) from error
    return encode({**said, "reason": settle.reason, "by": "operator"})


def _may_be_said_again(settle: Settle, effect: Effect, marks: Iterable[tuple[str, str]]) -> bool:
    """Return whether a person may correct what is on record: an earlier word of a person, or a result that is missing."""
    outcomes = [decode(body) for kind, body in marks if kind == "outcome"]
    last = [said for said in outcomes if said["key"] == effect.key][-1]
    lacks_result = effect.outcome is EffectOutcome.CONFIRMED and "result" not in last
    return last.get("by") == "operator" or (lacks_result and settle.done)


def unknown_harness(name: str, location: str) -> UnknownHarness:
    """Return the error for a name that the store does not know."""
    return UnknownHarness(f"no harness {name!r} in {location}: start it first, or check the name")


def pruned(name: str, step: int, oldest: int) -> UsageError:
    """Return the error for a step that is gone."""
    return UsageError(f"harness {name!r}: step {step} was pruned: expected a number from {oldest}, the oldest that is kept")


def underivable(name: str, step: int) -> UsageError:
    """Return the error for a step that is there, but of which the snapshot before it is gone."""
    return UsageError(
        f"harness {name!r}: the state after step {step} can not be derived any more, for pruning was cut short: "
        "expected a later step; run `orchestrator prune` again"
    )
