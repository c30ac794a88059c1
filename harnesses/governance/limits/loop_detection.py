"""Whether a harness does the same again and again. Pure.

    A A A A A A     period 1: each step shows what the one before showed
    A B A B A B     period 2: … the one before that
    A B C A B C     period 3

A step shows something again if its fingerprint is that of the step 1, 2 or 3 before it. `run` steps in a row that do so, all
at the same distance, are as long as the guard's `steps` when it is tripped: with `steps = 5` at the sixth A, at the seventh of
A B A B A B A, at the eighth of A B C A B C A B. Longer loops are not seen, nor are those that count: name such fields in
`ignore`.

The law: what is held is bounded, three fingerprints and three counters, and plain data.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import field, frozen

PERIODS = 3


def _texts(items: Any) -> tuple[str | None, ...]:
    return tuple(item if isinstance(item, str) else None for item in items)[:PERIODS]


def _counts(items: Any) -> tuple[int, ...]:
    counts = tuple(item if type(item) is int else 0 for item in items)[:PERIODS]
    return counts + (0,) * (PERIODS - len(counts))


@frozen
class Loops:
    """What was seen lately."""

    recent: tuple[str | None, ...] = field(default=(), converter=_texts)
    """Fingerprints, the latest first; None for a step that has none."""
    runs: tuple[int, ...] = field(default=(), converter=_counts)
    """For each period, how many steps in a row have shown what was there so many steps before."""

    def after(self, fingerprint: str | None) -> Loops:
        """Return it after one more step."""
        runs = [
            self.runs[place] + 1
            if fingerprint is not None and place < len(self.recent) and self.recent[place] == fingerprint
            else 0
            for place in range(PERIODS)
        ]
        return Loops((fingerprint, *self.recent)[:PERIODS], runs)

    def rested(self) -> Loops:
        """Return it with nothing counted: who goes on may have as many steps again. What was seen is still known."""
        return Loops(self.recent)

    def period(self, steps: int) -> int | None:
        """Return the shortest period in which `steps` steps have shown nothing new; None if there is none."""
        return next((place + 1 for place, run in enumerate(self.runs) if run >= steps), None)

    def plain(self) -> dict[str, Any]:
        """Return it as JSON can carry it."""
        return {"recent": list(self.recent), "runs": list(self.runs)}


def loops_of(plain: Mapping[str, Any]) -> Loops:
    """Return what `Loops.plain` has made these data of."""
    return Loops(plain.get("recent", ()), plain.get("runs", ()))
