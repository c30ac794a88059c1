"""Reading back what a function returned, as the type that it declares. Pure.

The type is looked at before the effect begins: one that could never be read back is refused while nothing has happened.
"""

from __future__ import annotations

import typing
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, TypeAlias

import msgspec

from harnesses.errors import HarnessMisuse, Unstorable

_decode = msgspec.json.Decoder().decode

Decode: TypeAlias = Callable[[str, str | None], Any]


def result_decoder(function: Callable[..., Any]) -> Decode:
    """Return what reads the result of a function back: in its annotated return type, else as plain data."""
    inner: Any = function
    while isinstance(inner, partial):
        inner = inner.func
    inner = getattr(inner, "__func__", inner)
    if "return" not in getattr(inner, "__annotations__", ()):
        return _plain
    try:
        return _typed(inner)
    except TypeError:
        return _make_typed(inner)


def _make_typed(function: Any) -> Decode:
    name = getattr(function, "__qualname__", repr(function))
    try:
        returns = typing.get_type_hints(function)["return"]
    except NameError as error:
        raise HarnessMisuse(
            f"effect: the return type {function.__annotations__['return']!r} of {name} can not be found: {error}; "
            "define it at the top of its module, or leave the annotation out to get plain data"
        ) from error
    origin = typing.get_origin(returns)
    if origin is not None and getattr(origin, "__name__", "") in ("Awaitable", "Coroutine"):
        returns = typing.get_args(returns)[-1]
    if returns in (Any, object) or isinstance(returns, typing.TypeVar):
        return _plain
    try:
        decoder = msgspec.json.Decoder(returns, strict=True)
    except TypeError as error:
        raise HarnessMisuse(
            f"effect: what {name} returns, {returns}, could not be read back: {error}; return plain data or an attrs class"
        ) from error
    return partial(_decode_as, decoder)


_typed = lru_cache(maxsize=512)(_make_typed)


def _plain(key: str, text: str | None) -> Any:
    return _decode(_present(key, text))


def _decode_as(decoder: Any, key: str, text: str | None) -> Any:
    try:
        return decoder.decode(_present(key, text))
    except msgspec.ValidationError as error:
        raise HarnessMisuse(
            f"effect {key!r} has happened, but what is on record of its result is not of the type that its function declares: "
            f"{error}; correct the annotation, or what `orchestrator effects settle` was told"
        ) from error


def _present(key: str, text: str | None) -> str:
    if text is None:
        raise Unstorable(f"effect {key!r} has happened, but its result could not be stored; return plain data")
    return text
