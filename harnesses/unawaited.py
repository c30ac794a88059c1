"""Calls of a harness's own coroutine methods that nobody awaits: Python drops them with no more than a warning.

The law: a call counts as forgotten when it is let go before it has begun, which CPython does at once. One that is kept, to be
awaited later or in a task of its own, does not count.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, Protocol, TypeVar, cast

from harnesses.errors import HarnessMisuse

MethodT = TypeVar("MethodT", bound=Callable[..., Coroutine[Any, Any, Any]])


class Caller(Protocol):
    """The part of a harness that is told."""

    unawaited_call: str
    """The method that was called last and not awaited; empty if there is none."""


class _Call:
    """One call. The frame of its coroutine holds it: it goes when that goes."""

    __slots__ = ("harness", "has_begun", "method")

    def __init__(self, harness: Caller, method: str) -> None:
        self.harness = harness
        self.method = method
        self.has_begun = False

    def __del__(self) -> None:
        if not self.has_begun:
            self.harness.unawaited_call = self.method


def to_be_awaited(method: MethodT) -> MethodT:
    """Have a harness told of calls of one of its coroutine methods that are not awaited."""
    name = method.__name__

    async def begun(call: _Call, *args: Any, **kwargs: Any) -> Any:
        call.has_begun = True
        return await method(call.harness, *args, **kwargs)

    begun.__name__, begun.__qualname__ = name, method.__qualname__

    @wraps(method)
    def called(harness: Caller, *args: Any, **kwargs: Any) -> Coroutine[Any, Any, Any]:
        return begun(_Call(harness, name), *args, **kwargs)

    return cast(MethodT, called)


def unawaited(method: str) -> HarnessMisuse:
    """Return the error for a method that was called and not awaited."""
    return HarnessMisuse(
        f"self.{method}(…) was called and not awaited, and has done nothing: expected `await self.{method}(…)`; "
        "write `await` before it"
    )
