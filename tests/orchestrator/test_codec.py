"""G10: what is read back equals what was written, and what cannot be written is refused with the path to it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, StrEnum
from typing import Any, TypeVar
from uuid import UUID

import pytest
from attrs import evolve, field, frozen
from hypothesis import example, given
from hypothesis import strategies as st

from harnesses import BaseHarness, PersistentState, StateDelta, Step, Unstorable
from orchestrator.codec import decode, decode_step, encode, encode_step
from orchestrator.errors import UsageError
from orchestrator.states.state_types import HarnessTypes
from tests.orchestrator.replayed import replay

NOW = datetime(2024, 2, 29, 23, 59, 59, 123456, tzinfo=UTC)
LEAP_DAY, SEVEN = NOW.date(), UUID(int=7)
NOTHING: tuple[tuple[Any, Any], ...] = ()
StateT = TypeVar("StateT")


class Side(StrEnum):
    BUY = "buy"
    SELL = "sell"


class Level(Enum):
    LOW = 1
    HIGH = 2


@frozen
class Order:
    side: Side
    price: Decimal
    filled: tuple[int, ...] = ()
    note: str | None = None


@frozen
class Book:
    orders: tuple[Order, ...] = ()
    by_level: dict[int, list[Decimal]] = field(factory=dict[int, list[Decimal]])
    level: Level = Level.LOW
    opened: datetime = NOW
    day: date = LEAP_DAY
    at: time = time(9, 30)
    left: timedelta = timedelta(hours=6.5)
    id: UUID = SEVEN
    raw: bytes = b"\x00\xff"
    share: float = 0.1


BOOK = Book((Order(Side.BUY, Decimal("1.10"), (1, 2)), Order(Side.SELL, Decimal("0.000"))), {5: [Decimal("2.50")]}, Level.HIGH)


class Silent(BaseHarness[StateT, Any, Any]):
    """Does nothing."""

    async def execute(self) -> AsyncIterator[tuple[Any, Any]]:
        for pair in NOTHING:
            yield pair


class Trading(Silent[Book]):
    """Declares its types."""


class Declared(BaseHarness[dict[str, Decimal], Order, tuple[Decimal, ...]]):
    """Declares all three types; the state is a plain container."""

    async def execute(self) -> AsyncIterator[tuple[Order, tuple[Decimal, ...]]]:
        for pair in NOTHING:
            yield pair


def step(number: int = 1, *, given: object = None, output: object = None, summary: str | None = None) -> Step[Any, Any]:
    return Step(number, NOW, given, output, StateDelta((), summary))


# values

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
    max_leaves=12,
)


@given(JSON)
@example({'\u2028 \x00 "\\': [-0.0, 1e308, 5e-324, 2**64 - 1]})
def test_plain_data_is_read_back_as_it_was(value: Any) -> None:
    assert repr(decode(encode(value))) == repr(value)


def test_text_on_disk_is_utf_8() -> None:
    assert encode({"größe": "🙂"}) == '{"größe":"🙂"}'


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"a": [1, object()]}, r"\$\.a\[1\] cannot be stored: .* got builtins\.object"),
        ({"a": {(1, 2): 3}}, r"\$\.a has the key \(1, 2\)"),
        (["\ud800"], r"\$\[0\] is not valid text"),
        ({"price": float("nan")}, r"\$\.price is nan"),
        ({"price": float("inf")}, r"\$\.price is inf"),
    ],
)
def test_what_can_not_be_read_back_is_refused_with_its_path(value: object, message: str) -> None:
    with pytest.raises(Unstorable, match=message):
        encode(value)


def test_a_value_that_holds_itself_is_refused() -> None:
    endless: list[Any] = []
    endless.append(endless)

    with pytest.raises(Unstorable, match="itself"):
        encode({"endless": endless})


# steps


def test_a_step_is_read_back_with_where_it_stands() -> None:
    body = encode_step(
        step(3, given={"a": 1}, output=[Decimal("1.10")], summary="sold"), {"set": {"x": 1}, "drop": {"y": None}}
    )

    record = decode_step("eurusd", 2, 17, 3, 1_709_251_199_123_456, body)

    assert (record.harness, record.attempt, record.seq, record.step_number, record.timestamp) == ("eurusd", 2, 17, 3, NOW)
    assert (record.input, record.output) == ({"a": 1}, ["1.10"])
    assert record.state_delta == StateDelta(("x", "y"), "sold")


def test_a_step_without_a_summary_has_none_on_disk() -> None:
    assert decode(encode_step(step(), {})) == {"input": None, "output": None, "delta": {}}


BAD = object()


@pytest.mark.parametrize(
    ("made", "delta", "where"),
    [
        (step(given={"a": BAD}), {}, r"input\.a"),
        (step(output=[BAD]), {}, r"output\[0\]"),
        (step(), {"set": {"a": BAD}}, r"state\..*a"),
    ],
)
def test_a_step_that_can_not_be_stored_says_which_part(made: Step[Any, Any], delta: dict[str, Any], where: str) -> None:
    with pytest.raises(Unstorable, match=f"^{where} cannot be stored"):
        encode_step(made, delta)


@given(st.integers(0, 4_000_000_000_000_000))
@example(1_709_251_199_123_456)
@example(999_999)
def test_times_are_exact_to_the_microsecond(time_us: int) -> None:
    record = decode_step("one", 1, 1, 1, time_us, '{"input":0,"output":0,"delta":{}}')

    assert record.timestamp == datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=time_us)


# state


@given(st.lists(st.dictionaries(st.sampled_from("abcd"), JSON, max_size=4), min_size=1, max_size=6))
def test_a_replay_of_the_steps_gives_the_state(states: list[dict[str, Any]]) -> None:
    kept: PersistentState[Any, Any, Any] = PersistentState({})
    bodies: list[str] = []
    for state in states:
        kept.update_state(lambda _, state=state: state)  # type: ignore[misc]
        named, delta = kept.take_delta()
        bodies.append(encode_step(Step(1, NOW, None, None, named), delta))

        assert decode(replay("{}", bodies)) == decode(encode(state))
        assert decode_step("one", 1, 1, 1, 0, bodies[-1]).state_delta.modified == named.modified


@given(st.lists(st.lists(st.integers(0, 3), max_size=6), min_size=1, max_size=6))
def test_a_replay_gives_a_state_that_is_a_list(states: list[list[int]]) -> None:
    kept: PersistentState[list[int], Any, Any] = PersistentState([])
    bodies: list[str] = []
    for state in states:
        kept.update_state(lambda _, state=state: state)  # type: ignore[misc]
        bodies.append(encode_step(step(), kept.take_delta()[1]))

    assert decode(replay("[]", bodies)) == states[-1]


# types


def test_a_state_of_a_declared_class_is_read_back_with_its_types() -> None:
    types = HarnessTypes.of(Trading(Book()))

    assert types.state(encode(BOOK)) == BOOK
    assert repr(types.state(encode(BOOK))) == repr(BOOK)


def test_a_class_that_is_not_declared_is_known_from_the_initial_state() -> None:
    assert HarnessTypes.of(Silent(Book())).state(encode(BOOK)) == BOOK


@pytest.mark.parametrize(
    "state",
    [
        {"cash": Decimal("10.00"), "since": NOW, "sides": (Side.BUY,), "inner": {"left": timedelta(1)}, "free": None},
        {1: Decimal("1.5"), 2: Decimal("2.50")},
        [Decimal("1.0"), Decimal("2.00")],
        (Order(Side.BUY, Decimal(1)),),
        7,
        None,
        "text",
        Decimal("1.000"),
        Level.HIGH,
    ],
)
def test_a_state_without_declared_fields_is_revived_by_its_example(state: Any) -> None:
    revived = HarnessTypes.of(Silent(state)).state(encode(state))

    assert repr(revived) == repr(state)


def test_a_declared_container_gives_its_items_their_type() -> None:
    types = HarnessTypes.of(Declared({}))

    assert types.state('{"a":"1.50"}') == {"a": Decimal("1.50")}
    assert repr(types.state('{"a":"1.50"}')["a"]) == "Decimal('1.50')"


def test_inputs_and_outputs_are_read_back_with_their_types() -> None:
    order = Order(Side.SELL, Decimal("3.0"), (4,))
    record = decode_step("one", 1, 1, 1, 0, encode_step(step(given=order, output=(Decimal("1.0"),)), {}))
    types = HarnessTypes.of(Declared({}))

    assert (types.record(record).input, types.record(record).output) == (order, (Decimal("1.0"),))
    assert (types.step(record).input, types.step(record).output) == (order, (Decimal("1.0"),))
    assert types.record(record).seq == record.seq


def test_an_input_that_no_longer_fits_stays_plain_data() -> None:
    record = decode_step("one", 1, 1, 1, 0, encode_step(step(given={"side": "hold"}, output=3), {}))

    typed = HarnessTypes.of(Declared({})).step(record)

    assert (typed.input, typed.output) == ({"side": "hold"}, 3)


@frozen
class OlderOrder:
    side: Side


@frozen
class NewerOrder:
    side: Side
    price: Decimal
    owner: str


def test_a_new_field_with_a_default_is_filled_in() -> None:
    assert HarnessTypes.of(Silent(Order(Side.BUY, Decimal(0)))).state('{"side":"buy","price":"1"}') == Order(
        Side.BUY, Decimal(1)
    )


def test_a_field_that_is_gone_is_passed_over() -> None:
    assert HarnessTypes.of(Silent(OlderOrder(Side.BUY))).state(encode(BOOK.orders[0])) == OlderOrder(Side.BUY)


def test_a_new_field_without_a_default_is_an_error_that_says_what_to_do() -> None:
    types = HarnessTypes.of(Silent(NewerOrder(Side.BUY, Decimal(0), "me")))

    with pytest.raises(UsageError, match=r"does not fit NewerOrder: .*`owner`.*give new fields a default"):
        types.state(encode(BOOK.orders[0]))


def test_two_harnesses_of_one_class_may_have_different_plain_states() -> None:
    one, other = HarnessTypes.of(Silent({"a": Decimal(0)})), HarnessTypes.of(Silent({"a": 0}))

    assert one.state('{"a":"1"}') == {"a": Decimal(1)}
    assert other.state('{"a":"1"}') == {"a": "1"}


def test_the_example_is_not_touched() -> None:
    harness = Silent({"a": [Decimal(1)]})

    HarnessTypes.of(harness).state('{"a":["5"]}')["a"].append(7)

    assert harness.state == {"a": [Decimal(1)]}
    assert evolve(BOOK) == BOOK
