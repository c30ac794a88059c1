"""Calls observers and hooks on a separate thread, so that they can neither break nor delay a run.

Invariants: `notify` never waits and never raises. Errors of observers are logged; calls beyond `limit` waiting ones are
dropped. A phase starts once, and then either succeeds or fails once.
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
"""Maximum waiting calls."""
_JOIN_S = 1.0
"""Maximum seconds to finish waiting calls when the program ends."""

_Call: TypeAlias = tuple[Callable[..., object], tuple[Any, ...]]


@frozen(kw_only=True)
class CallCounts:
    """Counts of unsuccessful calls."""

    failed: int
    """Number of calls that raised an error."""
    dropped: int
    """Number of calls dropped because too many were waiting."""


class ObserverThread:
    """Makes calls one after the other, in order, on a daemon thread that starts with the first call."""

    def __init__(self, limit: int = MAX_WAITING) -> None:
        self._waiting: Queue[_Call | None] = Queue(limit)
        self._thread: threading.Thread | None = None
        self._failed = self._dropped = 0

    @property
    def counts(self) -> CallCounts:
        """The counts of unsuccessful calls so far."""
        return CallCounts(failed=self._failed, dropped=self._dropped)

    def notify(self, function: Callable[..., object], *args: Any) -> None:
        """Queue a call of `function(*args)`."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="harness observers", daemon=True)
            self._thread.start()
            atexit.register(self._finish)
        try:
            self._waiting.put_nowait((function, args))
        except Full:
            self._dropped += 1

    def close(self) -> None:
        """Let the thread end after the waiting calls. Does not wait for it."""
        if self._thread is not None:
            # A full queue has no room for the end marker either; the daemon thread then remains until the program ends.
            with suppress(Full):
                self._waiting.put_nowait(None)

    def _work(self) -> None:
        while (call := self._waiting.get()) is not None:
            function, args = call
            try:
                function(*args)
            except BaseException:  # a `SystemExit` from an observer must not end the run, like any other error
                self._failed += 1
                get_logger(__name__).warning("%r raised and was ignored", function, exc_info=True)
        atexit.unregister(self._finish)

    def _finish(self) -> None:
        self.close()
        if self._thread is not None:
            self._thread.join(_JOIN_S)


class Phase(StrEnum):
    """A phase of a feature harness."""

    INITIALIZER = "initializer"
    """Initialising the list."""
    TASK_ITERATION = "task_iteration"
    """A run, from its first step to its hand-off."""


class PhaseHooks(Protocol):
    """Called when phases start and end. Extend `NoHooks` to implement only some of the methods."""

    def on_phase_start(self, phase: Phase, harness: str, run: int) -> None:
        """Handle the start of a phase."""

    def on_phase_success(self, phase: Phase, harness: str, run: int, elapsed_s: float) -> None:
        """Handle the success of a phase."""

    def on_phase_failure(self, phase: Phase, harness: str, run: int, error: str, elapsed_s: float) -> None:
        """Handle the failure or interruption of a phase."""


class NoHooks(PhaseHooks):
    """Hooks that do nothing; extend it and override the methods you need."""


class Phases:
    """Tracks the current phase, and calls the hooks."""

    def __init__(self, hooks: PhaseHooks | None, thread: ObserverThread, harness: str) -> None:
        self._hooks = hooks
        self._thread = thread
        self._harness = harness
        self._current: tuple[Phase, int, float] | None = None

    @property
    def phase(self) -> Phase | None:
        """The current phase; None if there is none, or there are no hooks."""
        return None if self._current is None else self._current[0]

    def start(self, phase: Phase, run: int) -> None:
        """Start a phase, unless it is the current one."""
        if self._hooks is None or self._current is not None:
            return
        self._current = (phase, run, trio.current_time())
        self._notify("on_phase_start", phase, run)

    def succeed(self) -> None:
        """End the current phase as successful."""
        if self._hooks is not None and self._current is not None:
            (phase, run, since), self._current = self._current, None
            self._notify("on_phase_success", phase, run, trio.current_time() - since)

    def fail(self, error: str) -> None:
        """End the current phase as failed."""
        if self._hooks is not None and self._current is not None:
            (phase, run, since), self._current = self._current, None
            self._notify("on_phase_failure", phase, run, error, trio.current_time() - since)

    def _notify(self, hook: str, phase: Phase, run: int, *args: object) -> None:
        self._thread.notify(_call, self._hooks, hook, phase, self._harness, run, *args)


def _call(hooks: object, hook: str, *args: object) -> None:
    # Looked up here, on the hooks' thread, so that a missing method is reported as an error of the hooks.
    getattr(hooks, hook)(*args)
