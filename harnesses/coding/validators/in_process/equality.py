"""Detects values that compare equal to the expected value but also to other values. Loaded by judge_plugin.py, never imported.

Plain values (numbers, strings, lists of them …) can be trusted; their type is checked by identity, which cannot be faked. Any
other value is compared with random other values, before the test's own comparison.
"""

# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownLambdaType=false, reportUnknownParameterType=false

from __future__ import annotations

import contextlib
import copy
import random
import types
from typing import Any, Callable, Iterator, List, Tuple  # noqa: UP035 - judged projects may have an older Python

_LISTS: Any = (list, tuple)
_SETS: Any = (set, frozenset)
_TEXTS: Any = (str, bytes, bytearray)
_NUMBERS: Any = (int, float, complex, bool)
_PLAIN = {id(kind) for kind in (*_LISTS, *_SETS, *_TEXTS, *_NUMBERS, dict, type(None), type(Ellipsis), range, type)}
SCALARS = frozenset(id(kind) for kind in (*_TEXTS, *_NUMBERS, type(None)))
"""Ids of trusted types whose values contain no other values."""
_MOST = 1_000
_expected: List[Any] = []  # noqa: UP006
"""Numbers with which values have been compared."""
_DEPTH = 20
_spaces: Callable[[type], Any] = type.__dict__["__dict__"].__get__
_bases: Callable[[type], Any] = type.__dict__["__mro__"].__get__


def defined(kind: type, name: str) -> Tuple[Any, Any]:  # noqa: UP006
    """Return the base class of a type that defines a name, and the value, without calling any metaclass."""
    return next(((base, _spaces(base)[name]) for base in _bases(kind) if name in _spaces(base)), (None, None))


def liars(operator: str, left: Any, right: Any) -> Iterator[Any]:
    """Yield the values in a comparison that would also compare equal to other values.

    Args:
        operator: `==` (also for `!=` and `-`), `in`, or one of `< <= > >=`.
    """
    if operator == "==":
        yield from _equal(left, right, 0)
    elif operator == "in":
        if not _is_plain(left) and (type(right) in _LISTS or type(right) in _SETS):
            yield from (left for other in list(right)[:_MOST] if _is_liar(left, other))
        if not _is_plain(right) and _holds(lambda: object() in right) and not _holds(lambda: object() in list(right)):
            yield right
    elif not (_is_plain(left) and _is_plain(right)):
        if _holds(lambda: left < right) and _holds(lambda: left > right):
            yield right if _is_plain(left) else left
        yield from (one for one in (left, right) if not _is_plain(one) and _is_disordered(one))


def _equal(left: Any, right: Any, depth: int) -> Iterator[Any]:
    left, right = _meant(left), _meant(right)
    if left is right or depth > _DEPTH:
        return
    for one, other in ((left, right), (right, left)):
        if not _is_plain(one) and (_is_liar(one, other) or _is_scattered(one, other) or _is_level(one, other)):
            yield one
    for one, other in _parts(left, right):
        yield from _equal(one, other, depth + 1)


def _meant(value: Any) -> Any:
    """Return the value wrapped by `pytest.approx`."""
    kind = type(value)
    is_approx = kind.__name__.startswith("Approx") and kind.__module__ in ("_pytest.approx", "_pytest.python_api")
    return value.expected if is_approx else value


def _parts(left: Any, right: Any) -> List[Tuple[Any, Any]]:  # noqa: UP006
    """Return the pairs of elements at the same position of two values."""
    with contextlib.suppress(Exception):
        if isinstance(left, _LISTS) and isinstance(right, _LISTS):
            return list(zip(left, right))[:_MOST]  # noqa: B905
        if isinstance(left, dict) and isinstance(right, dict):
            return [(left[key], right[key]) for key in list(left)[:_MOST] if key in right]
        if isinstance(left, _SETS) and isinstance(right, _SETS):
            return [(one, next(iter(right))) for one in list(left)[:_MOST] if right and not _is_plain(one)]
        if type(left) is type(right):
            mine, others = _fields(left), _fields(right)
            return [(mine[name], others[name]) for name in mine if name in others]
    return []


def _fields(value: Any) -> Any:
    found: Any = {}
    for base in _bases(type(value)):
        for name, member in _spaces(base).items():
            if type(member) is types.MemberDescriptorType:
                with contextlib.suppress(AttributeError):
                    found[name] = member.__get__(value)
    with contextlib.suppress(AttributeError):
        found.update(object.__getattribute__(value, "__dict__"))
    return found


def _is_plain(value: Any) -> bool:
    return id(type(value)) in _PLAIN


