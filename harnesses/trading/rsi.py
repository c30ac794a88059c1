"""The relative strength index, one price at a time. Pure.

The law: the index after n prices depends on the value after n - 1 and the new change alone, so that a harness that is
resumed goes on exactly where it was.

Source: J. Welles Wilder, New Concepts in Technical Trading Systems (1978): the first averages are plain means of the first
`PERIOD` changes, each later one is (before * (PERIOD - 1) + now) / PERIOD.
"""

from __future__ import annotations

from attrs import frozen

PERIOD = 14


@frozen
class Rsi:
    """Where the index stands. A number about prices, not money: floats will do, and JSON carries them exactly."""

    changes: int = 0
    """How many changes it has seen, counted up to `PERIOD`."""
    average_gain: float = 0.0
    average_loss: float = 0.0

    def after(self, change: float) -> Rsi:
        """Return the index after the price has changed by `change`."""
        gain, loss = max(change, 0.0), max(-change, 0.0)
        if self.changes < PERIOD:
            return Rsi(self.changes + 1, self.average_gain + gain / PERIOD, self.average_loss + loss / PERIOD)
        keep = PERIOD - 1
        return Rsi(PERIOD, (self.average_gain * keep + gain) / PERIOD, (self.average_loss * keep + loss) / PERIOD)

    def after_split(self, units: float) -> Rsi:
        """Return the same index in the prices that follow a split: they are `units` times smaller."""
        return Rsi(self.changes, self.average_gain / units, self.average_loss / units)

    @property
    def value(self) -> float | None:
        """The index, 0 to 100; 50 for a price that never moved; None before `PERIOD` changes."""
        if self.changes < PERIOD:
            return None
        moved = self.average_gain + self.average_loss
        return 100.0 * self.average_gain / moved if moved else 50.0
