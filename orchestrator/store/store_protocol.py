"""The `Store` protocol: an ordered, durable record of everything that happened, and the one authority over it.

The laws, tested by `orchestrator.store.conformance` for every store:

    commit is all or nothing, and durable when it returns
    `seq` is one order over everything, without repeat; a record's `seq` never changes
    the steps of one harness are 1, 2, 3 … without gaps or repeats
    a harness belongs to one run at a time; a run that has lost it cannot append
    the intent or outcome of an effect belongs to its owner, and to a step of its own commit, or to the one after the last
    a message that a step sends is in the mailbox exactly if the step is written; a step with a message that cannot be
    delivered is not written
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
    """A step to be written."""

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
    """JSON of the whole state after the step, in some steps only: a snapshot."""


class EffectRow(NamedTuple):
    """An intent or outcome of an effect, a line of output, or an attachment of a step, to be written."""

    harness: int
    epoch: int
    attempt: int
    step: int
    """Number of the step in progress: the one after the last recorded one."""
    time_us: int
    body: str
    """JSON object: `key`; of an intent `arguments`, and `idempotent` or `keep` if it is; of an outcome `outcome`, `result`,
    `reason`; of output `line`, and `source` if it has one.
    """
    kind: str
    """`intent`, `outcome` or `output`; or, for an attachment of a step in the same commit, one of
    `harnesses.attachments.KINDS` or `child`.
    """


class AwaitedIntent(EffectRow):
    """An intent whose effect begins only once it is written. A store that has its kill switch refuses it while that is on."""

    __slots__ = ()


EFFECT_KINDS = ("intent", "outcome")
"""Kinds of effect records."""


class VersionRow(NamedTuple):
    """Where the states of a harness begin to have another version than 1."""

    step: int
    """The version applies after this step: to the migrated state of a migration, and to the states of later steps."""
    version: int
    seq: int
    """`seq` of the record of the migration; 0 for the initial state."""


@frozen
class Claim:
    """Claim a harness for this run, creating it if it is new. Result: `Claimed`, or `OwnedElsewhere`.

    A completed harness is not assigned unless `reopen` is set, since it has nothing left to do.
    """

    name: str
    initial_state: str
    """JSON; used if the harness is new."""
    harness_class: str = ""
    take_over: bool = False
    """Take it even from a living process, where it then fails with `OwnershipLost`."""
    reopen: bool = False
    """Take it even if it is completed."""
    goes_on: bool = False
    """Refuse one that has ended, unless its program ended: another program may have come to its end meanwhile."""
    state_version: int = 1
    """Version of the initial state's class; stored if the harness is new."""
    mailbox_limit: int | None = None
    """Limit on waiting messages in its mailbox from now on, if it is claimed; None for no limit."""


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
    """Status of the harness after the event."""
    release: bool = False
    """Whether to release the harness with it, so that another run can claim it."""


@frozen
class Migrate:
    """Record the state that a harness continues with instead of the one after its last step. Result: its `seq`.

    The states up to that step are unchanged. The delta of the next step contains the whole state. Refused with
    `OwnershipLost`, and with `UsageError` if the harness has made another step, or has that version already.
    """

    harness: int
    epoch: int
    attempt: int
    step: int
    """The last step."""
    time_us: int
    from_version: int
    to_version: int
    state: str
    """JSON of the migrated state."""


