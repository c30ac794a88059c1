"""Detects calls of a harness's coroutine methods that are not awaited, for which Python itself only warns.

Invariant: a step awaits all its calls before its `yield`. A call that is still referenced but not started by then counts as
forgotten too, since neither its work nor its outcome would belong to any step.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator
from functools import wraps
from typing import Any, Protocol, TypeVar, cast

import trio

from harnesses.errors import HarnessMisuse

MethodT = TypeVar("MethodT", bound=Callable[..., Coroutine[Any, Any, Any]])


class Calls:
    """The calls of one attempt that have not been awaited."""

    __slots__ = ("_dropped", "_waiting")

    def __init__(self) -> None:
        self._dropped = ""
        self._waiting: dict[int, str] | None = None

    def add(self, call: int, method: str) -> None:
        """Add a call of a method."""
        if self._waiting is None:
            self._waiting = {}
        self._waiting[call] = method

    def begin(self, call: int) -> None:
        """Remove a call that is now being awaited."""
        if self._waiting is not None:
            del self._waiting[call]

    def drop(self, call: int) -> None:
        """Note that a call was garbage-collected. It counts as forgotten if it never started."""
        if self._waiting is not None:
            self._dropped = self._waiting.pop(call, self._dropped)

    def check(self) -> None:
        """Raise `HarnessMisuse` if a call was not awaited."""
        method = self._dropped
        if self._waiting and not method:
            begun_soon = {*_of_new_tasks()}
            method = next((method for call, method in self._waiting.items() if call not in begun_soon), "")
        if method:
            raise HarnessMisuse(
                f"self.{method}(…) was called and not awaited, and has done nothing: expected `await self.{method}(…)` before "
                "the yield; write `await` before it"
            )


def _of_new_tasks() -> Iterator[int]:
    """Yield the calls made by `nursery.start_soon(self.send, …)` in the nurseries of this task: they are about to start."""
    for nursery in trio.lowlevel.current_task().child_nurseries:
        for task in nursery.child_tasks:
            frame = getattr(task.coro, "cr_frame", None)
            yield id(None if frame is None else frame.f_locals.get("call"))


class Caller(Protocol):
    """The part of a harness that records the calls."""

    unawaited_calls: Calls


class _Call:
    """A token for one call, held by the coroutine's frame: CPython frees both at the same time."""

    __slots__ = ("calls", "harness")

    def __init__(self, harness: Caller, method: str) -> None:
        self.harness = harness
        self.calls = harness.unawaited_calls
        self.calls.add(id(self), method)

    def __del__(self) -> None:
        self.calls.drop(id(self))


def to_be_awaited(method: MethodT) -> MethodT:
    """Decorate a coroutine method of a harness so that unawaited calls of it are detected."""
    name = method.__name__

    async def begun(call: _Call, *args: Any, **kwargs: Any) -> Any:
        call.calls.begin(id(call))
        return await method(call.harness, *args, **kwargs)

    begun.__name__, begun.__qualname__ = name, method.__qualname__

    @wraps(method)
    def called(harness: Caller, *args: Any, **kwargs: Any) -> Coroutine[Any, Any, Any]:
        return begun(_Call(harness, name), *args, **kwargs)

    return cast(MethodT, called)
