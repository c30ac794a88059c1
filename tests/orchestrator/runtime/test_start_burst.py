"""A burst of starts begins in portions, gives siblings their turns, and makes objects old without freezing any."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from functools import partial
from types import SimpleNamespace

import pytest
import trio
from trio.testing import MockClock

from orchestrator import Orchestrator
from orchestrator.runtime.start_burst import _PORTION, StartBurst
from tests.orchestrator.scripted import Scripted, Steps

_MANY = 3 * _PORTION


@pytest.fixture(scope="module", autouse=True)
def _thawed() -> Iterator[None]:
    """Give the collector back what the test run keeps from it, as in a program that does not tune it."""
    frozen = gc.get_freeze_count()
    gc.unfreeze()
    yield
    if frozen:
        gc.freeze()


def burst_of(starts: int, begun: list[int], nursery: trio.Nursery) -> StartBurst:
    burst = StartBurst()
    for number in range(starts):
        burst.begin(partial(begun.append, number), nursery)
    return burst


async def test_a_few_begin_at_once() -> None:
    begun: list[int] = []
    async with trio.open_nursery() as nursery:
        burst_of(_PORTION, begun, nursery)
        assert begun == list(range(_PORTION))


async def test_a_burst_begins_in_portions_and_in_order() -> None:
    begun: list[int] = []
    sizes: list[int] = []
    async with trio.open_nursery() as nursery:
        burst_of(_MANY, begun, nursery)
        while len(begun) < _MANY:
            sizes.append(len(begun))
            await trio.lowlevel.checkpoint()
    # Two portions at most: the test may have its turn last in one pass, and first in the next.
    assert max(late - soon for soon, late in zip(sizes, [*sizes[1:], _MANY], strict=True)) <= 2 * _PORTION
    assert begun == list(range(_MANY))


async def test_all_of_a_burst_begin_if_it_is_cancelled() -> None:
    begun: list[int] = []
    async with trio.open_nursery() as nursery:
        burst_of(_MANY, begun, nursery)
        nursery.cancel_scope.cancel()
    assert begun == list(range(_MANY))


async def test_every_harness_of_a_burst_that_is_cancelled_has_an_outcome(autojump_clock: MockClock) -> None:
    async def forever(harness: Scripted) -> Steps:
        yield 1, None
        await trio.sleep_forever()

    with trio.CancelScope() as scope:
        async with Orchestrator(handle_signals=False) as orchestrator:
            for number in range(_MANY):
                orchestrator.start(Scripted(forever), name=f"h{number}")
            scope.cancel()
    assert {handle.outcome is not None for handle in orchestrator.handles} == {True}


def test_objects_are_made_old_in_a_burst_of_ends_and_not_for_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a program whose harnesses end all the time would never have its garbage collected."""
    clock = MockClock()
    monkeypatch.setattr("orchestrator.runtime.start_burst.time", SimpleNamespace(monotonic=clock.current_time))
    clock.jump(1000)
    burst = StartBurst()

    def is_made_old(ends: int) -> bool:
        new = [[object()]]
        for _ in range(ends):
            burst.has_ended()
        return any(one is new for one in gc.get_objects(generation=2))

    assert not is_made_old(_PORTION)
    assert is_made_old(1)
    for _ in range(40):
        clock.jump(1)
        burst.has_ended()
    assert not is_made_old(_PORTION)
    clock.jump(2)
    assert is_made_old(_PORTION + 1)


@pytest.mark.parametrize("collector", ["as usual", "frozen", "disabled"])
async def test_a_burst_makes_objects_old_unless_the_program_tunes_its_collector(collector: str) -> None:
    """A program that freezes objects, or has turned the collector off, decides itself what is looked at, and when."""
    marked: list[object] = [[]]
    begun: list[int] = []
    match collector:
        case "frozen":
            gc.freeze()
        case "disabled":
            gc.disable()
        case _:
            pass
    try:
        new = [marked]
        async with trio.open_nursery() as nursery:
            burst_of(_MANY, begun, nursery)
        assert any(one is new for one in gc.get_objects(generation=2)) is (collector == "as usual")
        assert bool(gc.get_freeze_count()) is (collector == "frozen")
        assert gc.isenabled() is (collector != "disabled")
    finally:
        gc.unfreeze()
        gc.enable()
