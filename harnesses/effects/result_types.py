"""Reading back what a function returned, as the type that it declares. Pure.

The type is looked at before the effect begins: one that could never be read back is refused while nothing has happened.
"""

from __future__ import annotations

import typing
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from types import SimpleNamespace
from typing import Any, TypeAlias, cast

import msgspec
import msgspec.inspect

from harnesses.errors import HarnessMisuse, Waiting

_decode = msgspec.json.Decoder().decode

Decode: TypeAlias = Callable[[str, str | None], Any]


def result_decoder(function: Callable[..., Any]) -> Decode:
    """Return what reads the result of a function back: in its annotated return type, else as plain data."""
    inner: Any = function
    while isinstance(inner, partial):
        inner = inner.func
    inner = getattr(inner, "__func__", inner)
    if isinstance(inner, type):
        return _typed(inner)
    if not hasattr(inner, "__qualname__"):
        inner = type(inner).__call__
    if "return" not in getattr(inner, "__annotations__", ()):
        return as_plain_data
    if getattr(inner, "__closure__", None):
        return _make_typed(inner)  # made anew for each effect: a cache would keep what it has closed over, and never be hit
    try:
        return _typed(inner)
    except TypeError:
        return _make_typed(inner)


def _make_typed(function: Any) -> Decode:
    name = getattr(function, "__qualname__", repr(function))
    returns: Any = function if isinstance(function, type) else _declared(function, name)
    origin = typing.get_origin(returns)
    if origin is not None and getattr(origin, "__name__", "") in ("Awaitable", "Coroutine"):
        returns = typing.get_args(returns)[-1]
    if returns in (Any, object) or isinstance(returns, typing.TypeVar):
        return as_plain_data
    try:
        return _reading(returns)
    except TypeError as error:
        raise HarnessMisuse(
            f"effect: what {name} returns, {returns}, could not be read back: {error}; return plain data or an attrs class"
        ) from error


def _declared(function: Any, name: str) -> Any:
    """Return the annotated return type; those of the parameters need not be there when the program runs."""
    said = function.__annotations__["return"]
    inner = function
    while hasattr(inner, "__wrapped__"):
        inner = inner.__wrapped__
    alone = SimpleNamespace(__annotations__={"return": said}, __type_params__=getattr(function, "__type_params__", ()))
    try:
        return typing.get_type_hints(alone, getattr(inner, "__globals__", {}))["return"]
    except (NameError, AttributeError) as error:
        raise HarnessMisuse(
            f"effect: the return type {said!r} of {name} cannot be found: {error}; "
            "define it at the top of its module, or leave the annotation out to get plain data"
        ) from error


_typed = lru_cache(maxsize=512)(_make_typed)


@lru_cache(maxsize=512)
def _reading(returns: Any) -> Decode:
    """Return what reads values of a type.

    Raises:
        TypeError: there can be none.
    """
    decoder = msgspec.json.Decoder(returns, strict=True)
    _check(msgspec.inspect.type_info(returns), set())
    return partial(_decode_as, decoder)


def _check(info: Any, seen: set[int]) -> None:
    """Look for what msgspec lets pass, though it cannot read it by itself: classes that it does not know."""
    if isinstance(info, tuple | list):
        for part in cast(Sequence[Any], info):
            _check(part, seen)
    elif isinstance(info, msgspec.inspect.CustomType):
        raise TypeError(f"{info.cls.__module__}.{info.cls.__qualname__} is not a type that JSON can carry")
    elif isinstance(info, msgspec.inspect.Type | msgspec.inspect.Field) and id(info) not in seen:
        seen.add(id(info))
        for field in info.__struct_fields__:
            _check(getattr(info, field), seen)


def as_plain_data(key: str, text: str | None) -> Any:
    """Return a result as numbers, text, lists and dicts."""
    return _decode(_present(key, text))


def _decode_as(decoder: Any, key: str, text: str | None) -> Any:
    try:
        return decoder.decode(_present(key, text))
    except msgspec.ValidationError as error:
        raise Waiting(
            f"effect {key!r} has happened, but what is on record of its result is not of the type that its function declares: "
            f"{error}; correct the annotation, or say what it was with `orchestrator effects settle … --as done --result JSON`"
        ) from error


def _present(key: str, text: str | None) -> str:
    if text is None:
        raise Waiting(
            f"effect {key!r} has happened, but there is nothing to be used on record of its result; say what it was with "
            "`orchestrator effects settle … --as done --result JSON`, and correct what the function returns"
        )
    return text
