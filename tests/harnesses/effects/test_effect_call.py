"""What a function returned is read back in the type that it declares; one that could not be is refused before it is called."""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import enum
import functools
import weakref
from collections.abc import Awaitable, Coroutine, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

import pytest
from attrs import frozen

from harnesses import HarnessMisuse, Waiting
from harnesses.effects.effect import text_of
from harnesses.effects.effect_call import result_decoder

if TYPE_CHECKING:
    from decimal import Context as Elsewhere

T = TypeVar("T")


class Side(enum.Enum):
    BUY = "buy"


@frozen
class Fill:
    price: Decimal
    side: Side
    when: datetime
    lots: tuple[int, ...] = ()


class Point(NamedTuple):
    x: int
    y: int


class Plain:
    pass


@frozen
class Box(Generic[T]):
    inside: T


FILL = Fill(Decimal("1.10"), Side.BUY, datetime(2024, 1, 2, 3, 4, 5, 6, tzinfo=UTC), (1, 2))


def read_back(function: Any, value: Any) -> Any:
    """Return what comes back of a value that `function` has returned."""
    return result_decoder(function)("key", text_of(value, "problem"))


def returning(annotation: Any) -> Any:
    def function() -> None: ...

    function.__annotations__["return"] = annotation
    return function


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (None, None),
        (type(None), None),
        (int, 2**70),
        (float, 0.1),
        (bool, False),
        (str, 'ünï\u2028cødé 🙂 \\ " \x00'),
        (bytes, b"\x00\xff"),
        (Decimal, Decimal("0.10")),
        (datetime, FILL.when),
        (Side, Side.BUY),
        (Fill, FILL),
        (Fill | None, None),
        (Fill | None, FILL),
        (Point, Point(1, 2)),
        (list[Fill], [FILL]),
        (Sequence[int], [1, 2]),
        (tuple[Fill, int], (FILL, 1)),
        (dict[str, Fill], {"a": FILL}),
        (dict[int, Decimal], {1: Decimal("1.0")}),
        (frozenset[str], frozenset("abc")),
        (Box[Fill], Box(FILL)),
        ("Fill", FILL),
        ("dict[str, Fill | None]", {"a": FILL, "b": None}),
        (Awaitable[Fill], FILL),
        (Coroutine[Any, Any, Fill], FILL),
    ],
)
def test_a_value_comes_back_in_its_declared_type(annotation: Any, value: Any) -> None:
    found = read_back(returning(annotation), value)

    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize("annotation", [Any, object, T, dict, list, "Any"])
def test_without_a_type_to_speak_of_plain_data_comes_back(annotation: Any) -> None:
    given = {"price": "1.10"} if annotation is not list else ["1.10"]

    assert read_back(returning(annotation), given) == given


def test_without_an_annotation_plain_data_comes_back() -> None:
    assert read_back(lambda: None, FILL)["price"] == "1.10"


async def fill(when: datetime) -> Fill:
    return FILL


class Venue:
    def fill(self) -> Fill:
        return FILL

    @classmethod
    def of(cls) -> Fill:
        return FILL

    @staticmethod
    def static() -> Fill:
        return FILL


class Filling:
    """An object that can be called."""

    result: int

    async def __call__(self) -> Fill:
        return FILL


@functools.wraps(fill)
def wrapped(*args):
    return fill(*args)


CALLED = {
    "function": fill,
    "wrapped": wrapped,
    "partial": functools.partial(fill, FILL.when),
    "partial of a partial": functools.partial(functools.partial(fill), FILL.when),
    "method": Venue().fill,
    "class method": Venue.of,
    "static method": Venue.static,
    "partial of a method": functools.partial(Venue().fill),
    "callable object": Filling(),
    "partial of a callable object": functools.partial(Filling()),
    "class": Fill,
}


@pytest.mark.parametrize("function", CALLED.values(), ids=CALLED)
def test_whatever_is_called_is_asked_for_its_type(function: Any) -> None:
    assert read_back(function, FILL) == FILL


def test_the_types_of_parameters_need_not_be_there_when_the_program_runs() -> None:
    def place(order: Elsewhere) -> Fill:
        return FILL

    assert read_back(place, FILL) == FILL


def test_a_local_class_is_found_where_its_annotation_is_the_class_itself() -> None:
    @frozen
    class Local:
        number: int

    assert read_back(returning(Local), Local(1)) == Local(1)


def test_a_type_that_can_not_be_found_is_told_with_the_remedy() -> None:
    @frozen
    class Local:
        number: int

    def place() -> Local:
        return Local(1)

    with pytest.raises(HarnessMisuse, match=r"'Local' of .*place cannot be found: .*; define it at the top of its module"):
        result_decoder(place)


@pytest.mark.parametrize("annotation", [Plain, Venue().fill, complex, Fill | Box[int], "missing.Fill"])
def test_a_type_that_could_not_be_read_back_is_refused(annotation: Any) -> None:
    with pytest.raises(HarnessMisuse, match="effect: "):
        result_decoder(returning(annotation))


@pytest.mark.parametrize(("annotation", "value"), [(int, "7"), (Fill, {"price": "1"}), (None, 7), (list[int], [None])])
def test_a_value_of_another_type_than_declared_is_told(annotation: Any, value: Any) -> None:
    with pytest.raises(Waiting, match=r"effect 'key' has happened, but its stored result .* correct the annotation"):
        read_back(returning(annotation), value)


def test_a_result_that_could_not_be_stored_is_told_again() -> None:
    with pytest.raises(Waiting, match="'key' has happened, but its stored result is not usable"):
        result_decoder(fill)("key", None)


@frozen
class Tree:
    children: list[Tree]


@pytest.mark.parametrize("annotation", [list[Plain], dict[str, Plain | None], tuple[int, Plain], Box[Plain]])
def test_a_class_that_json_does_not_know_is_refused_wherever_it_is(annotation: Any) -> None:
    with pytest.raises(HarnessMisuse, match="Plain is not a type that JSON can represent"):
        result_decoder(returning(annotation))


def test_a_type_that_holds_itself_is_read_back() -> None:
    tree = Tree([Tree([]), Tree([Tree([])])])

    assert read_back(returning(Tree), tree) == tree


def test_what_a_function_has_closed_over_is_not_kept():
    class Large:
        pass

    def make():
        large = Large()

        def act() -> int:
            return id(large)

        return weakref.ref(large), act

    seen, act = make()
    assert result_decoder(act)("effect", "1") == 1
    del act

    assert seen() is None
