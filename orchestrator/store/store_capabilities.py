"""What a store may be able to do besides `Store`, each a small protocol: whoever has its methods has the capability.

    Counted    metrics: its records without their weight, and how many messages wait
    Watched    others write to it as well, or can take it away: messages and answers from outside reach a running harness
    InFile     it is a file: kill switch, key, control socket and what is hidden from sandboxes lie beside it
    Timed      when steps were made, without reading them
    Keyed      what its approvals are signed with, where that is in no file beside it

The program asks for these by their names here, never for a class of store. `orchestrator.store.conformance` holds each store
to the laws of those that it has.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable

from orchestrator.records import ApprovalRecord, ChildRecord, HarnessRecord, Record, StepRecord


@runtime_checkable
class Counted(Protocol):
    """A store that can be counted beside a run without hindering it."""

    def outlines(self, *, after: int = 0, limit: int = 1000) -> list[Record]:
        """Return records as `Store.records` does; of their bodies no more than what is counted may be there."""
        ...

    def messages_waiting(self) -> int:
        """Return how many messages no step has used up."""
        ...


@runtime_checkable
class Watched(Protocol):
    """A store that others can write to as well, or take away."""

    def check_in_place(self) -> None:
        """Raise `StoreError` if what is written there is not what others read."""
        ...

    def arrivals(self, *, after: int) -> Sequence[tuple[str, int]]:
        """Return each harness that has messages with `seq > after`, and the `seq` of its newest."""
        ...

    def answers(self, *, after: int, limit: int) -> Sequence[tuple[int, str]]:
        """Return at most `limit` answers to requests for approvals with `seq > after`: `seq`, and the id of the request."""
        ...


@runtime_checkable
class InFile(Protocol):
    """A store in a file."""

    @property
    def path(self) -> Path | None:
        """Where it is; None of one that only may be in a file."""
        ...


@runtime_checkable
class Keyed(Protocol):
    """A store that has a key of its own."""

    @property
    def secret(self) -> bytes | None:
        """What its approvals are signed with; None if that is in the file beside it."""
        ...


@runtime_checkable
class Timed(Protocol):
    """A store that knows when steps were made without reading them."""

    def step_times(self, name: str, *, after: int) -> list[int]:
        """Return when the steps from number `after + 1` were made, microseconds since 1970; at most a thousand."""
        ...


class Roster(Protocol):
    """What tells where harnesses stand: every store, and every reader of one."""

    @property
    def location(self) -> str:
        """For people: where it is."""
        ...

    def harnesses(self) -> list[HarnessRecord]: ...

    def approvals(self, name: str | None = None) -> list[ApprovalRecord]: ...

    def steps(self, name: str, *, after: int = 0, limit: int = 1000) -> list[StepRecord]: ...

    def children(self, name: str | None = None) -> Sequence[ChildRecord]: ...


def path_of(store: object) -> Path | None:
    """Return the file that a store is in; None if it is in none."""
    return store.path if isinstance(store, InFile) else None


def secret_of(store: object) -> bytes | None:
    """Return the key that a store has of its own; None if it is in a file beside it, or not made yet."""
    return store.secret if isinstance(store, Keyed) else None
