"""Placement is even, keeps groups together, loses no harness and runs none twice."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from orchestrator.workers.placement import place


@given(sizes=st.lists(st.integers(1, 6), max_size=30), workers=st.integers(1, 9))
def test_every_harness_is_placed_once_with_its_group_and_as_evenly_as_the_groups_allow(sizes: list[int], workers: int) -> None:
    groups = [[f"{number}-{at}" for at in range(size)] for number, size in enumerate(sizes)]

    shares = place(groups, workers)

    assert sorted(name for share in shares for name in share) == sorted(name for group in groups for name in group)
    assert all(sum(set(group) <= set(share) for share in shares) == 1 for group in groups)
    assert len(shares) == min(workers, len(groups))
    if shares:
        assert max(map(len, shares)) - min(map(len, shares)) <= max(sizes)
    assert place(groups, workers) == shares
