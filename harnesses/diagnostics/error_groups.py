"""Operations on exception groups of any shape: nested ten thousand deep, with a million leaves, with misleading classes. Pure.

Nothing here recurses or calls methods that an exception class may have overridden.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

_inside: Any = BaseExceptionGroup.__dict__["exceptions"].__get__


def is_one(error: BaseException, kind: type[BaseException]) -> bool:
    """Return whether an error is of a kind, by its real type: `isinstance` would also trust its `__class__`."""
    return issubclass(type(error), kind)


def members(error: BaseException) -> tuple[BaseException, ...]:
    """Return the direct members of a group; empty for any other error."""
    return _inside(error) if is_one(error, BaseExceptionGroup) else ()


def leaves(error: BaseException) -> Iterator[BaseException]:
    """Yield the leaves of a group in order, or the error itself if it is not a group."""
    waiting = [error]
    while waiting:
        one = waiting.pop()
        if is_one(one, BaseExceptionGroup):
            waiting.extend(reversed(_inside(one)))
        else:
            yield one


def count(error: BaseException) -> int:
    """Return the number of leaves."""
    return sum(
        sum(not is_one(one, BaseExceptionGroup) for one in inside) if mixed else len(inside) for inside, mixed in _parts(error)
    )


def of_kind(error: BaseException, kind: type[BaseException]) -> Iterator[BaseException]:
    """Yield the leaves of a kind. Fast: in a group of a million leaves most are skipped by their type."""
    for inside, _ in _parts(error):
        if any(issubclass(cls, kind) for cls in set(map(type, inside))):
            yield from (one for one in inside if is_one(one, kind) and not is_one(one, BaseExceptionGroup))


def _parts(error: BaseException) -> Iterator[tuple[tuple[BaseException, ...], bool]]:
    """Yield the direct members of each nested group, and whether any member is itself a group."""
    waiting: list[tuple[BaseException, ...]] = [(error,)]
    while waiting:
        inside = waiting.pop()
        mixed = any(issubclass(cls, BaseExceptionGroup) for cls in set(map(type, inside)))
        yield inside, mixed
        if mixed:
            waiting.extend(_inside(one) for one in inside if is_one(one, BaseExceptionGroup))


def split(error: BaseException, kind: type[BaseException]) -> tuple[BaseException | None, BaseException | None]:
    """Split an error into the part of a kind and the rest; either may be None.

    For a group that cannot be split, such as one nested too deep: the first leaf of that kind, and the whole group as the
    rest.
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
