"""Waiting for human approval: request it, wait, take up the answer.

Ask ──► recorded ──► the harness's clocks are stopped ──► TakeUp ──► approved: continue, and the use is recorded
 ▲         ▲               ▲                                │ │ └──► denied, expired, invalid: an error
 │         │               └──────── still pending ◄────────┘ │
 │   an answer, noticed at once in this process, or within    │
 │   the mail delivery's check interval from another          │
 └───────────────────── denied and reopened ◄─────────────────┘
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable

import trio
from attrs import frozen

from harnesses.control import Control
from harnesses.data.record_size import MAX_RECORD_BYTES, check_size
from harnesses.effects.approval import Action, Grant, Standing, Word, request_of
from harnesses.errors import ApprovalDenied, ApprovalExpired, ApprovalInvalid, HarnessError
from harnesses.timing.clock import WallClock
from orchestrator.codec import encode_private
from orchestrator.recording.attempt import AttemptId
from orchestrator.recording.commit_queue import Condition, Receipt
from orchestrator.recording.recorder import Recorder
from orchestrator.store.rules.signing_key import Secret
from orchestrator.store.store_operations import Ask, Asked, Respond, Taken, TakeUp


@frozen
class Asker:
    """One attempt of a harness, and its clocks."""

    id: AttemptId
    control: Control


class Approvals:
    """The approval requests of a run's harnesses."""

    def __init__(self, recorder: Recorder, clock: WallClock, most: int = MAX_RECORD_BYTES) -> None:
        self._recorder = recorder
        self._most = most
        self._clock = clock
        self._secret = Secret(recorder.store)
        self._waiting: dict[str, Condition] = {}
        """Conditions by the id of the awaited request."""
        self._answers: dict[str, int] = {}
        """How often each awaited request was answered since the wait began."""

    @property
    def waiting(self) -> int:
        """Number of requests that are being waited for."""
        return len(self._waiting)

    def ring(self, ids: Iterable[str]) -> None:
        """Wake those who wait for these requests: the answers are in the store."""
        for id in ids:
            if id in self._waiting:
                self._answers[id] += 1
                self._waiting[id].ring()

    def respond(self, id: str, verdict: str, by: str, reason: str) -> Receipt:
        """Record an answer; the receipt returns its `seq`, 0 if the same answer was recorded before."""
        said = Respond(id, verdict, by, reason, self._now_us(), self._secret.get(), self._clock.ticks())
        return self._recorder.submit(said, lambda _: self.ring((id,)))

    async def wait(self, asker: Asker, step: int, key: str, action: Action) -> Grant:
        """Wait until an action of the step in progress is approved; see `Journal.approve`."""
        while True:
            asked = await self._ask(asker, step, key, action)
            standing = await self._standing(asker, step, asked)
            if standing.word is Word.APPROVED:
                return Grant(asked.id, standing.by, standing.reason)
            # Reopened before the denial was seen: this loops at most once per reopening by a person.
            if standing.word is not Word.REOPENED:
                raise _refusal(asker.id.name, asked.id, key, action, standing)

    async def _ask(self, asker: Asker, step: int, key: str, action: Action) -> Asked:
        """Record the request, unless there is a valid one."""
        id, now_us, ticks = secrets.token_hex(5), self._now_us(), self._clock.ticks()
        wanted = request_of(id, asker.id.name, step, key, action, now_us=now_us, ticks=ticks)
        check_size(f"the approval request for {key!r:.100}", encode_private(wanted), self._most)
        of = (asker.id.number, asker.id.epoch, asker.id.attempt)
        asked: Asked = await self._recorder.do(Ask(*of, wanted, self._secret.get()))
        return asked

    async def _standing(self, asker: Asker, step: int, asked: Asked) -> Standing:
        """Wait until the request is no longer pending, and return its standing."""
        asker.control.park()
        try:
            while True:
                bell = self._waiting.setdefault(asked.id, Condition())
                seen = self._answers.setdefault(asked.id, 0)
                of = (asker.id.number, asker.id.epoch, asker.id.attempt, step, asked.id)
                look = TakeUp(*of, self._now_us(), self._secret.get(), self._clock.ticks())
                taken: Taken = await self._recorder.do(look)
                if taken.standing.word is not Word.PENDING:
                    return taken.standing
                with trio.move_on_after(taken.left_us / 1e6):
                    await asker.control.wait(bell.until, lambda seen=seen: self._answers.get(asked.id, seen + 1) > seen)
        finally:
            # If two wait for the same request, the other one checks again by itself.
            self._answers.pop(asked.id, None)
            if asked.id in self._waiting:
                self._waiting.pop(asked.id).ring()
            asker.control.unpark()

    def _now_us(self) -> int:
        return int(self._clock.now() * 1e6)


def _refusal(name: str, id: str, key: str, action: Action, standing: Standing) -> HarnessError:
    """Return the error for an action that is not approved."""
    what = f"{key!r} ({action.category}: {action.summary})"
    because = f": {standing.reason}" if standing.reason else ""
    if standing.word is Word.DENIED:
        return ApprovalDenied(
            f"{what} was denied by {standing.by}{because}; `orchestrator approvals reopen {id}` and "
            f"`orchestrator start {name}` make it ask again"
        )
    if standing.word is Word.EXPIRED:
        return ApprovalExpired(f"{what}: its request {id} has expired; `orchestrator start {name}` makes it ask again")
    return ApprovalInvalid(
        f"{what}: the record of its approval {id} cannot be trusted{because}; find out who changed the store, "
        "and restore it from a copy"
    )
