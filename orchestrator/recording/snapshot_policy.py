"""When the whole state is saved beside a step, so that any earlier state can be read quickly. Pure, except for its counters.

Invariants: a snapshot is at most as large as what was recorded since the last one, where a small step counts as at most
`LEAST_OF_LARGE`; so growth is linear, however large the state becomes. Reading any state needs deltas of at most the size of
the state, or `MOST_BYTES`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from attrs import define, field

from harnesses.data.delta import Delta
from harnesses.timing.interval import TickBook
from orchestrator.codec import encode_private

LEAST_STEPS = 32
"""Minimum number of steps between two snapshots: replaying that many deltas takes about 0.1 ms."""
MOST_BYTES = 4_000_000
"""Bytes of steps after which a snapshot is due, however few they are, unless the state is larger: reading them takes 10 ms."""
LEAST_BYTES = 256
"""Minimum that a step counts for, bytes, however small its delta."""
LEAST_OF_LARGE = 512
"""The same minimum for a state of 1 MB and more. Up to 1 MB, a state is at most 2,000 deltas from a snapshot: about 10 ms."""
FAR_STEPS = 2_000
"""Number of steps after which a snapshot is due, as long as no step counts for more than the minimum."""
UNCHANGED = 4
"""Divisor of that minimum for a step without a change, which is skipped when reading."""


@define
class SnapshotPolicy:
    """Decides when a snapshot is due, and holds what is kept with each step. It outlives attempts."""

    steps: int = 0
    """Steps since the last snapshot."""
    bytes: int = 0
    """Cost of replaying them. Steps of an earlier run count with the minimum, since their size is unknown."""
    snapshot_bytes: int = 0
    ticks: TickBook | None = None
    """Progress of the harness's tickers; created when the first one begins."""
    governance: Mapping[str, Any] = MappingProxyType({})
    """What its governor kept with the last step."""

    _least: int = field(init=False)
    """Minimum that a step counts for, with a state of this size."""

    def __attrs_post_init__(self) -> None:
        self._least = _least_of(self.snapshot_bytes)
        self.bytes = max(self.bytes, self.steps * self._least)

    def snapshot(self, body: str, delta: Delta, state: Callable[[], object]) -> str | None:
        """Return the state after a step, to be saved beside it, if a snapshot is due.

        Args:
            body: body of the step's record.
        """
        self.steps += 1
        weight = len(body)
        if weight < self._least:
            weight = self._least
        self.bytes += weight if delta else weight // UNCHANGED
        is_far = self.steps >= LEAST_STEPS or self.bytes >= MOST_BYTES
        if not is_far or self.bytes < self.snapshot_bytes:
            return None
        text = encode_private(state())
        self.steps, self.bytes, self.snapshot_bytes = 0, 0, len(text)
        self._least = _least_of(len(text))
        return text

    def miss(self) -> None:
        """Make a snapshot due with the next step, because the last one was not recorded."""
        self.steps, self.bytes = LEAST_STEPS, self.snapshot_bytes


def _least_of(snapshot_bytes: int) -> int:
    return max(LEAST_BYTES, min(snapshot_bytes // FAR_STEPS, LEAST_OF_LARGE))
