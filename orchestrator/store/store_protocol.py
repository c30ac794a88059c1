"""What a store is: an ordered, durable record of everything that happened, and the one authority over it.

The laws, held by `orchestrator.store.conformance` for every store:

    commit is all or nothing, and durable when it returns
    `seq` is one order over everything, without repeat; a record's `seq` never changes
    the steps of one harness are 1, 2, 3 … without gap or repeat
    a harness belongs to one run at a time; whoever has lost it cannot append
    the intent or outcome of an effect belongs to the step after the last one of its harness, and to its owner
    a message that a step sends is in the mailbox if the step is written, and only then; a step of which one cannot be
    put in a mailbox is not written
    a reader sees whole commits only, and never makes a writer wait

A store is synchronous. One thread at a time writes; readers may be in any thread.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol, TypeAlias

from attrs import frozen

from harnesses.budgets.pools import Account
from harnesses.errors import OrchestratorError
from orchestrator.events import Event
from orchestrator.lifecycle import Status
from orchestrator.records import ApprovalRecord, ChildRecord, EffectRecord, HarnessRecord, Record, StepRecord
from orchestrator.store.store_operations import ApprovalOperation, Ask, BudgetOperation, Charge, Reserve, TakeUp
from orchestrator.store.store_operations import ConsumedRow as ConsumedRow
from orchestrator.store.store_operations import Message as Message
from orchestrator.store.store_operations import Post as Post
from orchestrator.store.store_operations import SentRow as SentRow


class StepRow(NamedTuple):
    """A step on its way to the store."""

    harness: int
    """The store's number for the harness, from its `Claimed`."""
    epoch: int
    attempt: int
    step: int
    time_us: int
    """Wall time, microseconds since 1970 UTC."""
    body: str
    """JSON object: `input`, `output`, `delta` (grammar in `harnesses.data.delta`), `summary` if there is one."""
    state: str | None = None
    """JSON of the whole state after the step, every so many steps: a snapshot."""


class EffectRow(NamedTuple):
    """The intent or the outcome of an effect, a line of output, or what is attached to a step, on its way to the store."""

    harness: int
    epoch: int
    attempt: int
    step: int
    """The step being made: the one after the last recorded one."""
    time_us: int
    body: str
    """JSON object: `key`; of an intent `arguments`, `idempotent` if it is; of an outcome `outcome`, `result`, `reason`. Of
    output: `line`, and `source` if it has one."""
    kind: str
    """`intent`, `outcome` or `output`; or one of `harnesses.attachments.KINDS`, or `child`, of the step in the same commit."""


EFFECT_KINDS = ("intent", "outcome")
"""Of the records that say what is known of effects."""


class VersionRow(NamedTuple):
    """Where the states of a harness begin to have another version than 1."""

    step: int
    """After it; of a migration, what the state after this step was migrated to has it, and the states after later ones."""
    version: int
    seq: int
    """Of the record of the migration; 0 for the initial state."""


@frozen
class Claim:
    """Take a harness over for this run, making it if it is new. Result: `Claimed`, or `OwnedElsewhere`.

    One that is completed is not taken, unless that is asked for: there is nothing left to do for it.
    """

    name: str
    initial_state: str
    """JSON; used if the harness is new."""
    harness_class: str = ""
    take_over: bool = False
    """Take it even from a living process, which will then fail with `OwnershipLost`."""
    reopen: bool = False
    """Take it although it is completed."""
    state_version: int = 1
    """Of the class of the initial state; kept if the harness is new."""
    mailbox_limit: int | None = None
    """How many messages may wait in its mailbox from now on, if it is taken; any number if None."""


@frozen
class Append:
    """Record an event. Result: its `seq`, or `OwnershipLost`."""

    harness: int
    epoch: int
    attempt: int
    step: int
    time_us: int
    event: Event
    status: Status
    """What the harness is in after it."""
    release: bool = False
    """Whether the harness is given up with it, so that another run may have it."""


@frozen
class Migrate:
    """Record the state that a harness goes on with instead of the one after its last step. Result: its `seq`.

    The states up to that step stay what they were. The next step has the whole state in its delta. Refused with
    `OwnershipLost`, and with `UsageError` if the harness has made another step, or has that version already.
    """

    harness: int
    epoch: int
    attempt: int
    step: int
    """The last one."""
    time_us: int
    from_version: int
    to_version: int
    state: str
    """JSON."""


