"""The status of effects, derived from their intents and outcomes, and how a person may settle them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from attrs import asdict
from msgspec import DecodeError

from harnesses.data.large_values import StoredText
from harnesses.effects.effect import OPEN, EffectOutcome, Entry, entries_of, operator_outcome, take_in
from harnesses.errors import one_of
from orchestrator.errors import StoreCorrupt, UnknownHarness, UsageError
from orchestrator.records import EffectRecord
from orchestrator.store.store_protocol import Settle


class Mark(NamedTuple):
    """An intent or an outcome on record."""

    seq: int
    attempt: int
    step: int
    time_us: int
    kind: str
    body: str


def effects_of(harness: str, marks: Iterable[Mark]) -> Iterator[EffectRecord]:
    """Yield the effects of one harness, each with its last intent and the outcome after it.

    An outcome without its intent is skipped; the chain reports the deletion.

    Args:
        marks: in order of `seq`.

    Raises:
        StoreCorrupt: a record cannot be read.
    """
    steps: dict[int, dict[str, Entry]] = {}
    intents: dict[tuple[int, str], Mark] = {}
    for mark in marks:
        try:
            entry = take_in(steps.setdefault(mark.step, {}), mark.kind, mark.body)
        except KeyError:
            continue
        except (DecodeError, TypeError, AttributeError, ValueError) as error:
            raise StoreCorrupt(
                f"harness {harness!r}, step {mark.step}: the {mark.kind} of an effect, record {mark.seq}, cannot be read: "
                f"{error}; it was changed by something else, restore the store from a copy"
            ) from error
        if mark.kind == "intent":
            intents[mark.step, entry.key] = mark
    for (step, key), intent in intents.items():
        entry = steps[step][key]
        file = entry.result.file if isinstance(entry.result, StoredText) else None
        if file is not None:
            entry.result = None
        yield EffectRecord(
            harness=harness,
            step_number=step,
            attempt=intent.attempt,
            seq=intent.seq,
            time_us=intent.time_us,
            settled_by=entry.settled_by,
            file=file,
            **asdict(entry.effect, recurse=False),
        )


def settling(settle: Settle, step: int, marks: Iterable[tuple[str, str]]) -> str:
    """Return the body of the outcome with which a person settles an effect.

    Args:
        step: the step after the harness's last one: only its effects can be open.
        marks: records of the effects of that step.

    Raises:
        UsageError: there is no such effect, its outcome is known, or the result is not JSON.
    """
    entries = entries_of(marks)
    where = f"harness {settle.name!r}, step {step}"
    if (entry := entries.get(settle.key)) is None:
        there = one_of(map(repr, entries), "no effect was begun in it")
        raise UsageError(f"{where} has no effect {settle.key!r}: {there}; see `orchestrator effects`")
    if entry.outcome not in OPEN and not _may_be_said_again(settle, entry):
        raise UsageError(
            f"{where}: effect {settle.key!r} needs no settling: expected one of unknown outcome, it is {entry.outcome.value}"
        )
    try:
        return operator_outcome(settle.key, result=settle.result if settle.done else None, reason=settle.reason)
    except (DecodeError, UnicodeError) as error:
        raise UsageError(
            f"{where}: effect {settle.key!r}: its result is not JSON: {error}; was {settle.result!r:.200}"
        ) from error


def _may_be_said_again(settle: Settle, entry: Entry) -> bool:
    """Return whether a person may correct an outcome: one given by a person before, or one whose result is missing."""
    lacks_result = entry.outcome is EffectOutcome.CONFIRMED and entry.result is None
    return entry.settled_by == "operator" or (lacks_result and settle.done)


def unknown_harness(name: str, location: str) -> UnknownHarness:
    """Return the error for a name that the store does not know."""
    return UnknownHarness(f"no harness {name!r} in {location}: start it first, or check the name")


def pruned(name: str, step: int, oldest: int) -> UsageError:
    """Return the error for a pruned step."""
    return UsageError(f"harness {name!r}: step {step} was pruned: expected a number from {oldest}, the oldest that is kept")


def underivable(name: str, step: int) -> UsageError:
    """Return the error for an existing step whose state cannot be derived, because the snapshot before it is gone."""
    return UsageError(
        f"harness {name!r}: the state after step {step} can no longer be derived, because pruning was interrupted: "
        "expected a later step; run `orchestrator prune` again"
    )
