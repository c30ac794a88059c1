"""`Governor`: the interface of guardrails that watch the steps of a harness and may stop it.

    step made ──look──► findings, attached to that very step ──► recorded ──check──► goes on, or an error

Invariant: a finding is on disk, with the step it belongs to, before the governor acts on it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from attrs import frozen

from harnesses.data.delta import Delta
from harnesses.step import Step


@frozen(kw_only=True)
class Finding:
    """A guardrail limit that was reached; recorded as `guardrail` with the step."""

    limit_name: str
    """Name of the limit."""
    current_value: str
    """What was measured, as text."""
    limit_value: str
    """The limit, as text."""
    reason: str
    """A sentence for the operator."""
    policy: str = "block"
    """What happens next: `tell`, `restart` or `block`."""


class Governor(Protocol):
    """Watches one harness. Its own state between two steps is stored with the last step."""

    def restore(self, kept: Mapping[str, Any], state: Callable[[], Any]) -> None:
        """Restore what `kept` returned at the last recorded step; called before an attempt.

        Args:
            kept: empty if nothing was stored.
            state: returns the state from which the attempt continues.
        """
        ...

    def look(self, step: Step[Any, Any], delta: Delta, state: Callable[[], Any]) -> Sequence[Finding]:
        """Inspect a step that is about to be recorded, and return the findings. Neither waits nor raises.

        Args:
            delta: the step's state changes.
            state: returns the whole state after the step; it is not a copy.
        """
        ...

    def kept(self) -> Mapping[str, Any]:
        """Return what to store with the step, as plain data; keep it small, since every step carries it."""
        ...

    def check(self) -> None:
        """Return if the harness may go on; called after the step is recorded.

        Raises:
            Waiting: a person has to decide.
            Exception: the harness is to crash and be restarted.
        """
        ...
