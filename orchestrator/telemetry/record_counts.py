"""Counting what happened: a fold over committed records, in one order, whoever reads them. Pure but for its own sums.

The law: a record counts once, and only what is on disk counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import msgspec
from attrs import define, field

from harnesses.effects.effect import EffectOutcome
from orchestrator.recording.histogram import LONG_SECONDS, Histogram
from orchestrator.records import Record

PARTS = ("work", "agent", "effects", "waiting", "commit", "held")
"""What the time of a step goes into; see `harnesses.timing.stopwatch`."""
_MOST_US = 1 << 53


class _Body(msgspec.Struct):
    """What is read of the body of a record: the rest is passed over, however large it is."""

    took_us: dict[str, int] = {}
    """Of a step; older ones have none."""
    outcome: str = ""
    """Of an effect."""
    verdict: str = ""
    """Of an approval."""
    seconds: float = 0.0
    """That the loop was blocked."""


_NOTHING = _Body()
_BODY = msgspec.json.Decoder(_Body)
_OUTCOMES = frozenset(outcome.value for outcome in EffectOutcome)
_VERDICTS = ("approved", "denied", "reopened")
_ENDS = frozenset(("failed", "completed", "finished", "stopped", "gave_up", "blocked", "budget_spent"))
_OTHER = "other"


@define
class Tally:
    """What one harness has done."""

    steps: int = 0
    restarts: int = 0
    failures: int = 0
    last_step_us: int = 0
    """Wall time of its last step, microseconds since 1970; 0 if it has made none."""
    took_us: dict[str, int] = field(factory=dict[str, int])
    """By part."""
    blocked_s: float = 0.0
    """How long it has blocked the loop, as far as that was noticed."""


class Counts:
    """What all harnesses have done.

    Args:
        run: count what this run has recorded, and what was said to its harnesses; empty for everything.
    """

    def __init__(self, run: str = "") -> None:
        self._run = run
        self._started: set[str] = set()
        """Which harnesses this run has started: what it has recorded of steps before is a fork's, and was made by others."""
        self.harnesses: dict[str, Tally] = {}
        self.parts = {part: Histogram(LONG_SECONDS) for part in PARTS}
        self.effects: Counter[str] = Counter()
        """Finished ones, by outcome."""
        self.intents = 0
        self.approvals: Counter[str] = Counter()
        """`requested`, `approved`, `denied`, `reopened`, `used`."""
        self.messages = 0
        self.ends: Counter[str] = Counter()
        """How attempts and harnesses came to an end, by kind of event."""

    def take(self, records: Iterable[Record]) -> None:
        """Count records."""
        for record in records:
            if self._counts(record):
                tally = self.harnesses.get(record.harness)
                if tally is None:
                    tally = self.harnesses[record.harness] = Tally()
                if record.kind == "step":
                    if not self._run or record.harness in self._started:
                        self._step(tally, record)
                else:
                    self._other(tally, record)

    def _counts(self, record: Record) -> bool:
        if not record.harness:
            return False
        # What others say to a harness, an answer or a message, belongs to no run.
        return not self._run or record.run == self._run or (not record.run and record.harness in self.harnesses)

    def _step(self, tally: Tally, record: Record) -> None:
        tally.steps += 1
        tally.last_step_us = record.time_us
        for part, us in _read(record).took_us.items():
            if part in self.parts and 0 <= us < _MOST_US:
                self.parts[part].observe(us / 1e6)
                tally.took_us[part] = tally.took_us.get(part, 0) + us

    def _other(self, tally: Tally, record: Record) -> None:
        match record.kind:
            case "started":
                self._started.add(record.harness)
            case "restarting":
                tally.restarts += 1
            case "intent":
                self.intents += 1
            case "outcome":
                self.effects[_one_of(_OUTCOMES, _read(record).outcome)] += 1
            case "message":
                self.messages += 1
            case "approval_requested" | "approval_used":
                self.approvals[record.kind.removeprefix("approval_")] += 1
            case "approval_answered":
                self.approvals[_one_of(_VERDICTS, _read(record).verdict)] += 1
            case "loop_blocked":
                seconds = _read(record).seconds
                tally.blocked_s += seconds if 0 <= seconds < _MOST_US else 0.0
            case kind if kind in _ENDS:
                tally.failures += kind == "failed"
                self.ends[kind] += 1
            case _:
                pass


def _read(record: Record) -> _Body:
    """Return what is read of a record; of a body that is not as expected nothing."""
    try:
        return _BODY.decode(record.body)
    except (msgspec.DecodeError, UnicodeError):
        return _NOTHING


def _one_of(known: Iterable[str], word: str) -> str:
    """Return a word that we know, so that nobody's text becomes a label."""
    return word if word in known else _OTHER
