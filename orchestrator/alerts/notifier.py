"""Looks what is so, notes it in the book, and tells people. In a process of its own: nothing of it is in the way of a step.

store, control socket ──► Facts ──► Book ──► one task for each target ──► apprise
                              every LOOK_S             in a thread, which a slow service may hold
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path

import trio
from attrs import define, field

from harnesses.timing.clock import now_us
from orchestrator.alerts.alert_book import Book
from orchestrator.alerts.alert_delivery import MOST, NotDelivered, Target, message, ping
from orchestrator.alerts.alert_facts import Fact, Facts
from orchestrator.alerts.alert_rules import Alerts, PingTable
from orchestrator.control.control_client import ask_soon
from orchestrator.control.socket_places import sockets
from orchestrator.errors import OrchestratorError
from orchestrator.web.site import Site

LOOK_S = 2.0
"""Seconds between two looks."""
_ANSWER_S = 5.0
"""Seconds that a program has to answer before it is no longer said to be well."""
LAST_S = 60.0
"""Seconds for what has not been told when the program it is about has ended."""


@define(eq=False, kw_only=True)
class Notifier:
    """Tells of one store, by one set of rules.

    Args:
        targets: by the address as the rules have it.
        tell: is told what went wrong, for standard error.
        has_ended: whether the program is gone and there will be nothing new.
    """

    site: Site
    facts: Facts
    book: Book
    alerts: Alerts
    targets: Mapping[str, Target]
    store: Path
    tell: Callable[[str], None]
    has_ended: Callable[[], bool]
    _since: dict[tuple[int, str, str, str], float] = field(factory=dict[tuple[int, str, str, str], float])
    """Since when each fact has been so, for `for_s`."""
    _sending: set[str] = field(factory=set[str])
    _mute: set[str] = field(factory=set[str])
    """The targets of which it was told that they do not take anything."""

    async def run(self) -> None:
        """Tell until the program has ended and everything is told, at most `LAST_S` longer."""
        async with trio.open_nursery() as nursery:
            if self.alerts.ping is not None:
                nursery.start_soon(self._ping, self.alerts.ping)
            while True:
                is_last = self.has_ended()
                await self._look()
                self._send(nursery)
                if is_last:
                    break
                await trio.sleep(LOOK_S)
            identities = {target.identity for target in self.targets.values()}
            with trio.move_on_after(LAST_S):
                while self.book.pending(identities):
                    await trio.sleep(0.1)
                    self._send(nursery)
            nursery.cancel_scope.cancel()

    async def _look(self) -> None:
        try:
            found = await trio.to_thread.run_sync(self.facts.now, self.alerts.rules)
        except OrchestratorError as error:
            self.tell(f"notify: {error}")
            return
        now = time.monotonic()
        since = {
            (key := _key(number, fact)): self._since[key] if key in self._since else now - _age_s(fact)
            for number, fact in found
        }
        self._since = since
        lasting = [
            (number, fact) for number, fact in found if now - since[_key(number, fact)] >= self.alerts.rules[number].for_s
        ]
        at_us = now_us()
        ids = self.book.note(dict.fromkeys(fact for _, fact in lasting), at_us)
        for number, fact in lasting:
            rule = self.alerts.rules[number]
            told = {self.targets[to].identity: self.targets[to].shown for to in rule.to}
            self.book.want(ids[fact], told, at_us, rule.again_s)

    def _send(self, nursery: trio.Nursery) -> None:
        for target in {target.identity: target for target in self.targets.values()}.values():
            if target.identity not in self._sending and self.book.due(target.identity, now_us(), 1):
                self._sending.add(target.identity)
                nursery.start_soon(self._deliver, target)

    async def _deliver(self, target: Target) -> None:
        try:
            alerts = self.book.due(target.identity, now_us(), 100_000)
            title, body = message(alerts[:MOST], self.store, len(alerts[MOST:]))
            try:
                await trio.to_thread.run_sync(target.send, title, body, abandon_on_cancel=True)
            except NotDelivered as error:
                self.book.failed(target.identity, alerts, str(error))
                if target.identity not in self._mute:
                    self._mute.add(target.identity)
                    self.tell(f"notify: {target.shown} did not take a message: {error}; it is tried again")
            else:
                self.book.sent(target.identity, alerts)
                self._mute.discard(target.identity)
        finally:
            self._sending.discard(target.identity)

    async def _ping(self, table: PingTable) -> None:
        was_well = True
        while True:
            if await trio.to_thread.run_sync(self._is_well):
                try:
                    await trio.to_thread.run_sync(ping, table.url, abandon_on_cancel=True)
                    was_well = True
                except NotDelivered as error:
                    if was_well:
                        self.tell(f"notify: ping: {error}")
                    was_well = False
            await trio.sleep(table.every_s)

    def _is_well(self) -> bool:
        """Return whether a program runs on the store, and answers if it takes orders."""
        replies, _ = ask_soon(self.site.path, "/status", _ANSWER_S)
        if sockets(self.site.path):
            return any(reply.status == 200 for reply in replies)
        return any(row["owned"] for row in self.site.fleet.rows())


def _key(number: int, fact: Fact) -> tuple[int, str, str, str]:
    return number, fact.condition, fact.harness, f"{fact.kind} {fact.identity}"


def _age_s(fact: Fact) -> float:
    """Return for how many seconds something has been so when it is first seen, as far as that is recorded."""
    return max(now_us() - fact.since_us, 0) / 1e6 if fact.since_us else 0.0