@frozen
class Settle:
    """Record how a person settled an effect of unknown outcome. Result: its `seq`.

    Refused with `UsageError` if there is no such effect, or it needs no settling, and with `OwnedElsewhere` while a living
    process is running the harness, since that may be checking the outcome itself.
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
    """Record what an operator did to one harness, or to all if there is no name. Result: its `seq`, or `UnknownHarness`."""

    name: str
    kind: str
    body: str
    """JSON object."""
    time_us: int


@frozen
class Past:
    """The records that a fork copies from another store."""

    location: str
    harness_class: str
    initial_state: str
    """JSON of the initial state."""
    attempt: int
    """Attempt of the last copied step; likewise its run, and the `seq` of its record."""
    seq: int
    run: str
    rows: Callable[[int, int], Sequence[StepRow]]
    """Reads steps as `Store.step_rows` does: after a number (first argument), at most a count (second argument)."""
    versions: Sequence[VersionRow] = ()


@frozen
class Fork:
    """Create a harness under a new name with the steps of another up to `step`. Result: the `seq` of its `Forked`.

    Copied is what belongs to the steps: time, attempt, input, output, delta, snapshots, and what is kept with each; and the
    records in `beside`. Other effects, messages, approvals and attachments are not copied. Refused with `UnknownHarness`, or
    with `UsageError` if the name is taken or there is no such step. The fork has no owner until it is started.
    """

    name: str
    origin: str
    step: int
    """Number of the last copied step; 0 is the initial state."""
    time_us: int
    past: Past | None = None
    """Data of the origin, if that is in another store."""
    model: str = ""
    """The model that its model agents ask instead of their own; empty for their own."""
    rounds: int = 0
    """How many model calls of the next step are in `beside`."""
    beside: Sequence[EffectRow] = ()
    """Transcripts of the copied steps, and effects of the next one; `harness` and `epoch` are those of the fork."""


HELD = (Migrate, Reserve, Charge, Ask, TakeUp)
"""Operations that only the owner of their harness may submit."""
Operation: TypeAlias = Claim | Append | Migrate | Post | Settle | Remark | Fork | BudgetOperation | ApprovalOperation


@frozen
class Claimed:
    """What a run needs to know of a harness to continue it."""

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
    """Fields of the last `Restarting` since the last end, empty if there was none: counted restarts and due time."""
    unsaved_steps: int
    """Steps since the last snapshot."""
    marks: tuple[tuple[str, str], ...] = ()
    """Kind and body of each intent and outcome of the step after `step`, oldest first."""
    state_version: int = 1
    """Version of the class that `state` was stored with."""
    migrated: bool = False
    """Whether `state` was migrated after `step`, so that no step has it in its delta yet."""
    kept: Mapping[str, Mapping[str, Any]] = MappingProxyType({})
    """Data kept with the last step, by name: `ticks` (the progress of the harness's tickers) and `governance`."""
    children: Sequence[ChildRecord] = ()
    """Children of the harness, oldest first."""
    model: str = ""
    """The model that its model agents ask instead of their own, from its `Fork`; empty for their own."""
    time_limits: Mapping[str, Any] = MappingProxyType({})
    """The last record of kind `limits_set`; empty if an operator has never set its time limits."""


class Committed(NamedTuple):
    """The result of a commit."""

    seqs: Sequence[int]
    """`seq`s of the steps, in order; 0 for one not written, since its harness was lost or it was not the next step."""
    results: Sequence[Any]
    """Results of the operations, in order; the exception of a refused one."""
    lost: frozenset[int] = frozenset()
    """Harnesses that now belong to another run; none of their steps was written."""
    effects: Sequence[int] = ()
    """`seq`s of the effect rows, in order; 0 as above."""
    before: Mapping[int, int] = MappingProxyType({})
    """For each message put into a mailbox, by its `seq`: the `seq` of the newest one waiting there before it, 0 if there was
    none; replies do not count. A store that does not tell is queried for each message.
    """
    sent: Sequence[int] = ()
    """`seq`s of the messages that steps sent, in order; 0 for one whose step was not written."""
    refused: Mapping[int, OrchestratorError] = MappingProxyType({})
    """Errors of the steps that were not written because a message could not be delivered, by harness."""
    stored: Mapping[int, str] = MappingProxyType({})
    """Bodies, as recorded, of the effect rows with a large value in a file, by their place in `effects`."""


class Store(Protocol):
    """An ordered, durable record of everything that happened."""

    blocking: bool
    """Whether `commit` waits for a disk or a network, and so belongs in a thread."""
    location: str
    """Location of the store, for messages."""

    @property
    def run(self) -> str:
        """Name of this run, which owns the harnesses claimed through this object."""
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
        """Write everything in one transaction: steps, then effects, then sent messages, then operations. Durable on return.

        Args:
            wait: whether to wait for another process's write lock, or raise `StoreBusy` at once.

        Raises:
            StoreError: nothing of it was written.
        """
        ...

    def close(self) -> None:
        """Release every harness, and close the store."""
        ...

    def harnesses(self) -> list[HarnessRecord]:
        """Return every harness, in order of first start."""
        ...

    def steps(self, name: str, *, after: int = 0, limit: int = 1000) -> list[StepRecord]:
        """Return at most `limit` steps of one harness, oldest first, from number `after + 1`.

        Raises:
            UnknownHarness: there is no such harness.
        """
        ...

    def state_at(self, name: str, step: int) -> str:
        """Return the JSON of the state after `step`; 0 is the initial state.

        Raises:
            UnknownHarness: there is no such harness.
            UsageError: it has no such step.
        """
        ...

    def state_versions(self, name: str) -> list[VersionRow]:
        """Return the versions of a harness's states, in order of step and version.

        Raises:
            UnknownHarness: there is no such harness.
        """
        ...

    def step_rows(self, name: str, *, after: int = 0, limit: int = 1000) -> list[StepRow]:
        """Return steps as `steps` does, but as they were written, including snapshots, for copying.

        Raises:
            UnknownHarness: there is no such harness.
        """
        ...

    def mailbox(self, name: str, *, after: int = 0, limit: int = 1000) -> list[Message]:
        """Return unconsumed messages to one harness, without replies, with `seq > after`, oldest first.

        At most `limit`; fewer if they are large, but none only if there are none.

        Raises:
            UnknownHarness: there is no such harness.
        """
        ...

    def replies(self, name: str) -> list[Message]:
        """Return the unconsumed replies to one harness, oldest first.

        Raises:
            UnknownHarness: there is no such harness.
        """
        ...

    def room(self, name: str) -> int | None:
        """Return how many more messages the mailbox of a harness accepts; None for any number.

        Raises:
            UnknownHarness: there is no such harness; the error names the existing ones.
        """
        ...

    def effects(self, name: str | None = None, *, current: bool = False) -> list[EffectRecord]:
        """Return all effects, of one harness or of all, in the order in which they were last begun.

        Args:
            current: whether to return only those of steps in progress. No other effect can have an unknown outcome.

        Raises:
            UnknownHarness: there is no such harness.
        """
        ...

    def approvals(self, name: str | None = None) -> list[ApprovalRecord]:
        """Return all approval requests, of one harness or of all, in order.

        Raises:
            UnknownHarness: there is no such harness.
        """
        ...

    def children(self, name: str | None = None) -> Sequence[ChildRecord]:
        """Return the children of one harness, or of all, in start order.

        Raises:
            UnknownHarness: there is no such harness.
        """
        ...

    def accounts(self, pools: Collection[str] | None = None) -> dict[str, Account]:
        """Return the accounts of pools, all or some, by name; pools that were never funded or used are missing."""
        ...

    def last_seq(self) -> int:
        """Return the `seq` of the newest record; 0 if there is none."""
        ...

    def records(self, *, after: int = 0, limit: int = 1000) -> list[Record]:
        """Return at most `limit` records of any kind with `seq > after`, in order of `seq`."""
        ...
