"""What moves in a run, and how fast: from what the store knows now and what it knew before. Pure; time is an argument."""

from __future__ import annotations

from collections.abc import Iterable
from math import exp

from attrs import define, frozen

from orchestrator.lifecycle import ENDED, Status
from orchestrator.records import HarnessRecord
from orchestrator.text.command_hints import way_to_resume

_MEMORY_S = 3.0
"""How far back a rate looks: an exponential mean with this time constant."""


@frozen
class Row:
    """One harness, as it is shown."""

    name: str
    status: Status
    attempt: int
    step: int
    rate: float
    """Steps a second."""
    cause: str = ""
    """Why it is where it is; empty while it runs."""


@frozen
class Rest:
    """All harnesses together."""

    harnesses: int
    ended: int
    blocked: int
    """Of those that have ended, how many wait for a person."""
    steps: int
    rate: float


@define
class _Seen:
    """What was known of a harness at the last look."""

    record: HarnessRecord
    moved: float
    rate: float = 0.0
    weight: float = 0.0
    """How much of the rate has been seen: without it, a mean that begins at 0 would be too low at first."""


class Progress:
    """Compares each look at the store with the one before."""

    def __init__(self) -> None:
        self._seen: dict[str, _Seen] = {}
        self._looked: float | None = None

    def look(self, records: Iterable[HarnessRecord], now: float) -> None:
        """Take in what the store knows.

        Args:
            now: seconds, not before the last look's.
        """
        passed = 0.0 if self._looked is None else now - self._looked
        self._looked = now
        for record in records:
            seen = self._seen.get(record.name)
            if seen is None:
                self._seen[record.name] = _Seen(record, now)
                continue
            before, seen.record = seen.record, record
            if _position(before) != _position(record):
                seen.moved = now
            if passed > 0:
                rate, share = (record.current_step - before.current_step) / passed, 1 - exp(-passed / _MEMORY_S)
                seen.rate += (rate - seen.rate) * share
                seen.weight += (1 - seen.weight) * share

    def rows(self, most: int) -> list[Row]:
        """Return at most `most` harnesses: those that moved last, in the order of the store, so that none jumps about."""
        chosen = self._seen.values()
        if len(chosen) > most:
            recent = sorted(chosen, key=lambda seen: seen.moved, reverse=True)[: max(0, most)]
            kept = {seen.record.name for seen in recent}
            return [_row(seen) for name, seen in self._seen.items() if name in kept]
        return [_row(seen) for seen in chosen]

    def all(self) -> Rest:
        """Return the sums."""
        seen = self._seen.values()
        return Rest(
            harnesses=len(seen),
            ended=sum(one.record.status in ENDED for one in seen),
            blocked=sum(one.record.status is Status.BLOCKED for one in seen),
            steps=sum(one.record.current_step for one in seen),
            rate=sum(map(_rate, seen)),
        )


def _position(record: HarnessRecord) -> tuple[object, ...]:
    return record.status, record.attempt, record.current_step


def _rate(seen: _Seen) -> float:
    return 0.0 if seen.record.status in ENDED or not seen.weight else seen.rate / seen.weight


def _row(seen: _Seen) -> Row:
    record = seen.record
    running = record.status in (Status.RUNNING, Status.PAUSED)
    cause = "" if running else str(record.event.get("cause") or "")
    if record.status is Status.PAUSED:
        cause = way_to_resume(record.name)
    return Row(record.name, record.status, record.attempt, record.current_step, _rate(seen), cause)
