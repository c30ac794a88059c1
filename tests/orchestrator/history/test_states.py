"""A state that is looked up is the one that was live at that step, by its hash, whatever has come between."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC
from decimal import Decimal
from pathlib import Path
from typing import Any, ClassVar

import pytest
import trio
import trio.testing
from attrs import evolve, fields, frozen
from hypothesis import given, settings
from hypothesis import strategies as st

from harnesses import BaseHarness, migrates
from orchestrator import MemoryStore, Orchestrator, SqliteStore, UnknownHarness, UsageError
from orchestrator.codec import decode
from orchestrator.history import state_at, state_hash
from orchestrator.history.rejudging import looks
from orchestrator.store.conformance import claim, step_row
from orchestrator.testing import run_in_lives
from tests.orchestrator.buying import Account, Buying, run
from tests.orchestrator.replayed import replay

ATOMS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5)
    | st.decimals(allow_nan=False, allow_infinity=False)
    | st.datetimes(timezones=st.just(UTC))
)
TREES = st.recursive(
    ATOMS,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.text(max_size=3), inner, max_size=4)
    ),
    max_leaves=8,
)
STATES = st.dictionaries(st.sampled_from("abcde"), TREES, max_size=5)


class Becoming(BaseHarness[dict[str, Any], None, str]):
    """Becomes one state after the other, and notes the hash of each. It begins with none, so what is read back is plain."""

    def __init__(self, states: list[dict[str, Any]]) -> None:
        super().__init__({})
        self.states = states

    async def execute(self) -> Any:
        while self.current_step < len(self.states):
            self.update_state(lambda _: self.states[self.current_step])
            yield None, state_hash(self.state)


@settings(max_examples=30, deadline=None)
@given(st.lists(STATES, min_size=1, max_size=10), st.integers(1, 4))
def test_it_has_the_hash_of_the_live_one_over_any_number_of_kills(states: list[dict[str, Any]], steps_each: int) -> None:
    clock = trio.testing.MockClock(autojump_threshold=0)
    done: Any = trio.run(lambda: run_in_lives(lambda: Becoming(states), steps_each=steps_each), clock=clock)

    bodies = [row.body for row in done.store.step_rows("harness")]
    for step, state in enumerate(states, 1):
        replayed = decode(replay(done.store.state_at("harness", 0), bodies[:step]))
        found = state_hash(state_at(done.store, "harness", step))
        assert found == done.steps[step - 1].output == state_hash(replayed) == state_hash(state)


async def test_every_state_of_a_run_in_a_file_has_the_hash_that_it_noted_itself(tmp_path: Path) -> None:
    for until in (40, 90):
        await run(tmp_path / "run.db", until)

    with closing(SqliteStore(tmp_path / "run.db")) as store:
        noted = [step.output for step in store.steps("buying")]
        assert [state_hash(state_at(store, "buying", step)) for step in range(1, 91)] == noted


async def test_it_is_plain_data_or_of_the_type_that_the_harness_declares(tmp_path: Path) -> None:
    await run(tmp_path / "run.db", 2)

    found = [state_at(tmp_path / "run.db", "buying", 2, like=like) for like in (None, Buying, Buying(1))]

    assert found == [{"cash": 97, "fills": [1, 2]}, Account(97, (1, 2)), Account(97, (1, 2))]


async def test_step_0_is_the_initial_state() -> None:
    store = MemoryStore()
    await run(store, 3)

    assert state_at(store, "buying", 0) == {"cash": 100, "fills": []}


@pytest.mark.parametrize("step", [-(10**30), -1, 4, 10**9, 10**30])
async def test_a_step_that_is_not_there_is_told(step: int, tmp_path: Path) -> None:
    await run(tmp_path / "run.db", 3)

    with pytest.raises(UsageError, match=f"'buying' has no step {step}"):
        state_at(tmp_path / "run.db", "buying", step)
    with pytest.raises(UnknownHarness, match=r"no harness 'selling'.*buying"):
        state_at(tmp_path / "run.db", "selling", 1)


def test_a_step_that_was_pruned_is_told(tmp_path: Path) -> None:
    with closing(SqliteStore(tmp_path / "run.db")) as store:
        claimed = claim(store, "one")
        store.commit([step_row(claimed, number, state=f'{{"total":{number}}}') for number in range(1, 6)])
        claim(store, "two")
        store._db.execute("DELETE FROM step_index WHERE step < 4")
        store._db.execute("DELETE FROM snapshots WHERE step < 4")

        with pytest.raises(UsageError, match="step 3 was pruned: expected a number from 4"):
            state_at(store, "one", 3)
        assert [state_at(store, "one", step)["total"] for step in (0, 4, 5)] == [0, 4, 5]


def test_a_log_has_no_states(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"steps.jsonl is a log: expected a store"):
        state_at(tmp_path / "steps.jsonl", "buying", 1)


@frozen
class Held:
    numbers: frozenset[Any] = frozenset()
    prices: dict[int, Decimal] = {10: Decimal("1.10"), 9: Decimal(1)}  # noqa: RUF008 - compared only


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        (Account(7, (1,)), {"fills": [1], "cash": 7}),
        ({"price": Decimal("1.10")}, {"price": "1.10"}),
        ({10: 1, 9: 2}, {"9": 2, "10": 1}),
        (Held(frozenset({8, 0, 16})), Held(frozenset([16, 8, 0]))),
        (Held(frozenset({8, "a", None})), Held(frozenset([None, "a", 8]))),
        ({"big": 2**200}, {"big": 2**200}),
    ],
)
def test_what_is_written_alike_has_one_hash(one: object, other: object) -> None:
    assert state_hash(one) == state_hash(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [(1, True), (1, 1.0), (0.0, -0.0), ("1", 1), (None, {}), ([1, 2], [2, 1]), (Decimal("1.1"), Decimal("1.10"))],
)
def test_what_is_not_written_alike_has_another(one: object, other: object) -> None:
    assert state_hash({"value": one}) != state_hash({"value": other})


@frozen
class Old:
    total: int = 0


@frozen
class Renamed:
    schema_version: ClassVar[int] = 2
    sum: int = 0

    @staticmethod
    @migrates(from_version=1)
    def rename(stored: dict[str, Any]) -> dict[str, Any]:
        return {"sum": stored["total"]}


@frozen
class Unled:
    sum: int = 0


class Adding(BaseHarness[Any, None, int]):
    """Adds one to the only field of its state, up to a step."""

    def __init__(self, state: Any, until: int) -> None:
        super().__init__(state)
        self.until = until

    async def execute(self) -> Any:
        (name,) = (one.name for one in fields(type(self.state)))
        while self.current_step < self.until:
            self.update_state(lambda state: evolve(state, **{name: getattr(state, name) + 1}))
            yield None, 0


async def test_a_state_of_an_older_version_is_migrated_and_one_that_would_lose_a_field_is_refused() -> None:
    store = MemoryStore()
    for state, until in ((Old(), 2), (Renamed(), 4)):
        async with Orchestrator(store) as orchestrator:
            orchestrator.start(Adding(state, until), name="one")

    like = Adding(Renamed(), 4)
    assert [state_at(store, "one", step, like=like) for step in range(5)] == [Renamed(step) for step in range(5)]
    assert [look.after for look in looks(store, "one", like=like, after=1, until=None)] == [Renamed(2), Renamed(3), Renamed(4)]
    assert state_at(store, "one", 2) == {"total": 2}
    with pytest.raises(UsageError, match=r"harness 'one', step 1: .*total"):
        state_at(store, "one", 1, like=Adding(Unled(), 4))
