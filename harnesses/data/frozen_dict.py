"""`FrozenDict`: a dict that cannot be changed, for states, inputs and outputs that are used at every step.

Invariant: it equals a dict of the same items, encodes to the same JSON, and every method that would change it raises. A value
made of frozen classes, tuples and these is never copied: `values.detach` looks at the contents of each one once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NoReturn, TypeVar

from harnesses.errors import HarnessMisuse

K = TypeVar("K")
V = TypeVar("V")


def _refusal(name: str) -> Callable[..., NoReturn]:
    def refuse(self: object, *_: object, **__: object) -> NoReturn:
        raise HarnessMisuse(f"FrozenDict.{name}: it cannot be changed: expected a new one; make it of {{**old, key: value}}")

    refuse.__name__ = name
    return refuse


class FrozenDict(dict[K, V]):
    """A dict that cannot be changed; see the module."""

    __slots__ = ("cost",)

    cost: int
    """What the contents cost `values.detach`; set once they are known to be immutable."""

    __setitem__ = __delitem__ = __ior__ = _refusal("__setitem__")  # pyright: ignore
    clear = pop = popitem = setdefault = update = _refusal("update")  # pyright: ignore

    def __copy__(self) -> FrozenDict[K, V]:
        return self

    def __reduce_ex__(self, protocol: object) -> Any:
        return FrozenDict, (dict(self),)


DICTS: frozenset[type] = frozenset({dict, FrozenDict})


def freeze(noun: object, *names: str) -> None:
    """Turn dicts in fields of a frozen value into `FrozenDict`s, from its `__attrs_post_init__`."""
    for name in names:
        value: Mapping[Any, Any] = getattr(noun, name)
        if value.__class__ is not FrozenDict:
            # Allowed on a frozen object only here, while it is being constructed.
            object.__setattr__(noun, name, FrozenDict(value))
