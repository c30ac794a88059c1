"""What is known of effects, the acts on the world that must not happen twice: values, and the journal they are written in."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from enum import StrEnum
from typing import Any, Protocol, TypeAlias

from attrs import frozen

from harnesses.effects.approval import Action, Grant


class EffectOutcome(StrEnum):
    """What is known of an effect."""

    BEGUN = "begun"
    """The intent is on record, and no outcome: it is under way, or was cut off."""
    CONFIRMED = "confirmed"
    """It has happened."""
    REFUSED = "refused"
    """The world has said no: it has not happened, and is not tried again."""
    UNKNOWN = "unknown"
    """It may have happened."""
    NOT_DONE = "not_done"
    """It has not happened, and may be tried."""


OPEN = (EffectOutcome.BEGUN, EffectOutcome.UNKNOWN)
"""What has to be settled before its step can be recorded."""


@frozen
class Effect:
    """What is on record of one effect of the step being made."""

    key: str
    arguments: Any
    """As plain data: a list."""
    outcome: EffectOutcome
    result: Any = None
    """As plain data; None unless it is confirmed."""
    reason: str = ""
    """Why it was refused, or why nothing is known of it."""
    idempotent: bool = False
    """Whether doing it again does no harm."""


@frozen
class Confirmed:
    """The answer of a `reconcile`: it has happened, and this is what the function would have returned."""

    result: Any = None


@frozen
class NotDone:
    """The answer of a `reconcile`: it has not happened, and what was sent before cannot make it happen any more."""


@frozen
class Undecided:
    """The answer of a `reconcile`: nobody knows."""

    reason: str = ""


Answer: TypeAlias = Confirmed | NotDone | Undecided
Reconcile: TypeAlias = Callable[..., Answer | Awaitable[Answer]]


class Journal(Protocol):
    """Where intents and outcomes are written down, and who may forbid an effect."""

    async def note(self, kind: str, body: str) -> None:
        """Return when an `intent` or an `outcome` is on record. Never raises `Cancelled`."""
        ...

    def note_soon(self, kind: str, body: str) -> None:
        """Have it recorded without waiting."""
        ...

    async def approve(self, key: str, action: Action) -> Grant:
        """Return when a person has approved an action of the step being made; the approval is taken up then.

        Raises:
            ApprovalDenied, ApprovalExpired, ApprovalInvalid: it may not be done.
            Stopping: the harness is to stop. It is asked no second time when it is started again.
        """
        ...

    def check_latch(self) -> None:
        """Return if an effect may begin.

        Raises:
            Latched: the kill switch is on.
        """
        ...
