"""A moment by a clock that cannot be set. A value."""

from __future__ import annotations

from attrs import frozen


@frozen
class Ticks:
    """A moment by a clock that cannot be set; two of them can be compared if they are of one era."""

    era: str
    """One boot of a machine, as far as its processes share a clock; where that is not known, one process."""
    us: int
    """Microseconds since some moment before the era's first; where the system can tell, time asleep included."""
