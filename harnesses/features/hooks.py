"""Hooks: what others are told of the phases of a feature harness.

A phase starts once and then succeeds or fails, exactly one of them. The hooks are called on a thread of their own, in
order; what they raise is logged, and how long they take is theirs alone.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Protocol

import trio

from harnesses.features.aside import Aside


class Phase(StrEnum):
    """What a feature harness is at."""

    INITIALIZER = "initializer"
    """Setting up the list."""
    TASK_ITERATION = "task_iteration"
    """A run: from its first step to its hand-off."""


class PhaseHooks(Protocol):
    """Wants to know of phases. `NoHooks` has empty ones to extend."""

    def on_phase_start(self, phase: Phase, harness: str, run: int) -> None:
        """Know that a phase has started."""
        ...

    def on_phase_success(self, phase: Phase, harness: str, run: int, elapsed_s: float) -> None:
        """Know that it has come to a good end."""
        ...

    def on_phase_failure(self, phase: Phase, harness: str, run: int, error: str, elapsed_s: float) -> None:
        """Know that it has failed, or was cut off."""
        ...


class NoHooks:
    """Hooks that do nothing: extend it and write those that you need."""

    def on_phase_start(self, phase: Phase, harness: str, run: int) -> None:
        """Do nothing."""

    def on_phase_success(self, phase: Phase, harness: str, run: int, elapsed_s: float) -> None:
        """Do nothing."""

    def on_phase_failure(self, phase: Phase, harness: str, run: int, error: str, elapsed_s: float) -> None:
        """Do nothing."""


class Phases:
    """Keeps track of the phase that is under way, and tells the hooks."""

    def __init__(self, hooks: PhaseHooks | None, aside: Aside, harness: str) -> None:
        self._hooks = hooks
        self._aside = aside
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
        self._tell("on_phase_start", phase, run)

    def succeed(self) -> None:
        """Note that the phase under way has come to a good end."""
        if self._hooks is not None and self._current is not None:
            (phase, run, since), self._current = self._current, None
            self._tell("on_phase_success", phase, run, trio.current_time() - since)

    def fail(self, error: str) -> None:
        """Note that the phase under way has failed."""
        if self._hooks is not None and self._current is not None:
            (phase, run, since), self._current = self._current, None
            self._tell("on_phase_failure", phase, run, error, trio.current_time() - since)

    def _tell(self, hook: str, phase: Phase, run: int, *told: object) -> None:
        self._aside.tell(_call, self._hooks, hook, phase, self._harness, run, *told)


def _call(hooks: object, hook: str, *args: object) -> None:
    # Looked up here, on the thread of the hooks: that there is none is their trouble too.
    getattr(hooks, hook)(*args)
