"""Laws that were broken once: errors that got lost, limits that did nothing, changes that were not stored."""

# mypy: ignore-errors
# ruff: noqa: B007, F841, PT017, SIM105
from __future__ import annotations

import datetime as dt
import enum
from typing import Any, NamedTuple

import attrs
import msgspec
import pytest
import trio
import trio.lowlevel
from attrs import define, evolve, field, frozen

from harnesses import (
    Agent,
    BaseHarness,
    Control,
    DeadlineExceeded,
    LocalRuntime,
    PersistentState,
    ScopeError,
    StateDelta,
    Step,
    StepTimeout,
    Unstorable,
)
from harnesses.data.delta import Baseline, apply_to_state
from harnesses.data.values import detach


class Scripted(BaseHarness[Any, Any, Any]):
    def __init__(self, script: Any, complete_at: float = float("inf"), state: Any = None) -> None:
        super().__init__(state)
        self.script, self.complete_at = script, complete_at

    def execute(self) -> Any:
        return self.script(self)

    def is_complete(self) -> bool:
        return self.current_step >= self.complete_at


def within(**limits: Any) -> LocalRuntime:
    return LocalRuntime("poller", Control(**limits))


def written(v):
    return msgspec.json.encode(v, order="sorted")


def carried(old, new):
    delta = Baseline(detach(old)).advance(detach(new))
    read = msgspec.json.decode
    return written(apply_to_state(read(msgspec.json.encode(old)), read(msgspec.json.encode(delta))))


async def test_an_error_beside_slow_clean_up_is_not_lost(autojump_clock):
    async def script(h):
        try:
            yield 1, object()
        finally:
            await trio.sleep(100)

    with pytest.raises(Unstorable):
        await Scripted(script).run()


async def test_an_error_of_is_complete_beside_slow_clean_up_is_not_lost(autojump_clock):
    async def script(h):
        try:
            yield 1, 1
        finally:
            await trio.sleep(100)

    h = Scripted(script)
    h.is_complete = lambda: 1 / 0
    with pytest.raises(ZeroDivisionError):
        await h.run()


async def test_an_error_in_clean_up_under_cancellation_is_heard(autojump_clock):
    async def script(h):
        try:
            yield 1, 1
            await trio.sleep_forever()
        finally:
            raise LookupError("clean-up failed")

    with pytest.raises(LookupError), trio.move_on_after(1):
        await Scripted(script).run()


async def test_an_error_of_a_background_task_under_cancellation_is_heard(autojump_clock):
    async def bad():
        try:
            await trio.sleep_forever()
        finally:
            raise LookupError

    async def script(h):
        async with trio.open_nursery() as n:
            n.start_soon(bad)
            yield 1, 1
            await trio.sleep_forever()

    with pytest.RaisesGroup(LookupError):
        with trio.move_on_after(1):
            await Scripted(script).run()


async def test_a_swallowed_limit_ends_the_harness_at_its_next_step(autojump_clock):
    async def stubborn(h):
        for n in range(1, 100):
            try:
                await trio.sleep(10)
            except trio.Cancelled:
                pass
            yield n, n

    h = Scripted(stubborn)
    with pytest.raises(StepTimeout):
        await h.run(within(step_timeout_s=5))
    assert h.current_step == 1


def test_a_leaked_nursery_is_the_harnesses_error():
    async def script(h):
        await trio.open_nursery().__aenter__()
        yield 1, 1

    h = Scripted(script)

    async def main():
        with pytest.raises(ScopeError):
            await h.run()
        await trio.lowlevel.checkpoint()

    trio.run(main)
    assert h.current_step == 1


def test_a_leaked_nursery_takes_its_tasks_along():
    seen = []

    async def child():
        try:
            await trio.sleep_forever()
        finally:
            seen.append("ended")

    async def script(h):
        n = await trio.open_nursery().__aenter__()
        n.start_soon(child)
        yield 1, 1

    h = Scripted(script)

    async def main():
        with pytest.raises(ScopeError):
            await h.run()
        assert seen == ["ended"]

    trio.run(main)


async def test_a_scope_error_names_the_harness(autojump_clock):
    async def leak(h):
        trio.CancelScope().__enter__()
        yield 1, 1

    with pytest.raises(ScopeError, match="Scripted"):
        await Scripted(leak).run()


async def test_surroundings_serve_for_a_second_run(autojump_clock):
    async def script(h):
        yield 1, 1

    h, r = Scripted(script), LocalRuntime("x")
    await h.run(r)
    await h.run(r)
    assert h.current_step == 2


async def test_a_held_harness_ends_at_its_deadline(autojump_clock):
    async def script(h):
        while True:
            yield 1, 1
            await trio.sleep(1)

    c = Control(deadline=10)
    h = Scripted(script)

    async def run():
        with pytest.raises(DeadlineExceeded):
            await h.run(LocalRuntime("x", c))

    async with trio.open_nursery() as n:
        n.start_soon(run)
        await trio.sleep(2.5)
        c.pause()
        await trio.sleep(100)
        late = bool(n.child_tasks)
        c.resume()
    assert not late


