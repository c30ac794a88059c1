"""From intents and outcomes, as they were written down, to what is known of each effect. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from harnesses.effects import EffectOutcome
from orchestrator.codec import decode
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
    found: dict[tuple[int, str], tuple[Mark, dict[str, Any], dict[str, Any]]] = {}
    for mark in marks:
        body = decode(mark.body)
        place = mark.step, body["key"]
        found[place] = (mark, body, {}) if mark.kind == "intent" else (*found[place][:2], body)
    for (step, key), (intent, begun, ended) in found.items():
        yield EffectRecord(
            harness=harness,
            step_number=step,
            key=key,
            attempt=intent.attempt,
            seq=intent.seq,
            time_us=intent.time_us,
            outcome=EffectOutcome(ended.get("outcome", "begun")),
            arguments=begun["arguments"],
            result=ended.get("result"),
            reason=ended.get("reason", ""),
            idempotent=begun.get("idempotent", False),
            settled_by=ended.get("by", ""),
        )
