"""Optional capabilities of a store, each a small protocol: a store with the methods has the capability.

    Counted      metrics: its records reduced to the counted fields, and the number of waiting messages
    Watched      others can write to it or remove it: messages and answers from outside reach a running harness
    Heralded     it tells when others have written to it, so that nobody has to look again and again
    InFile       it is a file: kill switch, key, control socket and what is hidden from sandboxes are beside it
    Rostered     what is known of all harnesses, without counting their steps
    Timed        the times of steps, without reading the steps
    Keyed        the signing key of its approvals, if that is not in a file beside it
    Filed        it keeps large values in files, and records name them
    Placed       it is not in a file, but this machine keeps a local copy of it, and beside that what a file has beside it
    Switched     its kill switch is in it, and commits of intents heed it
    Ordered      orders to harnesses that run on other machines are given through it
    Leased       it is on a server: a run owns its harnesses while it renews a lease
    Transcribed  transcripts, effects of a step and the model of a fork, without reading all records

The program checks for these protocols, never for a class of store. `orchestrator.store.conformance` tests the laws of the
capabilities that a store has.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeAlias, runtime_checkable

from harnesses.data.large_values import ReadFile, StoredFile, StoredText, cannot_read, stored_file, with_value
from orchestrator.codec import decode
from orchestrator.kill_switch import KillSwitch, MemoryKillSwitch
from orchestrator.records import ApprovalRecord, ChildRecord, EffectRecord, HarnessRecord, Record, StepRecord
from orchestrator.store.run_orders import TakenOrder

_PAGE = 20
"""Transcripts read at a time."""


@runtime_checkable
class Counted(Protocol):
    """A store whose records can be counted beside a run without slowing it."""

    def outlines(self, *, after: int = 0, limit: int = 1000) -> list[Record]:
        """Return records as `Store.records` does; bodies may be reduced to the counted fields."""
        ...

    def messages_waiting(self) -> int:
        """Return how many messages no step has consumed."""
        ...


@runtime_checkable
class Watched(Protocol):
    """A store that others can write to or remove."""

    def check_in_place(self) -> None:
        """Raise `StoreError` if others no longer read what is written here."""
        ...

    def arrivals(self, *, after: int) -> Sequence[tuple[str, int]]:
        """Return each harness that has messages with `seq > after`, and the `seq` of its newest."""
        ...

    def answers(self, *, after: int, limit: int) -> Sequence[tuple[int, str]]:
        """Return at most `limit` answers to approval requests with `seq > after`: `seq`, and the id of the request."""
        ...


@runtime_checkable
class Heralded(Watched, Protocol):
    """A store that tells when others have written to it."""

    def wait_news(self, seconds: float) -> None:
        """Wait until others may have written a message or an answer, at most `seconds`, in one thread at a time."""
        ...

    def wake(self) -> None:
        """End a wait that is going on, from another thread."""
        ...


@runtime_checkable
class InFile(Protocol):
    """A store in a file."""

    @property
    def path(self) -> Path | None:
        """Path of the file; None if this store is not in a file."""
        ...


@runtime_checkable
class Keyed(Protocol):
    """A store with a signing key of its own."""

    @property
    def secret(self) -> bytes | None:
        """Signing key of its approvals; None if that is in the file beside it."""
        ...


@runtime_checkable
class Placed(Protocol):
    """A store that is not in a file, with a place on this machine."""

    @property
    def place(self) -> Path | None:
        """Path of its local copy, which need not be there yet; None if this machine has none."""
        ...


@runtime_checkable
class Switched(Protocol):
    """A store with its kill switch in it."""

    @property
    def kill_switch(self) -> KillSwitch:
        """The kill switch. A commit refuses an `AwaitedIntent` while it is on: `Committed.refused` has the error."""
        ...


@runtime_checkable
class Ordered(Protocol):
    """A store through which orders are given to the run that has a harness."""

    def take_orders(self, startable: Collection[str] = ()) -> Sequence[TakenOrder]:
        """Take the orders that are for this run, each once; return all that it has taken and not answered.

        Args:
            startable: harnesses that belong to no living run, which this one may start.
        """
        ...

    def answer_order(self, id: str, status: int, text: str) -> None:
        """Write the answer to an order, for whoever waits for it."""
        ...


@runtime_checkable
class Leased(Protocol):
    """A store on a server: every commit waits for a network, and a run owns its harnesses while it renews a lease."""

    @property
    def location(self) -> str:
        """Location of the store, for messages."""
        ...

    @property
    def lease_s(self) -> float:
        """Seconds after which the harnesses of a run that is gone can be claimed by another."""
        ...


@runtime_checkable
class Filed(Protocol):
    """A store that keeps large values in files; its records have a `file` instead, see `harnesses.data.large_values`."""

    def read_file(self, file: StoredFile) -> str:
        """Return the JSON of a value that is in a file.

        Raises:
            StoreError: it is missing, or was changed.
        """
        ...


@runtime_checkable
class Timed(Protocol):
    """A store that returns the times of steps without reading the steps."""

    def recent_times(self, names: Collection[str], count: int) -> Mapping[str, Sequence[int]]:
        """Return the times of the last `count` steps of some harnesses, microseconds since 1970, oldest first."""
        ...


class Roster(Protocol):
    """What tells the status of harnesses: every store, and every reader of one."""

    @property
    def location(self) -> str:
        """Location of the store, for messages."""
        ...

    def harnesses(self) -> list[HarnessRecord]: ...

    def approvals(self, name: str | None = None) -> list[ApprovalRecord]: ...

    def steps(self, name: str, *, after: int = 0, limit: int = 1000) -> list[StepRecord]: ...

    def effects(self, name: str | None = None, *, current: bool = False) -> list[EffectRecord]: ...

    def children(self, name: str | None = None) -> Sequence[ChildRecord]: ...


HarnessRow: TypeAlias = tuple[str, str, int, str, int, int, str]
"""The fields of a `HarnessRecord` as they are stored, without the number of its last step: the event is JSON."""


@runtime_checkable
class Rostered(Roster, Protocol):
    """A store whose harnesses can be asked for again and again, however many there are."""

    def roster(self) -> Sequence[HarnessRow]:
        """Return a row for each harness, in order of first start; the same object as before if none has changed."""
        ...

    def harnesses(self, names: Collection[str] | None = None) -> list[HarnessRecord]:
        """Return some harnesses, or all, in order of first start."""
        ...


def path_of(store: object) -> Path | None:
    """Return the path of a store's file; None if it has none."""
    return store.path if isinstance(store, InFile) else None


