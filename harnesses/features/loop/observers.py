"""Calls observers and hooks on a thread of their own, so that they can neither break nor delay a run.

The law: `notify` never waits and never raises. What they raise is logged; when `limit` calls wait, further ones are dropped. A
phase starts once and then succeeds or fails, exactly one of them.
"""

from __future__ import annotations

import atexit
import threading
from collections.abc import Callable
from contextlib import suppress
from enum import StrEnum
from queue import Full, Queue
from typing import Any, Protocol, TypeAlias

import trio
from attrs import frozen

from harnesses.diagnostics.program_log import get_logger

MAX_WAITING = 10_000
"""Calls that may wait for their turn."""
_JOIN_S = 1.0
"""What is still waiting when the program ends gets so long."""

_Call: TypeAlias = tuple[Callable[..., object], tuple[Any, ...]]


@frozen(kw_only=True)
class CallCounts:
    """How many calls went wrong."""

    failed: int
    """Those that raised."""
    dropped: int
    """Those that were not made because too many were waiting."""


class ObserverThread:
    """Makes calls one after the other, in order, on a daemon thread that begins with the first of them."""

    def __init__(self, limit: int = MAX_WAITING) -> None:
        self._waiting: Queue[_Call | None] = Queue(limit)
        self._thread: threading.Thread | None = None
        self._failed = self._dropped = 0

    @property
    def counts(self) -> CallCounts:
        """How many calls went wrong so far."""
        return CallCounts(failed=self._failed, dropped=self._dropped)

    def notify(self, function: Callable[..., object], *args: Any) -> None:
        """Have `function(*args)` called soon."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="harness observers", daemon=True)
            self._thread.start()
            atexit.register(self._finish)
        try:
            self._waiting.put_nowait((function, args))
        except Full:
            self._dropped += 1

    def close(self) -> None:
        """Let the thread end when it has made the calls that wait. Does not wait for it."""
        if self._thread is not None:
            # A full queue has no room for the end either; then the daemon thread stays until the program ends.
            with suppress(Full):
                self._waiting.put_nowait(None)

    def _work(self) -> None:
        while (call := self._waiting.get()) is not None:
            function, args = call
            try:
                function(*args)
            except BaseException:  # the `SystemExit` of an observer is no more the end of the run than its errors are
                self._failed += 1
                get_logger(__name__).warning("%r raised and was ignored", function, exc_info=True)
        atexit.unregister(self._finish)

    def _finish(self) -> None:
        self.close()
        if self._thread is not None:
            self._thread.join(_JOIN_S)


class Phase(StrEnum):
    """What a feature harness is doing."""

    INITIALIZER = "initializer"
    """Setting up the list."""
    TASK_ITERATION = "task_iteration"
    """A run: from its first step to its hand-off."""


class PhaseHooks(Protocol):
    """Wants to know of phases. `NoHooks` has empty ones to extend."""

    def on_phase_start(self, phase: Phase, harness: str, run: int) -> None:
        """Know that a phase has started."""

    def on_phase_success(self, phase: Phase, harness: str, run: int, elapsed_s: float) -> None:
        """Know that it has come to a good end."""

    def on_phase_failure(self, phase: Phase, harness: str, run: int, error: str, elapsed_s: float) -> None:
        """Know that it has failed, or was cut off."""


class NoHooks(PhaseHooks):
    """Hooks that do nothing: extend it and write those that you need."""


class Phases:
    """Keeps track of the phase under way, and calls the hooks."""

    def __init__(self, hooks: PhaseHooks | None, thread: ObserverThread, harness: str) -> None:
        self._hooks = hooks
        self._thread = thread
        self._harness = harness
        self._current: tuple[Phase, int, float] | None = None

    @property
    def phase(self) -> Phase | None:
        """The phase under way; None if there is none, or nobody to tell."""
        return None if self._current is None else self._current[0]

    def start(self, phase: Phase, run: int) -> None:
        """Note that a phase starts, unless it is under way."""
        if self._hooks is None or self._current is not None:
            return
        self._current = (phase, run, trio.current_time())
        self._notify("on_phase_start", phase, run)

    def succeed(self) -> None:
        """Note that the phase under way has come to a good end."""
        if self._hooks is not None and self._current is not None:
            (phase, run, since), self._current = self._current, None
            self._notify("on_phase_success", phase, run, trio.current_time() - since)

    def fail(self, error: str) -> None:
        """Note that the phase under way has failed."""
        if self._hooks is not None and self._current is not None:
            (phase, run, since), self._current = self._current, None
            self._notify("on_phase_failure", phase, run, error, trio.current_time() - since)

    def _notify(self, hook: str, phase: Phase, run: int, *args: object) -> None:
        self._thread.notify(_call, self._hooks, hook, phase, self._harness, run, *args)


def _call(hooks: object, hook: str, *args: object) -> None:
    # Looked up here, on the thread of the hooks: that there is none is their trouble too.
    getattr(hooks, hook)(*args)
