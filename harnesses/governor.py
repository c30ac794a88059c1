"""Who watches the steps of a harness from outside, and may say that it shall not go on.

    step made ──look──► findings, attached to that very step ──► recorded ──check──► goes on, or an error

The law: whatever a governor finds is on disk with the step it was found at; then only does it act.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from attrs import frozen

from harnesses.data.delta import Delta
from harnesses.step import Step


@frozen(kw_only=True)
class Finding:
    """A guardrail that has been reached; recorded as `guardrail` with the step."""

    limit_name: str
    current_value: str
    limit_value: str
    reason: str
    policy: str = "block"
    """What is done about it: `tell`, `restart` or `block`."""


class Governor(Protocol):
    """Watches one harness. What it knows between two looks is in the store, with the last step."""

    def restore(self, kept: Mapping[str, Any], state: Callable[[], Any]) -> None:
        """Take up what was kept with the last recorded step, before an attempt; empty if there was nothing.

        Args:
            state: gives the state from which the attempt goes on.
        """
        ...

    def look(self, step: Step[Any, Any], delta: Delta, state: Callable[[], Any]) -> Sequence[Finding]:
        """Look at a step that is about to be recorded, and return what is found. Neither waits nor raises.

        Args:
            delta: what it has changed.
            state: gives the whole state after it; it is not a copy.
        """
        ...

    def kept(self) -> Mapping[str, Any]:
        """Return what to keep with the step, as plain data; bounded, for each step has it."""
        ...

    def check(self) -> None:
        """Return if the harness may go on; called when the step is recorded.

        Raises:
            Waiting: a person has to decide.
            Exception: it is to crash, and to be started afresh.
        """
        ...
