"""What can go wrong with a feature list, in six kinds.

    HarnessError
    └── FeatureError
        ├── InvalidRequest      what was asked for cannot be: a blank objective, two features with one id, a policy
        ├── MemoryFailed        what was stored is not what is read, or cannot be written
        ├── ChatFailed          the agent's turn failed
        ├── ValidationFailed    the validator, or the selector, failed; not: the work was found wanting
        ├── HealthCheckFailed   the surroundings are not fit to work in
        └── NotReady            something that the work needs is missing

The law: the text begins with the kind, and the original error is the cause.
"""

from __future__ import annotations

from enum import StrEnum
from typing import ClassVar

from harnesses.errors import HarnessError, NoRestart
from harnesses.errors import NotReady as SomethingMissing


class FeatureErrorKind(StrEnum):
    """The six kinds, for those who handle all of them in one place."""

    INVALID_REQUEST = "InvalidRequest"
    MEMORY = "Memory"
    CHAT = "Chat"
    VALIDATION = "Validation"
    HEALTH_CHECK = "HealthCheck"
    NOT_READY = "NotReady"


class FeatureError(HarnessError):
    """The feature harness cannot go on."""

    kind: ClassVar[FeatureErrorKind]

    def __str__(self) -> str:
        return f"{self.kind}: {super().__str__()}"


class InvalidRequest(FeatureError, NoRestart):
    """What was asked for cannot be: the caller's mistake. Nothing was changed."""

    kind = FeatureErrorKind.INVALID_REQUEST


class MemoryFailed(FeatureError):
    """What was stored is not what is read, or cannot be written."""

    kind = FeatureErrorKind.MEMORY


class ChatFailed(FeatureError):
    """The agent's turn failed: it raised, or its stream ended before it was complete."""

    kind = FeatureErrorKind.CHAT


class ValidationFailed(FeatureError):
    """The validator or the selector failed; this says nothing about the work that was to be judged."""

    kind = FeatureErrorKind.VALIDATION


class HealthCheckFailed(FeatureError):
    """The surroundings are not fit to work in."""

    kind = FeatureErrorKind.HEALTH_CHECK


class NotReady(FeatureError, SomethingMissing):
    """Something that the work needs is missing. The harness is blocked until a person has seen to it."""

    kind = FeatureErrorKind.NOT_READY
