"""The state of a feature harness in memory: only what is new in it is looked at, for a list may be long.

The law is that of `PersistentState`: the state is private. Everything in a `FeatureState` is frozen, so a part that was
private before is private still; of hundreds of features a step changes one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from harnesses.errors import Unstorable
from harnesses.features.record import FeatureState, Iteration, IterationResult
from harnesses.state import PersistentState
from harnesses.values import detach, field_values, fields_of

_parts_of = field_values(fields_of(FeatureState) or ())


class FeatureMemory(PersistentState[FeatureState, Iteration, IterationResult]):
    """A `PersistentState` that takes less time."""

    __slots__ = ()

    def update_state(self, change: Callable[[FeatureState], FeatureState], *, summary: str | None = None) -> None:
        old, new = self._state, change(self.state)
        if self._open or type(new) is not type(old) or not _stays_private(new, old):
            # What can be changed is copied there, and what can not be stored is told with the path to it.
            super().update_state(lambda _: new, summary=summary)
            return
        self._state = new
        if summary is not None:
            self._summary = summary


def _stays_private(new: FeatureState, old: FeatureState) -> bool:
    try:
        return all(map(_is_private, _parts_of(new), _parts_of(old)))
    except Unstorable:
        return False


def _is_private(new: object, old: object) -> bool:
    """Return whether a part of the state holds nothing that can be changed, given that `old` does not."""
    if new is old:
        return True
    if {type(new), type(old)} != {tuple}:
        return detach(new) is new
    parts, before = cast(tuple[object, ...], new), cast(tuple[object, ...], old)
    fresh = [part for part, known in zip(parts, before, strict=False) if part is not known]
    fresh += parts[len(before) :]
    if len(fresh) > 1:
        # The list has moved, as a window over the latest entries does.
        known_ids = set(map(id, before))
        fresh = [part for part in fresh if id(part) not in known_ids]
    return all(detach(part) is part for part in fresh)
