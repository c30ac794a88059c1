"""Errors of the feature harness, of six kinds.

    HarnessError
    └── FeatureError
        ├── InvalidRequest      the request is invalid: a blank objective, two features with one id, a bad policy
        ├── MemoryFailed        the stored data are inconsistent, or cannot be written
        ├── ChatFailed          the agent's turn failed
        ├── ValidationFailed    the validator or the selector failed (a rejected work is not an error)
        ├── HealthCheckFailed   the environment is not fit to work in
        └── NotReady            something that the work needs is missing

Invariant: the message begins with the kind, and the original error is the cause.
"""

from __future__ import annotations

from enum import StrEnum
from typing import ClassVar

from harnesses.errors import HarnessError, NoRestart
from harnesses.errors import NotReady as SomethingMissing


class FeatureErrorKind(StrEnum):
    """The six kinds of error, for callers that handle all of them in one place."""

    INVALID_REQUEST = "InvalidRequest"
    MEMORY = "Memory"
    CHAT = "Chat"
    VALIDATION = "Validation"
    HEALTH_CHECK = "HealthCheck"
    NOT_READY = "NotReady"


class FeatureError(HarnessError):
    """The feature harness cannot continue."""

    kind: ClassVar[FeatureErrorKind]

    def __str__(self) -> str:
        return f"{self.kind}: {super().__str__()}"


class InvalidRequest(FeatureError, NoRestart):
    """The request is invalid, which is the caller's mistake. Nothing was changed."""

    kind = FeatureErrorKind.INVALID_REQUEST


class MemoryFailed(FeatureError):
    """The stored data are inconsistent, or cannot be written."""

    kind = FeatureErrorKind.MEMORY


class ChatFailed(FeatureError):
    """The agent's turn failed: it raised an error, or its stream ended before the turn was complete."""

    kind = FeatureErrorKind.CHAT


class ValidationFailed(FeatureError):
    """The validator or the selector failed; this says nothing about the work."""

    kind = FeatureErrorKind.VALIDATION


class HealthCheckFailed(FeatureError):
    """The environment is not fit to work in."""

    kind = FeatureErrorKind.HEALTH_CHECK


class NotReady(FeatureError, SomethingMissing):
    """Something that the work needs is missing. The harness is blocked until an operator fixes this."""

    kind = FeatureErrorKind.NOT_READY
