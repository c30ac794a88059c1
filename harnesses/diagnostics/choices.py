"""What a message says was expected, where that is one of several that may be none at all."""

from __future__ import annotations

from collections.abc import Iterable


def one_of(names: Iterable[object], none: str) -> str:
    """Return `expected one of` these.

    Args:
        none: what is said instead where there are none: that, and what to do.
    """
    known = ", ".join(map(str, names))
    return f"expected one of {known}" if known else none