async def test_the_state_is_as_recorded_when_execute_is_called_anew(autojump_clock):
    seen = []

    async def script(h):
        seen.append(h.state)
        h.update_state(lambda n: n + 1)
        if len(seen) == 1:
            raise LookupError
        yield 1, 1

    h = Scripted(script, state=0)
    with pytest.raises(LookupError):
        await h.run()
    await h.run()
    assert seen == [0, 0]


async def test_the_tick_after_missed_ones_is_at_the_next_multiple(autojump_clock):
    seen = []

    async def script(h):
        async for t in h.every(5):
            yield t, trio.current_time()
            if h.current_step == 4:
                return
            if h.current_step == 2:
                await trio.sleep(12)

    h = Scripted(script)
    await h.run()
    assert [(s.input, s.output) for s in h.step_history] == [(0, 0), (1, 5), (4, 20), (5, 25)]


def test_a_list_that_did_not_change_has_no_delta():
    @frozen
    class S:
        n: int = 0
        rows: Any = ()

    s = PersistentState(S(0, [None, {"p": 1}, None]))
    s.update_state(lambda x: evolve(x, n=1))
    assert s.take_delta()[0].modified == ("n",)


@frozen
class Secret:
    token: str = field(repr=False)


class Pt(NamedTuple):
    s: Any


def test_a_change_that_is_not_in_the_repr_is_stored():
    old, new = {"p": Pt(Secret("a"))}, {"p": Pt(Secret("b"))}
    assert carried(old, new) == written(new)


def test_the_order_of_a_dict_is_kept():
    old, new = {"q": {"a": 1, "b": 2}}, {"q": {"b": 2, "a": 1}}
    d = Baseline(detach(old)).advance(detach(new))
    read = msgspec.json.decode
    got = apply_to_state(read(msgspec.json.encode(old)), read(msgspec.json.encode(d)))
    assert list(got["q"]) == ["b", "a"]


def test_a_window_of_records_costs_what_is_new():
    s = PersistentState({"w": [{"p": i} for i in range(1000)]})
    s.update_state(lambda x: {"w": [*x["w"][1:], {"p": -1}]})
    assert len(msgspec.json.encode(s.take_delta()[1])) < 100


class Ren(msgspec.Struct, rename="camel", frozen=True):
    foo_bar: int


class Arr(msgspec.Struct, array_like=True, frozen=True):
    foo: int


@pytest.mark.parametrize("cls", [Ren, Arr])
def test_structs_with_names_of_their_own_are_carried(cls):
    old, new = cls(1), cls(2)
    assert carried(old, new) == written(new)


def test_a_set_is_what_is_in_it():
    @frozen
    class S:
        tags: Any
        n: int = 0

    s = PersistentState(S(frozenset({7, 15})))
    names = []
    for i in range(3):
        s.update_state(lambda x: evolve(x, n=x.n + 1, tags=frozenset({7, 15})))
        names.append(s.take_delta()[0].modified)
    assert names == [("n",)] * 3


class St(msgspec.Struct):
    v: Any = 0


def test_a_struct_that_can_change_is_copied():
    assert detach(St(1)) == St(1)


class FSt(msgspec.Struct, frozen=True):
    v: Any = 0


def test_a_frozen_struct_around_a_list_is_copied():
    assert detach(FSt([1])) == FSt([1])


@define
class FrozenFood:
    kilograms: int = field(validator=attrs.validators.instance_of(int))


def test_a_class_is_not_frozen_by_its_name():
    food = FrozenFood(1)
    assert detach(food) is not food


class Odd(enum.Enum):
    A = object()


def test_keys_that_would_be_one_on_disk_are_refused():
    with pytest.raises(Unstorable):
        detach({1: "a", "1": "b"})


class Col(enum.Enum):
    R = "r"


def test_keys_of_several_types_are_told():
    try:
        detach({Col.R: 1, "x": 2})
    except Unstorable as e:
        assert "key" in str(e), str(e)


@define
class Err(Exception):
    a: int = 0


def test_an_error_as_a_value_is_refused():
    with pytest.raises(Unstorable):
        detach(Err(1))


async def test_a_message_is_the_mailboxes_own(autojump_clock):
    r = LocalRuntime("x")
    m = [1]
    await r.send("x", m)
    m.append(2)
    assert await r.receive() == [1]


async def test_a_message_that_can_not_be_stored_is_refused(autojump_clock):
    with pytest.raises(Unstorable):
        await LocalRuntime("x").send("x", object())


def test_one_name_is_a_name():
    assert StateDelta("total").modified == ("total",)


async def test_an_agent_can_not_change_the_constraints(autojump_clock):
    async def meddle(run):
        run.constraints["x"] = 1

    async def script(h):
        yield 1, await h.run_agent(Agent(meddle), 1)

    h = Scripted(script)
    try:
        await h.run()
    except Exception:
        pass
    assert h.constraints == {}


def test_more_steps_than_are_held_are_read():
    past = [Step(i, dt.datetime.now(dt.UTC), i, i, StateDelta()) for i in range(1, 11)]
    s = PersistentState(0, 2)
    s.restore(0, 10, lambda a, n: past[a : a + n])
    assert [x.step_number for x in s.recent_steps(5)] == [6, 7, 8, 9, 10]
