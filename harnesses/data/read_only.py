"""Read-only views of states: the values that `self.state` returns.

Invariant: `read_only(value)` is equal to `value` and an instance of its class, also by `__class__`; mutating it in place, at
any depth, raises `HarnessMisuse`. Operations that make a new value of it (`copy`, `evolve`, `{**state}`, `list(state)`,
`detach`, pickle) return a mutable one. Lists and dicts inside a shallow copy (`evolve`, `{**state}`) still belong to the view,
and mutating them raises. A new state is detached, so no part of a view is ever stored.

    atoms, frozen records of them       returned as they are
    list, dict, set                     a subclass whose mutating methods raise
    mutable attrs class, dataclass      a subclass, made once per class, whose fields cannot be set
    others (mutable Structs, classes    a mutable copy: the caller compares it later with the original
    that restrict their subclasses)     (`View.is_guarded`)
"""

from __future__ import annotations

from abc import ABCMeta
from collections.abc import Callable, Iterable
from operator import is_
from typing import Any, Generic, NoReturn, cast

import msgspec

from harnesses.data.frozen_dict import FrozenDict
from harnesses.data.values import ATOMS, build, detach, field_values, fields_of, is_frozen
from harnesses.diagnostics.known_errors import read_only_state


class View:
    """A read-only view of a value.

    Args:
        value: a private copy that is not mutated any more.
    """

    __slots__ = ("is_guarded", "value")

    def __init__(self, value: object) -> None:
        self.is_guarded = True
        """Whether every mutation raises; if not, mutations are only found by comparing."""
        self.value: Any = self._of(value)

    def _of(self, value: Any) -> Any:
        cls: Any = value.__class__
        if cls in ATOMS:
            return value
        kind = _CONTAINERS.get(cls)
        if kind is not None:
            if cls is dict:
                return kind({key: self._of(item) for key, item in value.items()})
            return kind(value if ATOMS.issuperset(map(type, value)) else map(self._of, value))
        if cls is FrozenDict:
            shown = {key: self._of(item) for key, item in value.items()}
            return value if all(map(is_, shown.values(), value.values())) else FrozenDict(shown)
        if isinstance(value, tuple):
            items = list(map(self._of, cast(Any, value)))
            if all(map(is_, items, cast(Any, value))):
                return cast(Any, value)
            return tuple(items) if cls is tuple else cls._make(items)
        names = cls.__struct_fields__ if issubclass(cls, msgspec.Struct) else fields_of(cls)
        return value if names is None else self._of_record(cls, names, value)

    def _of_record(self, cls: type[Any], names: tuple[str, ...], value: Any) -> Any:
        values = field_values(names)(value)
        items = list(map(self._of, values))
        frozen = is_frozen(cls)
        if frozen and all(map(is_, items, values)):
            return value
        if issubclass(cls, msgspec.Struct):
            self.is_guarded = self.is_guarded and frozen
            return cls(**dict(zip(names, items, strict=True)))
        made = cls if frozen else _guard(cls)
        if made is None:
            self.is_guarded, made = False, cls
        return build(made, **dict(zip(names, items, strict=True)))


def read_only(value: Any) -> Any:
    """Return a read-only view of a private value."""
    return View(value).value


def _refusal(cls: type, name: str) -> Callable[..., NoReturn]:
    def refuse(self: object, *_: object, **__: object) -> NoReturn:
        raise read_only_state(f"{cls.__name__}.{name}")

    refuse.__name__ = name
    return refuse


def _class_of(cls: type) -> Any:
    """Return a `__class__` property that names `cls`, so that class comparisons accept the view."""
    return property(lambda self: cls)


def _reduced(cls: type) -> Callable[[Any, object], Any]:
    def reduce(self: Any, protocol: object) -> Any:
        return cls, (cls(self),)

    return reduce


def _called(cls: type) -> Callable[[Any], Any]:
    return lambda self: cls(self)


def _shown(cls: type) -> Callable[[Any], str]:
    return lambda self: repr(cls(self))


def _detached(self: Any, memo: object) -> Any:
    return detach(self)


def _view_class(cls: type, refused: Iterable[str], fresh: Iterable[str] = ()) -> type[Any]:
    """Make the read-only subclass of a container.

    Args:
        refused: methods that mutate it; they raise.
        fresh: methods that return a container; they return a mutable one.
    """
    body: dict[str, Any] = {
        "__slots__": (),
        "__doc__": f"A {cls.__name__} that is part of a state.",
        "__class__": _class_of(cls),
        "__copy__": _called(cls),
        "__deepcopy__": _detached,
        "__reduce_ex__": _reduced(cls),
        "__repr__": _shown(cls),
    }
    body |= {name: _refusal(cls, name) for name in refused}
    body |= {name: _fresh(cls, name) for name in fresh}
    return type(f"ReadOnly{cls.__name__.title()}", (cls,), body)


def _fresh(cls: type, name: str) -> Callable[..., Any]:
    plain = getattr(cls, name)

    def call(self: Any, *arguments: Any) -> Any:
        return plain(cls(self), *arguments)

    return call


_LIST = "append extend insert remove pop clear sort reverse __setitem__ __delitem__ __iadd__ __imul__"
_DICT = "__setitem__ __delitem__ __ior__ clear pop popitem setdefault update"
_SET = (
    "add clear difference_update discard intersection_update pop remove symmetric_difference_update update "
    "__iand__ __ior__ __isub__ __ixor__"
)
_SET_FRESH = "copy union difference intersection symmetric_difference __or__ __and__ __sub__ __xor__"
_CONTAINERS: dict[type, Callable[[Any], Any]] = {
    list: _view_class(list, _LIST.split()),
    dict: _view_class(dict, _DICT.split()),
    set: _view_class(set, _SET.split(), _SET_FRESH.split()),
}

_GUARDS: dict[type, type[Any] | None] = {}


def _guard(cls: type[Any]) -> type[Any] | None:
    """Return a subclass of a mutable record whose fields cannot be set; None if it cannot be subclassed."""
    if cls not in _GUARDS:
        _GUARDS[cls] = _make_guard(cls)
    return _GUARDS[cls]


def _make_guard(cls: type[Any]) -> type[Any] | None:
    # Do not subclass a class that registers or refuses its subclasses.
    looks = [base for base in cls.__mro__ if "__init_subclass__" in base.__dict__]
    if type(cls) not in (type, ABCMeta) or any(base not in (object, cast(Any, Generic)) for base in looks):
        return None
    names = fields_of(cls) or ()

    def refuse(self: object, name: str, *_: object) -> NoReturn:
        raise read_only_state(f"{cls.__qualname__}.{name}")

    def copied(self: Any) -> Any:
        return build(cls, **{name: getattr(self, name) for name in names})

    def reduced(self: Any, protocol: Any) -> Any:
        return copied(self).__reduce_ex__(protocol)

    body: dict[str, Any] = {
        "__slots__": (),
        "__module__": cls.__module__,
        "__qualname__": cls.__qualname__,
        "__doc__": cls.__doc__,
        "__class__": _class_of(cls),
        "__setattr__": refuse,
        "__delattr__": refuse,
        "__copy__": copied,
        "__deepcopy__": _detached,
        "__reduce_ex__": reduced,
    }
    # The encoder looks these up in the class itself.
    body |= {mark: getattr(cls, mark) for mark in ("__attrs_attrs__", "__dataclass_fields__") if hasattr(cls, mark)}
    try:
        return cast(Any, type(cls))(cls.__name__, (cls,), body)  # type: ignore[no-any-return]
    except TypeError:
        return None
