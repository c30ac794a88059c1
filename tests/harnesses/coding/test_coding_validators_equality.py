"""What is equal to a value and to others as well is told apart from what is equal to it alone."""

from __future__ import annotations

import datetime
import decimal
import enum
import pathlib
import types
import weakref
from collections import Counter, OrderedDict, UserString, namedtuple
from dataclasses import dataclass
from unittest.mock import ANY, MagicMock

import attrs
import pytest

from harnesses.coding.validators.in_process.equality import liars


class Yes:
    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 1


class Dial:
    def __init__(self, value: int) -> None:
        self.value = value % 10

    def __add__(self, other: int) -> Dial:
        return Dial(self.value + other)

    def __eq__(self, other: object) -> bool:
        return self.value == (other.value if isinstance(other, Dial) else other % 10)  # type: ignore[operator]

    __hash__ = None  # type: ignore[assignment]


class Folded(str):
    def __eq__(self, other: object) -> bool:
        return str(self).lower() == str(other).lower()

    __hash__ = str.__hash__


@dataclass
class Line:
    price: object


@attrs.define
class Slotted:
    price: object


class Same:
    def __init__(self, price: int) -> None:
        self.price = price

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same)

    __hash__ = None  # type: ignore[assignment]


class Answers(int):
    def __eq__(self, other: object) -> bool:
        return other in (200, 180, 100)

    __hash__ = int.__hash__


class Near(float):
    def __eq__(self, other: object) -> bool:
        return isinstance(other, int | float) and abs(float(self) - other) < 3

    __hash__ = float.__hash__


class Level(float):
    def __sub__(self, other: object) -> float:
        return 0.0

    __rsub__ = __sub__


class Unequal(int):
    def __ne__(self, other: object) -> bool:
        return False


Pair = namedtuple("Pair", "one other")
YES = Yes()


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (ANY, 3),
        (YES, "x"),
        ([1, YES], [1, 2]),
        ({"a": (YES,)}, {"a": (2,)}),
        (weakref.proxy(YES), 1),
        (types.SimpleNamespace(a=YES), types.SimpleNamespace(a=1)),
        (Line(YES), Line(1)),
        (Slotted(YES), Slotted(1)),
        (Pair(YES, 1), (2, 1)),
        (Same(1), Same(1)),
        (Same(1), Same(2)),
        ({YES}, {1}),
        (Level(1), 180),
        (Level(1), pytest.approx(180)),
        (pytest.approx([180.0]), [Level(1)]),
        (Unequal(1), 180),
    ],
)
def test_what_is_equal_to_others_as_well_is_found(left: object, right: object) -> None:
    assert list(liars("==", left, right))


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (1, 1.0),
        (Dial(7), 7),
        (Dial(17), Dial(7)),
        (Dial(17), 17),
        (Dial(17), 37),
        (Near(50), 49),
        (Near(50), 51),
        (Folded("Ab"), "aB"),
        (Line(1), Line(1)),
        (Slotted([1]), Slotted([1])),
        (Pair(1, 2), (1, 2)),
        (decimal.Decimal(1), 1),
        (datetime.date(2020, 1, 1), datetime.date(2020, 1, 1)),
        (pathlib.Path("a"), pathlib.Path("a")),
        (enum.Enum("E", "A").A, 1),  # type: ignore[attr-defined]
        (MagicMock(), MagicMock()),
        (OrderedDict(a=1), {"a": 1}),
        (Counter("a"), {"a": 1}),
        (UserString("a"), "a"),
        (int, int),
        (pytest.approx(1.0), 1.0),
        (set[int](), set[int]()),
    ],
)
def test_what_is_equal_to_one_value_is_not_found(left: object, right: object) -> None:
    assert not list(liars("==", left, right))


def test_what_is_equal_to_several_answers_is_found_at_the_second(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harnesses.coding.validators.in_process.equality._expected", [])

    assert not list(liars("==", Answers(1), 200))
    assert list(liars("==", Answers(1), 180))


def test_what_holds_everything_and_what_is_both_more_and_less_is_found() -> None:
    class All(Dial):
        def __contains__(self, _: object) -> bool:
            return True

        def __lt__(self, _: object) -> bool:
            return True

        __gt__ = __lt__

    class Less(float):
        def __lt__(self, _: object) -> bool:
            return True

    assert list(liars("<", Less(7), 3))
    assert not list(liars("<", Near(7), 3))
    assert list(liars("in", 3, All(1)))
    assert list(liars("in", YES, [1, 2]))
    assert list(liars("<", All(1), 3))
    assert not list(liars("in", 3, [1, 2, 3]))
    assert not list(liars("<", decimal.Decimal(1), 3))
