"""Counters over committed records, computed in their order, whoever reads them. Pure, except for its own sums.

Invariant: each record counts once, and only committed ones count.
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
"""The parts that the time of a step is divided into; see `harnesses.timing.stopwatch`."""
_MOST_US = 1 << 53


class _Body(msgspec.Struct):
    """The fields read from the body of a record; the rest is skipped, however large."""

    took_us: dict[str, int] = {}
    """Durations of a step's parts; missing in older records."""
    outcome: str = ""
    """Outcome of an effect."""
    verdict: str = ""
    """Verdict on an approval."""
    seconds: float = 0.0
    """Seconds for which the loop was blocked."""


_NOTHING = _Body()
_BODY = msgspec.json.Decoder(_Body)
_OUTCOMES = frozenset(outcome.value for outcome in EffectOutcome)
_VERDICTS = ("approved", "denied", "reopened")
_ENDS = frozenset(("failed", "completed", "finished", "stopped", "gave_up", "blocked", "budget_spent"))
_OTHER = "other"


@define
class Tally:
    """The counters of one harness."""

    steps: int = 0
    restarts: int = 0
    failures: int = 0
    last_step_us: int = 0
    """Wall time of its last step, microseconds since 1970; 0 if there is none."""
    took_us: dict[str, int] = field(factory=dict[str, int])
    """Time by part, microseconds."""
    blocked_s: float = 0.0
    """Seconds for which it was seen to block the loop."""


class Counts:
    """The counters of all harnesses.

    Args:
        run: count only the records of this run, and of others to its harnesses; empty for all records.
    """

    def __init__(self, run: str = "") -> None:
        self._run = run
        self._started: set[str] = set()
        """Harnesses that this run started: steps before that were copied by a fork."""
        self.harnesses: dict[str, Tally] = {}
        self.parts = {part: Histogram(LONG_SECONDS) for part in PARTS}
        self.effects: Counter[str] = Counter()
        """Finished effects, by outcome."""
        self.intents = 0
        self.approvals: Counter[str] = Counter()
        """`requested`, `approved`, `denied`, `reopened`, `used`."""
        self.messages = 0
        self.ends: Counter[str] = Counter()
        """Ends of attempts and harnesses, by kind of event."""

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
        # Records by others about a harness, such as an answer or a message, have no run.
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
                if not tally.steps:
                    tally.last_step_us = record.time_us
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
    """Return the fields read from a record; defaults if its body is malformed."""
    try:
        return _BODY.decode(record.body)
    except (msgspec.DecodeError, UnicodeError):
        return _NOTHING


def _one_of(known: Iterable[str], word: str) -> str:
    """Return the word if it is known, so that no untrusted text becomes a label."""
    return word if word in known else _OTHER
