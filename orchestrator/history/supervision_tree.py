"""The supervisors of a store as they are recorded: strategy, limit of restarts, harnesses, and the restarts that count now.

Programs of earlier versions have recorded none; their harnesses are then below no supervisor.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Protocol, runtime_checkable

from attrs import define, field, frozen

from orchestrator.codec import decode


@runtime_checkable
class SupervisionReader(Protocol):
    """A reader of what is recorded about supervisors."""

    def last_seq(self) -> int:
        """Return the `seq` of the newest record."""
        ...

    def supervision(self, *, after: int = 0) -> Collection[tuple[int, str, str, str]]:
        """Return the records of supervisors and of starts with `seq > after`: `seq`, harness, supervisor's path, and body."""
        ...

    def restarts(self) -> Mapping[str, Collection[float]]:
        """Return the wall times of the restarts that each harness counts."""
        ...


@frozen
class SupervisorView:
    """A supervisor."""

    path: str
    """Names from the level below the root on, with `/` between."""
    strategy: str
    intensity: int
    """Restarts allowed within `period_s`."""
    period_s: float
    restart: str
    harnesses: tuple[str, ...]
    """Directly below it, by name."""
    restarts: int
    """Those within `period_s` up to now."""

    @property
    def fields(self) -> dict[str, Any]:
        """It as JSON has it."""
        return {
            "supervisor": self.path,
            "parent": self.path.rpartition("/")[0] or None,
            "strategy": self.strategy,
            "intensity": self.intensity,
            "period_s": self.period_s,
            "restart": self.restart,
            "harnesses": len(self.harnesses),
            "restarts": self.restarts,
        }

    @property
    def limits(self) -> str:
        """Its strategy and restarts, for people."""
        return f"{self.strategy}, {self.restarts} of {self.intensity} restarts in {self.period_s:g} s"


@define(eq=False)
class SupervisionTree:
    """Reads the supervisors of a store, and on the next call only what is new."""

    _reader: SupervisionReader
    _after: int = 0
    _specs: dict[str, dict[str, Any]] = field(factory=dict[str, dict[str, Any]])
    _above: dict[str, str] = field(factory=dict[str, str])
    _lock: threading.Lock = field(factory=threading.Lock)

    def above(self) -> Mapping[str, str]:
        """Return the path of the supervisor of each harness that has been started; empty for the root."""
        with self._lock:
            last = self._reader.last_seq()
            new = self._reader.supervision(after=self._after)
            if new:
                # New ones, since others may be reading those so far.
                self._above = self._above | {harness: path for _, harness, path, _ in new if harness}
                self._specs = self._specs | {path: decode(body) for _, harness, path, body in new if not harness}
            self._after = last
            return self._above

    def supervisors(self, now: float) -> list[SupervisorView]:
        """Return every supervisor that has harnesses, or one below it that has, parents first.

        Args:
            now: wall time, seconds since 1970.
        """
        below: dict[str, list[str]] = {}
        for harness, path in self.above().items():
            below.setdefault(path, []).append(harness)
        used = {part for path in below for part in _line(path)}
        restarts: Mapping[str, Collection[float]] = self._reader.restarts() if used else {}
        return [_view(path, self._specs.get(path, {}), below.get(path, ()), restarts, now) for path in sorted(used)]


def _view(
    path: str, spec: Mapping[str, Any], harnesses: Iterable[str], restarts: Mapping[str, Collection[float]], now: float
) -> SupervisorView:
    names, period_s = tuple(sorted(harnesses)), float(spec.get("period_s", 60.0))
    # Siblings that were restarted together have the same times.
    counted = {round(time, 3) for name in names for time in restarts.get(name, ()) if now - period_s < time <= now}
    said = (str(spec.get("strategy", "one_for_one")), int(spec.get("intensity", 5)))
    return SupervisorView(path, *said, period_s, str(spec.get("restart", "transient")), names, len(counted))


def _line(path: str) -> Iterable[str]:
    """Yield a path, and those of the supervisors above it."""
    while path:
        yield path
        path = path.rpartition("/")[0]
