"""Restarting one harness, or giving it up, as its supervisor has decided; its siblings too, where the strategy says so.

    verdict      what follows
    LEAVE        the exit ends the harness
    GIVE_UP      the exit ends it, and those are stopped that are given up with it
    RESTART      siblings are taken down ──► all idle ──► back-off ──► they are released

The law: between a verdict and the orders that follow from it there is no `await`, so two crashes at the same moment are two
verdicts, one after the other.
"""

from __future__ import annotations

import random
from math import inf
from typing import Protocol, cast

import trio
from attrs import evolve, frozen

from orchestrator import events
from orchestrator.child_spec import ChildSpec
from orchestrator.restart import Restart, delay_s
from orchestrator.runtime.child_orders import ChildOrders, Takedown
from orchestrator.runtime.failure_events import failed, sentence
from orchestrator.runtime.status_record import StatusRecord
from orchestrator.runtime.supervisor import Action, Supervisor, Verdict


class Sibling(Protocol):
    """What is done to another child of the supervisor."""

    spec: ChildSpec
    record: StatusRecord
    orders: ChildOrders


@frozen(eq=False)
class ChildRestarts:
    """The restarts of one harness.

    Args:
        parent: its supervisor.
        lag_s: wall time less Trio's time.
        redacted: whether secrets are taken out of what is recorded.
    """

    _spec: ChildSpec
    _parent: Supervisor
    _record: StatusRecord
    _orders: ChildOrders
    _lag_s: float
    _redacted: bool

    async def obey(self, verdict: Verdict, error: BaseException | None) -> None:
        """Do what the verdict on the harness's exit says."""
        ended: events.Event = events.Exhausted() if error is None else self.failed(error)
        found = cast(tuple[Sibling, ...], verdict.harnesses)
        others = [child for child in found if child.record is not self._record and child.record.outcome is None]
        match verdict.action:
            case Action.LEAVE:
                await self._record.finish(ended, error)
            case Action.GIVE_UP:
                cause = self.sentence(error)
                for child in others:
                    child.orders.stop(cause=f"its supervisor gave up when {self._spec.name!r} ended: {cause}")
                await self._record.note(ended)
                count, period_s = len(verdict.restarts), self._parent.intensity.period_s
                gave_up = events.GaveUp(f"{count} restarts within {period_s:g} s; {cause}", count, period_s)
                await self._record.finish(gave_up, error)
            case Action.RESTART:
                await self._restart(self._restarting(error, verdict), ended, others)

    async def _restart(self, restarting: events.Restarting, ended: events.Event, others: list[Sibling]) -> None:
        takedowns = [(child, _take_down(child, restarting)) for child in reversed(others)]
        try:
            await self._record.note(ended)
            await self._record.note(restarting)
            await self._record.note_pause(paused=self._orders.is_paused)
            for child, _ in takedowns:
                await child.orders.wait_idle()
            await self.back_off(restarting.delay_s)
        finally:
            for child, takedown in reversed(takedowns):
                if takedown is not None:
                    child.orders.release(takedown)

    def _restarting(self, error: BaseException | None, verdict: Verdict) -> events.Restarting:
        delay = delay_s(self._spec.backoff, len(verdict.restarts), random.random())
        due = trio.current_time() + delay + self._lag_s
        restarts = tuple(moment + self._lag_s for moment in verdict.restarts)
        return events.Restarting(self.sentence(error), delay, due, restarts, paused=self._orders.is_paused)

    async def follow_takedown(self) -> None:
        """Record the restart that a sibling's crash has brought about, and wait to be let go on."""
        orders = self._orders
        while (takedown := orders.takedown) is not None and not orders.is_to_end:
            await self._record.note(evolve(takedown.restarting, paused=orders.is_paused))
            await orders.wait(inf, lambda of=takedown: of.released or orders.takedown is not of)  # type: ignore[misc]
            if orders.takedown is takedown:
                orders.takedown = None
        orders.takedown = None

    async def back_off(self, seconds: float) -> None:
        """Wait before the next attempt; an order ends the wait."""
        if seconds > 0:
            await self._orders.wait(seconds, lambda: self._orders.takedown is not None)

    def failed(self, error: BaseException) -> events.Failed:
        """Return the event for a crash, after which the harness may go on."""
        return evolve(failed(error, redacted=self._redacted), paused=self._orders.is_paused)

    def sentence(self, error: BaseException | None) -> str:
        return "exhausted" if error is None else sentence(error, redacted=self._redacted)


def _take_down(child: Sibling, restarting: events.Restarting) -> Takedown | None:
    if child.spec.restart is not Restart.TEMPORARY:
        return child.orders.take_down(restarting)
    child.orders.stop(cause=f"a sibling crashed: {restarting.cause}")
    return None