@frozen
class Settle:
    """Say what became of an effect of unknown outcome: the word of a person. Result: its `seq`.

    Refused with `UsageError` if there is no such effect, or nothing to settle, and with `OwnedElsewhere` while a living
    process runs the harness: it may be asking the world itself.
    """

    name: str
    key: str
    done: bool
    result: str
    """JSON of what the effect's function would have returned; `null` if it was not done."""
    reason: str
    time_us: int


@frozen
class Remark:
    """Record what an operator did, to one harness or, without a name, to all. Result: its `seq`, or `UnknownHarness`."""

    name: str
    kind: str
    body: str
    """JSON object."""
    time_us: int


@frozen
class Past:
    """What a fork takes over from another store."""

    location: str
    harness_class: str
    initial_state: str
    """JSON."""
    attempt: int
    """That made the last step that is taken over, and the other two too: the `seq` of its record, and its run."""
    seq: int
    run: str
    rows: Callable[[int, int], Sequence[StepRow]]
    """Reads steps, as `Store.step_rows` does: at most so many (second) after that number (first)."""
    versions: Sequence[VersionRow] = ()


@frozen
class Fork:
    """Make a harness, under a new name, whose steps up to `step` are those of another. Result: the `seq` of its `Forked`.

    What belongs to the steps comes along: time, attempt, input, output, delta, snapshots, and what is kept with each. Effects,
    messages, approvals, and what was attached do not. Refused with `UnknownHarness`, or with `UsageError` if the name is taken
    or there is no such step. Nobody has it before it is started.
    """

    name: str
    origin: str
    step: int
    """From 0, which is the initial state."""
    time_us: int
    past: Past | None = None
    """The origin's, if that is in another store."""


HELD = (Migrate, Reserve, Charge, Ask, TakeUp)
"""Operations that only the run which holds their harness may ask for."""
Operation: TypeAlias = Claim | Append | Migrate | Post | Settle | Remark | Fork | BudgetOperation | ApprovalOperation


@frozen
class Claimed:
    """What a run needs to know of a harness to go on with it."""

    harness: int
    epoch: int
    status: Status
    attempt: int
    step: int
    state: str
    """JSON of the state after `step`."""
    event: dict[str, Any]
    """Fields of the last lifecycle event."""
    supervision: dict[str, Any]
    """Fields of the last `Restarting`, empty if there was none since the last end: the restarts that count, the due time."""
    unsaved_steps: int
    """Steps since the last snapshot."""
    marks: tuple[tuple[str, str], ...] = ()
    """Kind and body of each intent and outcome that belongs to the step after `step`, oldest first."""
    state_version: int = 1
    """Of the class that `state` was stored with."""
    migrated: bool = False
    """Whether `state` is what the one after `step` was migrated to: no step has it in its delta yet."""
    kept: Mapping[str, Mapping[str, Any]] = MappingProxyType({})
    """What was kept with the last step, by its name: `ticks`, where the tickers of the harness stood; `governance`."""
    children: Sequence[ChildRecord] = ()
    """The harnesses that it has started, oldest first."""


class Committed(NamedTuple):
    """What became of a commit."""

    seqs: Sequence[int]
    """Of the steps, in order; 0 for one that was not written: its harness was lost, or it was not the next step."""
    results: Sequence[Any]
    """Of the operations, in order; an exception if that one was refused."""
    lost: frozenset[int] = frozenset()
    """Harnesses that belong to another run now; none of their steps was written."""
    effects: Sequence[int] = ()
    """The `seq`s of the intents and outcomes, in order; 0 as above."""
    before: Mapping[int, int] = MappingProxyType({})
    """Of messages that were posted, by their `seq`: the `seq` of the newest one that was waiting in the same mailbox before
    it, 0 if there was none; replies do not count. A store that does not say is asked for each message."""
    sent: Sequence[int] = ()
    """The `seq`s of the messages that steps sent, in order; 0 for one whose step was not written."""
    refused: Mapping[int, OrchestratorError] = MappingProxyType({})
    """Of harnesses whose step was not written because a message could not be put in a mailbox: why."""


