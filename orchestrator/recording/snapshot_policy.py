"""When the whole state is saved beside a step, so that any state can be had soon. Pure, but for the counting.

The law: what is saved weighs at most what was recorded since the last time, a small step counted as `LEAST_OF_LARGE` at most;
so growth stays linear, whatever the state has become. And what has to be read and replayed for any state weighs at most as
much as the state, or `MOST_BYTES`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from attrs import define

from harnesses.data.delta import Delta
from harnesses.timing.interval import TickBook
from orchestrator.codec import encode_private

LEAST_STEPS = 32
"""Between two snapshots: replaying as many deltas takes about 0.1 ms."""
MOST_BYTES = 4_000_000
"""Of steps, after which a snapshot is due however few they are, unless the state is larger: reading them takes about 10 ms."""
LEAST_BYTES = 256
"""What a step counts for, however small its delta …"""
LEAST_OF_LARGE = 512
"""… and of a state of 1 MB and more. So one of up to 1 MB is at most 2,000 deltas away from a snapshot: about 10 ms."""
FAR_STEPS = 2_000
"""After as many a snapshot is due, as long as no step counts for more than that."""
UNCHANGED = 4
"""Part of that which counts for a step that has changed nothing: it is read and passed over."""


@define
class SnapshotPolicy:
    """What speaks for another snapshot, and what is kept with each step. It outlives attempts."""

    steps: int = 0
    """Since the last snapshot."""
    bytes: int = 0
    """What it takes to replay them. Of the steps of an earlier program it is not known: they count for the least."""
    snapshot_bytes: int = 0
    ticks: TickBook | None = None
    """How far its tickers have come; made when the first one begins."""
    governance: Mapping[str, Any] = MappingProxyType({})
    """What its governor has kept with the last step."""

    def __attrs_post_init__(self) -> None:
        self.bytes = max(self.bytes, self.steps * self._least)

    def snapshot(self, body: str, delta: Delta, state: Callable[[], object]) -> str | None:
        """Return the state after a step, to be saved beside it, if that is due.

        Args:
            body: of the step's record.
        """
        self.steps += 1
        weight = max(len(body), self._least)
        self.bytes += weight if delta else weight // UNCHANGED
        is_far = self.steps >= LEAST_STEPS or self.bytes >= MOST_BYTES
        if not is_far or self.bytes < self.snapshot_bytes:
            return None
        text = encode_private(state())
        self.steps, self.bytes, self.snapshot_bytes = 0, 0, len(text)
        return text

    def miss(self) -> None:
        """Have the next step saved with its state: the one that was to be is not recorded."""
        self.steps, self.bytes = LEAST_STEPS, self.snapshot_bytes

    @property
    def _least(self) -> int:
        """What a step of a state of this size counts for at least."""
        return max(LEAST_BYTES, min(self.snapshot_bytes // FAR_STEPS, LEAST_OF_LARGE))
