"""Claiming a harness in the store, and loading its recorded history.

HarnessClaim() ──► submitted ──► OwnedElsewhere: an error
                            └──► its state, migrated if its class has changed ──► restored
                            └──► completed ──► reopens? ──► claimed again, as reopened
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attrs import evolve, frozen

from harnesses.base import BaseHarness
from harnesses.data.record_size import check_size
from harnesses.errors import Unstorable
from harnesses.step import Step
from harnesses.timing.clock import now_us
from orchestrator.child_spec import ChildSpec
from orchestrator.codec import encode_private
from orchestrator.errors import StateChanged, UsageError
from orchestrator.lifecycle import Status
from orchestrator.recording.grouped_steps import GroupedSteps
from orchestrator.runtime.actor import RunContext
from orchestrator.runtime.child_orders import ChildOrders
from orchestrator.runtime.started_children import Family
from orchestrator.runtime.status_record import StatusRecord
from orchestrator.states.state_migration import Readied, ready, version_for
from orchestrator.states.state_types import HarnessTypes
from orchestrator.store.store_protocol import Claim, Claimed, Migrate, Store


class HarnessClaim:
    """A claim that was sent to the store.

    Raises:
        Unstorable: the initial state cannot be stored.
        StateChanged: the state's class and its version do not agree.
    """

    __slots__ = ("_claim", "_context", "_group", "_harness", "_name", "_receipt", "_types", "is_reopened")

    def __init__(
        self,
        spec: ChildSpec,
        harness: BaseHarness[Any, Any, Any],
        types: HarnessTypes,
        mailbox_limit: int | None,
        context: RunContext,
        group: GroupedSteps | None = None,
    ) -> None:
        self._group = group
        self._name, self._harness, self._types, self._context = spec.name, harness, types, context
        self.is_reopened = False
        """Whether the harness had completed and is claimed because its `reopens()` returned true."""
        initial, version = self._initial()
        cls = type(harness)
        own: Any = {"state_version": version, "mailbox_limit": mailbox_limit, "goes_on": context.goes_on()}
        self._claim = Claim(spec.name, initial, f"{cls.__module__}:{cls.__qualname__}", spec.take_over, **own)
        self._receipt = context.recorder.submit(self._claim)

    def _initial(self) -> tuple[str, int]:
        """Return the JSON of the initial state, and the version of its class."""
        where = f"harness {self._name!r}"
        try:
            initial = encode_private(self._harness.state)
            check_size("the state", initial, self._context.most)
        except Unstorable as error:
            raise type(error)(f"{where}: its initial state cannot be stored: {error}") from error
        try:
            self._types.check(initial)
        except UsageError as error:
            raise Unstorable(f"{where}: its initial state can be stored, but not read back: {error}") from error
        try:
            return initial, version_for(self._types)
        except StateChanged as error:
            raise StateChanged(f"{where}: {error}") from error

    async def take_up(self, record: StatusRecord, orders: ChildOrders, family: Family) -> Claimed:
        """Wait for the claim; load the recorded history into the harness, and return it."""
        claimed: Claimed = await self._receipt
        family.take_up(claimed.children)
        try:
            readied = self._readied(claimed)
        except UsageError as error:
            self._take_over(claimed, record, orders)  # so that its end is recorded
            raise type(error)(f"harness {self._name!r}: {error}") from error
        await self._restore(claimed, readied, record, orders)
        if claimed.status is Status.COMPLETED and self._harness.reopens():
            self.is_reopened = True
            claimed = await self._context.recorder.submit(evolve(self._claim, reopen=True))
            # Prepared before it reopened: a migration runs once.
            await self._restore(claimed, readied, record, orders)
        return claimed

    def _readied(self, claimed: Claimed) -> Readied:
        """Return the state to continue with: the stored one, even if the harness died before its first attempt."""
        if (claimed.state, claimed.state_version) == (self._claim.initial_state, self._claim.state_version):
            return Readied(self._harness.state)
        return ready(self._types, claimed.state, claimed.state_version)

    async def _restore(self, claimed: Claimed, readied: Readied, record: StatusRecord, orders: ChildOrders) -> None:
        if readied.migrated is not None and self._owns(claimed):
            await self._note_migration(claimed, readied.migrated)
        self._take_over(claimed, record, orders)
        whole = readied.is_whole or claimed.migrated
        load = _StoredSteps(self._context.recorder.store, self._name, self._types, self._group)
        self._harness.restore(readied.state, claimed.step, load, whole=whole)

    def _owns(self, claimed: Claimed) -> bool:
        """Return whether the store assigned it to this run. It does not assign a completed harness unless that reopens."""
        return claimed.status is not Status.COMPLETED or self.is_reopened

    def _take_over(self, claimed: Claimed, record: StatusRecord, orders: ChildOrders) -> None:
        record.take_over(claimed, owned=self._owns(claimed))
        orders.restore_pause(claimed.status is Status.PAUSED or bool(claimed.event.get("paused")))

    async def _note_migration(self, claimed: Claimed, state: str) -> None:
        """Record the migrated state, which the harness continues with from here on."""
        check_size("its migrated state", state, self._context.most)
        row = (claimed.harness, claimed.epoch, claimed.attempt, claimed.step, now_us())
        await self._context.recorder.do(Migrate(*row, claimed.state_version, self._claim.state_version, state))


@frozen(eq=False)
class _StoredSteps:
    """Loads steps of one harness for its history, as long as it lives: it keeps nothing of the claim."""

    _store: Store
    _name: str
    _types: HarnessTypes
    _group: GroupedSteps | None

    def __call__(self, after: int, limit: int) -> Sequence[Step[Any, Any]]:
        steps = [self._types.step(record) for record in self._store.steps(self._name, after=after, limit=limit)]
        return steps if self._group is None else self._group.complete(steps, after, limit)
