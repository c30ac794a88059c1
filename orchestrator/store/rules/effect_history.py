"""From intents and outcomes, as they were written down, to what is known of each effect. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from attrs import asdict

from harnesses.effects.effect_journal import Entry, take_in
from orchestrator.records import EffectRecord


class Mark(NamedTuple):
    """An intent or an outcome on record."""

    seq: int
    attempt: int
    step: int
    time_us: int
    kind: str
    body: str


def effects_of(harness: str, marks: Iterable[Mark]) -> Iterator[EffectRecord]:
    """Yield the effects of one harness, each with its last intent and what came after it.

    Args:
        marks: in order of `seq`.
    """
    steps: dict[int, dict[str, Entry]] = {}
    intents: dict[tuple[int, str], Mark] = {}
    for mark in marks:
        entry = take_in(steps.setdefault(mark.step, {}), mark.kind, mark.body)
        if mark.kind == "intent":
            intents[mark.step, entry.key] = mark
    for (step, key), intent in intents.items():
        entry = steps[step][key]
        yield EffectRecord(
            harness=harness,
            step_number=step,
            attempt=intent.attempt,
            seq=intent.seq,
            time_us=intent.time_us,
            settled_by=entry.settled_by,
            **asdict(entry.effect, recurse=False),
        )