def place_beside(store: object) -> Path | None:
    """Return the path beside which the control socket of a store's programs is: that of its file or local copy."""
    return store.place if isinstance(store, Placed) else path_of(store)


def kill_switch_of(store: object) -> KillSwitch:
    """Return the kill switch of a store: its own, that beside its file, or one in memory."""
    if isinstance(store, Switched):
        return store.kill_switch
    path = path_of(store)
    return MemoryKillSwitch() if path is None else KillSwitch(path)


@runtime_checkable
class Transcribed(Protocol):
    """A store that finds transcripts of agents' turns, and what turns are made of, without reading all records."""

    def effect_records(self, name: str, step: int) -> list[Record]:
        """Return the intents and outcomes of effects of one step, recorded or in progress, oldest first.

        Raises:
            UnknownHarness: there is no such harness.
        """
        ...

    def model_of(self, name: str) -> str:
        """Return the model that the model agents of a fork ask instead of their own; empty for their own.

        Raises:
            UnknownHarness: there is no such harness.
        """
        ...

    def transcripts(
        self, name: str, *, step: int | None = None, session: str | None = None, skipped: int = 0, limit: int = 100
    ) -> list[Record]:
        """Return transcripts of one harness, newest first: all, those of one step, or those of one session.

        Raises:
            UnknownHarness: there is no such harness.
        """
        ...


def reader_of(store: object) -> ReadFile:
    """Return the function with which large values are read from the files of a store."""
    return store.read_file if isinstance(store, Filed) else cannot_read


def stored_text(store: object, kind: str, body: str) -> StoredText | None:
    """Return the large value that a record's body names; None if it names none."""
    file = stored_file(kind, body)
    return None if file is None else StoredText(file, reader_of(store))


def full_body(store: object, kind: str, body: str) -> str:
    """Return the body of a record with the value that is in a file, if one is.

    Raises:
        StoreError: the file is missing, or was changed.
    """
    file = stored_file(kind, body)
    return body if file is None else with_value(body, file, reader_of(store)(file))


def session_turns(store: object, name: str, session: str) -> list[dict[str, Any]]:
    """Return the recorded turns of one session of a harness, oldest first, from the last one with a compaction on.

    Raises:
        UnknownHarness: there is no such harness.
        StoreError: a file is missing, or was changed.
    """
    found: list[dict[str, Any]] = []
    while isinstance(store, Transcribed):
        page = store.transcripts(name, session=session, skipped=len(found), limit=_PAGE)
        for record in page:
            found.append(decode(full_body(store, record.kind, record.body)))
            if found[-1].get("compactions"):
                return found[::-1]
        if len(page) < _PAGE:
            break
    return found[::-1]


def secret_of(store: object) -> bytes | None:
    """Return a store's own signing key; None if that is in a file beside it, or not created yet."""
    return store.secret if isinstance(store, Keyed) else None
