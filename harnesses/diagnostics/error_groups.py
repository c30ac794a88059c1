"""Errors of any shape: groups nested ten thousand deep, of a million leaves, of classes that lie. Pure.

Nothing here recurses, and nothing asks an error for anything that its class may have redefined.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

_inside: Any = BaseExceptionGroup.__dict__["exceptions"].__get__


def is_one(error: BaseException, kind: type[BaseException]) -> bool:
    """Return whether an error is of a kind, by its type alone: `isinstance` asks a class for its `__class__` too."""
    return issubclass(type(error), kind)


def members(error: BaseException) -> tuple[BaseException, ...]:
    """Return what is directly in a group; nothing of what is none."""
    return _inside(error) if is_one(error, BaseExceptionGroup) else ()


def leaves(error: BaseException) -> Iterator[BaseException]:
    """Yield what is in a group, in order, or the error itself if it is none."""
    waiting = [error]
    while waiting:
        one = waiting.pop()
        if is_one(one, BaseExceptionGroup):
            waiting.extend(reversed(_inside(one)))
        else:
            yield one


def count(error: BaseException) -> int:
    """Return how many leaves there are."""
    return sum(
        sum(not is_one(one, BaseExceptionGroup) for one in inside) if mixed else len(inside) for inside, mixed in _parts(error)
    )


def of_kind(error: BaseException, kind: type[BaseException]) -> Iterator[BaseException]:
    """Yield the leaves of a kind; most of a million leaves of few types are passed over without a look."""
    for inside, _ in _parts(error):
        if any(issubclass(cls, kind) for cls in set(map(type, inside))):
            yield from (one for one in inside if is_one(one, kind) and not is_one(one, BaseExceptionGroup))


def _parts(error: BaseException) -> Iterator[tuple[tuple[BaseException, ...], bool]]:
    """Yield what is directly in each group, and whether there are groups among it."""
    waiting: list[tuple[BaseException, ...]] = [(error,)]
    while waiting:
        inside = waiting.pop()
        mixed = any(issubclass(cls, BaseExceptionGroup) for cls in set(map(type, inside)))
        yield inside, mixed
        if mixed:
            waiting.extend(_inside(one) for one in inside if is_one(one, BaseExceptionGroup))


def split(error: BaseException, kind: type[BaseException]) -> tuple[BaseException | None, BaseException | None]:
    """Return the part of an error that is of a kind, and the rest; either may be None.

    Of a group that cannot be split, as one that is too deep, the first of that kind, and all of it as the rest.
    """
    if not is_one(error, BaseExceptionGroup):
        return (error, None) if is_one(error, kind) else (None, error)
    first = next(of_kind(error, kind), None)
    if first is None:
        return None, error
    try:
        return cast(BaseExceptionGroup[BaseException], error).split(kind)
    except Exception:
        return first, error