def _is_liar(value: Any, other: Any) -> bool:
    kind = type(value)
    owner, equal = defined(kind, "__eq__")
    if (owner is object and defined(kind, "__ne__")[0] is object) or (
        type(equal) is types.WrapperDescriptorType and defined(kind, "__array__")[0]
    ):
        # It is equal only to itself; or it is an array, and compares elementwise.
        return False
    asked = _strangers(other)
    random.SystemRandom().shuffle(asked)
    is_number = any(defined(kind, name)[0] for name in ("__add__", "__int__", "__index__", "__float__"))
    if is_number and type(other) in _NUMBERS:
        # It may be equal to many others, such as a number of a clock: at most six of the eight, if it counts by tens.
        asked = [one for one in asked if isinstance(one, _NUMBERS)]
    found = [_is_equal(value, one) for one in asked]
    most = len(found) * 3 // 4 if is_number and type(other) in _NUMBERS else 2
    if sum(found) > most or all(found):
        return True
    changed = [] if _is_plain(other) or type(equal) is not types.FunctionType else _changed(other)
    return bool(changed) and all(_is_equal(value, one) for one in changed)


def _is_equal(value: Any, other: Any) -> bool:
    return _holds(lambda: value == other) or _holds(lambda: not value != other)  # noqa: SIM202 - they may differ


def _is_scattered(value: Any, other: Any) -> bool:
    """Return whether a value equals several expected numbers that are neither all close together nor periodic."""
    if type(other) not in (int, float):
        return False
    held = [one for one in _expected if one != other and _is_equal(value, one)]
    if other not in _expected and len(_expected) < _MOST:
        _expected.append(other)
    if not held or not _is_equal(value, other):
        return False
    one, step = held[0], abs(held[0] - other)
    between = [min(one, other) + step * part / 8 for part in range(1, 8)]
    further = [number + step * times for number in (one, other) for times in (-3, -2, 2, 3)]
    return not any(all(_is_equal(value, number) for number in numbers) for numbers in (between, further))


def _is_level(value: Any, other: Any) -> bool:
    """Return whether the value's distance to a number is the same for other numbers."""
    if type(other) not in _NUMBERS or not defined(type(value), "__sub__")[0]:
        return False
    asked = [other, *(one for one in _strangers(other) if isinstance(one, _NUMBERS))]
    with contextlib.suppress(Exception):
        found = [float(abs(value - one)) for one in asked], [float(abs(one - value)) for one in asked]
        return any(max(differences) - min(differences) < 1 for differences in found)
    return False


def _is_disordered(value: Any) -> bool:
    """Return whether a number compares less than far smaller ones, or greater than far larger ones."""
    with contextlib.suppress(Exception):
        low, high = float(value) - 1e9, float(value) + 1e9
        return isinstance(value, (int, float)) and (value < low or value <= low or value > high or value >= high)
    return False


def _holds(compare: Callable[[], Any]) -> bool:
    try:
        return bool(compare())
    except Exception:
        return False


def _strangers(value: Any) -> List[Any]:  # noqa: UP006
    """Return a random number of values of the same kind that are not equal to it."""
    more = random.SystemRandom().randrange(1, 90)
    nothing = [object() for _ in range(1 + more % 4)]
    if isinstance(value, bool):
        return [not value, *nothing]
    if isinstance(value, (int, float)):
        by_tens = [value + 10 * more, value + 100 * more, value - 20, value + 50]
        return [*by_tens, value + more, value - 17, value * 2 + 3, value + 1, *nothing]
    if isinstance(value, str):
        return [*_texts(value), *nothing]
    if isinstance(value, (bytes, bytearray)):
        return [*(text.encode("latin-1", "replace") for text in _texts(value.decode("latin-1"))), *nothing]
    if isinstance(value, _LISTS):
        kind: Any = list if isinstance(value, list) else tuple
        inside: Any = value
        return [kind([*inside, object()]), kind([object(), *inside]), *([kind()] if inside else []), *nothing]
    if isinstance(value, dict):
        return [{**value, more: more}, *([{}] if value else []), *nothing]
    return [object(), "stranger", more, (more,), *nothing]


def _texts(value: str) -> List[str]:  # noqa: UP006
    def turned(by: int, *, digits: bool, letters: bool) -> str:
        return "".join(
            chr((ord(one) - 48 + by) % 10 + 48)
            if digits and "0" <= one <= "9"
            else chr((ord(one) - 97 + by) % 26 + 97)
            if letters and "a" <= one <= "z"
            else one
            for one in value
        )

    others = [turned(by, digits=True, letters=False) for by in (1, 3, 7)]
    others += [turned(by, digits=True, letters=True) for by in (1, 4)]
    others += [turned(2, digits=False, letters=True), value + "?", value[::-1]]
    return [other for other in others if other != value]


def _changed(value: Any) -> List[Any]:  # noqa: UP006
    """Return copies of an object, each with another value in one field; none if a field is not a plain value."""
    fields = _fields(value)
    if not fields or not all(_is_plain(one) and one is not None for one in fields.values()):
        return []
    found: List[Any] = []  # noqa: UP006
    for name, held in fields.items():
        with contextlib.suppress(Exception):
            one = copy.copy(value)
            object.__setattr__(one, name, _strangers(held)[0])
            found.append(one)
    return found