class Store(Protocol):
    """An ordered, durable record of everything that happened."""

    blocking: bool
    """Whether `commit` waits for a disk or a network, and so belongs in a thread."""
    location: str
    """For people: where it is."""

    @property
    def run(self) -> str:
        """The name of this life of the program over the store: what owns the harnesses claimed through this object."""
        ...

    def commit(
        self,
        steps: Sequence[StepRow],
        operations: Sequence[Operation] = (),
        *,
        effects: Sequence[EffectRow] = (),
        consumed: Sequence[ConsumedRow] = (),
        sent: Sequence[SentRow] = (),
        wait: bool = True,
    ) -> Committed:
        """Write all of it in one transaction, the steps first, then the effects, then what steps send; return when it is
        durable.

        Args:
            wait: whether to wait for another process's write lock, or raise `StoreBusy` at once.

        Raises:
            StoreError: nothing of it was written.
        """
        ...

    def close(self) -> None:
        """Give back every harness and the file."""
        ...

    def harnesses(self) -> list[HarnessRecord]:
        """Return every harness, in the order of their first start."""
        ...

    def steps(self, name: str, *, after: int = 0, limit: int = 1000) -> list[StepRecord]:
        """Return at most `limit` steps of one harness, oldest first, from number `after + 1`.

        Raises:
            UnknownHarness: there is no such harness.
        """
        ...

    def state_at(self, name: str, step: int) -> str:
        """Return the JSON of the state after `step`; 0 is the initial one.

        Raises:
            UnknownHarness: there is no such harness.
            UsageError: it has no such step.
        """
        ...

    def state_versions(self, name: str) -> list[VersionRow]:
        """Return where the states of a harness begin to have another version, in order of step and version.

        Raises:
            UnknownHarness: there is no such harness.
        """
        ...

    def step_rows(self, name: str, *, after: int = 0, limit: int = 1000) -> list[StepRow]:
        """Return steps as `steps` does, but as they were written, snapshots included: for whoever copies them.

        Raises:
            UnknownHarness: there is no such harness.
        """
        ...

    def mailbox(self, name: str, *, after: int = 0, limit: int = 1000) -> list[Message]:
        """Return messages to one harness, no replies, with `seq > after` that no step has used, oldest first.

        At most `limit`; it may be fewer, if they are large, but none only if there is none.

        Raises:
            UnknownHarness: there is no such harness.
        """
        ...

    def replies(self, name: str) -> list[Message]:
        """Return the replies to one harness that no step has used, oldest first.

        Raises:
            UnknownHarness: there is no such harness.
        """
        ...

    def room(self, name: str) -> int | None:
        """Return how many more messages the mailbox of a harness takes; None if any number.

        Raises:
            UnknownHarness: there is no such harness; the error names those that there are.
        """
        ...

    def effects(self, name: str | None = None, *, current: bool = False) -> list[EffectRecord]:
        """Return all effects, of one harness or of all, in the order in which they were begun last.

        Args:
            current: whether to return only those of steps being made. No other can be of unknown outcome.

        Raises:
            UnknownHarness: there is no such harness.
        """
        ...

    def approvals(self, name: str | None = None) -> list[ApprovalRecord]:
        """Return all that was asked of people, by one harness or by all, in the order in which it was asked.

        Raises:
            UnknownHarness: there is no such harness.
        """
        ...

    def children(self, name: str | None = None) -> Sequence[ChildRecord]:
        """Return the harnesses that one harness, or all of them, have started, in the order in which they were.

        Raises:
            UnknownHarness: there is no such harness.
        """
        ...

    def accounts(self, pools: Collection[str] | None = None) -> dict[str, Account]:
        """Return where pools stand, all or some, by name; one that nobody has funded or used is not there."""
        ...

    def last_seq(self) -> int:
        """Return the `seq` of the newest record; 0 if there is none."""
        ...

    def records(self, *, after: int = 0, limit: int = 1000) -> list[Record]:
        """Return at most `limit` records of any kind with `seq > after`, in order of `seq`."""
        ...
