"""Which worker runs which harness. Pure.

Harnesses that share a supervisor stay together, since one process restarts them together.
"""

from __future__ import annotations

from collections.abc import Sequence


def place(groups: Sequence[Sequence[str]], workers: int) -> tuple[tuple[str, ...], ...]:
    """Return the names of the harnesses of each worker, as evenly as the groups allow; the same ones for the same groups.

    Args:
        groups: names that stay together.
        workers: how many, from 1 up; there are fewer if there are fewer groups.
    """
    shares: list[list[str]] = [[] for _ in range(min(workers, len(groups)))]
    for group in sorted(groups, key=len, reverse=True):
        min(shares, key=len).extend(group)
    return tuple(map(tuple, shares))
