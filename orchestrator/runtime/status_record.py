"""The recorded lifecycle status of one harness: each change is an event that is allowed after the one before."""

from __future__ import annotations

from typing import Any

from attrs import define

from harnesses.base import BaseHarness
from harnesses.timing.clock import now_us
from orchestrator import events
from orchestrator.lifecycle import Status, follow, may_follow
from orchestrator.outcome import Outcome, OutcomeKind
from orchestrator.recording.attempt import AttemptId
from orchestrator.recording.commit_queue import Receipt
from orchestrator.recording.grouped_steps import GroupedSteps
from orchestrator.recording.recorder import Recorder
from orchestrator.store.store_protocol import Append, Claimed


@define(eq=False, repr=False)
class StatusRecord:
    """The recorded status of one harness, and the values shown for it."""

    name: str
    harness: BaseHarness[Any, Any, Any]
    _recorder: Recorder
    status: Status = Status.NEW
    attempt: int = 0
    """Number of the running attempt, or of the last one."""
    outcome: Outcome | None = None
    is_restored: bool = False
    """Whether the recorded history was loaded into the harness."""
    is_backing_off: bool = False
    """Whether a restart is recorded whose attempt has not begun."""
    group: GroupedSteps | None = None
    """Its accepted steps, if it has group durability."""
    _number: int = 0
    _epoch: int = 0
    _claimed_step: int = 0
    _pending: Receipt | None = None

    @property
    def id(self) -> AttemptId:
        return AttemptId(self.name, self._number, self._epoch, self.attempt)

    @property
    def step(self) -> int:
        """Number of the last recorded step; 0 until the store has told it."""
        if self.outcome is not None:
            return self.outcome.step  # The object may be running under another name by now.
        accepted = self.accepted_step
        return accepted if self.group is None else self.group.durable(accepted)

    @property
    def accepted_step(self) -> int:
        """Number of the last step that the harness has gone on after; without group durability it is recorded."""
        if self.outcome is not None:
            return self.outcome.step
        return self.harness.current_step if self.is_restored else self._claimed_step

    def take_over(self, claimed: Claimed, *, owned: bool) -> None:
        """Continue from the stored status.

        Args:
            owned: whether the store assigned the harness to this run; otherwise nothing can be recorded.
        """
        self.status, self.attempt, self._claimed_step = claimed.status, claimed.attempt, claimed.step
        if owned:
            self._number, self._epoch = claimed.harness, claimed.epoch

    async def note(self, event: events.Event, *, release: bool = False) -> None:
        """Record an event, if it is allowed, and wait until it is stored.

        Args:
            release: record it in any case, and give up ownership of the harness with it.
        """
        if may_follow(self.status, event) or release:
            self.status = follow(self.status, event, backing_off=self.is_backing_off)
            self.is_backing_off = self.is_backing_off or isinstance(event, events.Restarting)
            await self._recorder.do(self._append(event, release))

    async def note_pause(self, *, paused: bool) -> None:
        """Record a pause or its end, if the record differs."""
        if paused and self.status is not Status.PAUSED:
            await self.note(events.Paused())
        elif not paused and self.status is Status.PAUSED:
            await self.note(events.Resumed())
        self.settle_pending()

    def submit(self, event: events.Event) -> Receipt:
        """Record an operator's order; if it is not allowed now, the next attempt records it."""
        if not self._epoch or not may_follow(self.status, event):
            self._pending = self._pending or Receipt()
            return self._pending
        self.status = follow(self.status, event, backing_off=self.is_backing_off)
        return self._recorder.submit(self._append(event, release=False))

    def settle_pending(self) -> None:
        """Resolve the receipts of delayed orders: they are recorded, or never will be."""
        if self._pending is not None:
            self._pending.settle(None)
            self._pending = None

    async def finish(self, event: events.Event, error: BaseException | None = None) -> None:
        """Record the final event, and give up ownership of the harness."""
        await self.note(event, release=True)
        self.conclude(OutcomeKind(self.status.value), getattr(event, "cause", ""), error)

    def conclude(self, kind: OutcomeKind, cause: str = "", error: BaseException | None = None) -> None:
        """Set the outcome without recording anything."""
        self.outcome = Outcome(kind, cause, self.step, self.attempt, error)
        self.status = Status(kind)

    def may_end_with(self, event: events.Event) -> bool:
        """Return whether the store may be told of an end that nobody ordered."""
        return bool(self._epoch) and may_follow(self.status, event)

    def _append(self, event: events.Event, release: bool) -> Append:
        if self.group is not None:
            # In the store, what was accepted comes before the event.
            self.group.push()
        return Append(self._number, self._epoch, self.attempt, self.accepted_step, now_us(), event, self.status, release)
