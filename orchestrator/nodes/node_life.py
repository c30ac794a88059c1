"""One life of a node: from the moment its lease begins until it has drained, or the lease is lost.

    look ──► decide ──► start what belongs here, hand over what belongs elsewhere ──► wait ──► look …

Invariant: a harness is started only where the store grants its claim, and given up only at a step boundary. So a wrong
decision, from a table that has changed, costs time and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import partial
from math import inf
from typing import TypeVar

import trio
from attrs import define, evolve, field, frozen

from harnesses.redaction.redactor import redact_text
from orchestrator.errors import AlreadyRunning, OwnedElsewhere, OwnershipError
from orchestrator.handle import Handle
from orchestrator.nodes.fleet_members import Fleet
from orchestrator.nodes.node_share import Share, View, decide_share, needs_parents, wait_s, without_families
from orchestrator.orchestrator import Orchestrator
from orchestrator.outcome import Outcome, OutcomeKind
from orchestrator.store.postgres.postgres_nodes import NodeTable
from orchestrator.store.postgres.postgres_store import PostgresStore
from orchestrator.text.terminal_text import one_line, say

ResultT = TypeVar("ResultT")

_LONGEST_LOOK_S = 1.0
_LOOK = 1 / 8
"""Part of the lease after which a node looks again, at most `_LONGEST_LOOK_S`."""
_LEISURE = 4
"""How many times longer than a look it waits until the next one, where looks take long."""
_AT_ONCE = 256
"""Harnesses that are started without letting others run."""
_AGAIN_S = 10.0
"""Seconds until a harness that could not be started here is tried again."""
_TOLD = (OutcomeKind.FAILED, OutcomeKind.GAVE_UP, OutcomeKind.BLOCKED, OutcomeKind.BUDGET_SPENT)


@frozen(kw_only=True)
class NodeTerms:
    """What a node is to the others."""

    fleet: str
    name: str
    labels: frozenset[str]
    cpus: float
    drain_s: float
    """Seconds until harnesses that are handed over since the node drains are cancelled."""


async def in_thread(work: Callable[[], ResultT]) -> ResultT:
    """Ask the store. Cancelled, it does not wait for the answer."""
    return await trio.to_thread.run_sync(work, abandon_on_cancel=True)


@define(eq=False)
class NodeLife:
    """Runs a node's share of a fleet in an orchestrator that is open.

    Args:
        draining: set when the node has to hand everything over.
    """

    _members: Fleet
    _terms: NodeTerms
    _store: PostgresStore
    _orchestrator: Orchestrator
    _draining: trio.Event
    _running: dict[str, Handle] = field(factory=dict[str, Handle])
    """Handles of the harnesses that were started here and have not ended, by name."""
    _leaving: set[str] = field(factory=set[str])
    """Harnesses that are being handed over."""
    _failed: dict[str, tuple[float, str]] = field(factory=dict[str, tuple[float, str]])
    """When a harness could not be started here, on Trio's clock, and why."""
    _told: tuple[bool, Mapping[str, str]] = (False, {})
    """What the others were told last: whether it drains, and what is not placed."""
    _decided: tuple[object, View, Share] = (None, View([], {}), Share())
    """What was seen last, and what followed from it."""
    _warned: set[str] = field(factory=set[str])

    async def run(self) -> None:
        """Take part until the node has drained.

        Raises:
            OwnedElsewhere: another program has its name.
            StoreUnusable: the lease is lost.
        """
        table = NodeTable(self._store)
        async with trio.open_nursery() as handing_over:
            while True:
                if self._draining.is_set() and not self._told[0]:
                    self._leaving.clear()  # those that wait for their next step have to end in time now
                    await self._tell(table, self._told[1])
                begin = trio.current_time()
                view, share = await self._look(table)
                took_s = trio.current_time() - begin
                self._settle_ended()
                self._hand_over(share.hand_over, handing_over)
                take = await self._takeable(share, view)
                ordered = [name for name in take if (place := view.places.get(name)) is not None and place.is_ordered]
                await self._obey(ordered)
                await self._take([name for name in take if name not in ordered])
                self._warn(view)
                await self._tell(table, {**share.unplaced, **{name: why for name, (_, why) in self._failed.items()}})
                if self._draining.is_set() and all(one.outcome is not None for one in self._orchestrator.handles):
                    return
                usual_s = min(_LONGEST_LOOK_S, self._store.lease_s * _LOOK)
                await self._wait(max(wait_s(view, self._store.run, usual_s), _LEISURE * took_s))

    async def _look(self, table: NodeTable) -> tuple[View, Share]:
        """Return the fleet as it is now, and what there is to do."""
        view, share = await in_thread(partial(self._decide, table))
        if not any(node.run == self._store.run for node in view.nodes):
            raise OwnedElsewhere(
                f"node {self._terms.name!r} of fleet {self._terms.fleet!r} has lost its name to another program: expected a "
                "name of its own for each node; choose another with --name"
            )
        return view, share

    def _decide(self, table: NodeTable) -> tuple[View, Share]:
        """Look, and decide, unless nothing has changed since the last time; in a thread, since both take long for many."""
        nodes, places = table.look(self._terms.fleet)
        seen = [evolve(node, left_s=float(node.is_alive), unplaced={}) for node in nodes], places
        view, share = self._decided[1:]
        if seen != self._decided[0]:
            view = View(nodes, {place.name: place for place in places})
            share = decide_share(self._members.groups, view, self._store.run)
        self._decided = seen, evolve(view, nodes=nodes), share
        return self._decided[1:]

    async def _wait(self, seconds: float) -> None:
        """Wait for that long; less when it has to drain, or something has ended while it does."""
        if self._draining.is_set():
            await trio.sleep(min(seconds, 0.05))
            return
        with trio.move_on_after(seconds):
            await self._draining.wait()

    async def _takeable(self, share: Share, view: View) -> tuple[str, ...]:
        """Return what can be started now."""
        wanted = {name for name in share.take if (place := view.places.get(name)) is not None and place.is_ordered}
        take = tuple(
            name for name in share.take if name not in self._running and (name in wanted or not self._has_failed(name))
        )
        if not needs_parents(take, self._members.members, view, self._store.run):
            return take
        children = await in_thread(self._store.children)
        return without_families(take, {one.name: one.harness for one in children}, view, self._store.run)

    def _has_failed(self, name: str) -> bool:
        at, _ = self._failed.get(name, (-_AGAIN_S, ""))
        return trio.current_time() - at < _AGAIN_S

    async def _take(self, names: Collection[str]) -> None:
        for count, name in enumerate(names):
            if count % _AT_ONCE == _AT_ONCE - 1:
                await trio.lowlevel.checkpoint()
            try:
                with self._orchestrator.going_on():
                    self._start(name)
                self._failed.pop(name, None)
            except AlreadyRunning:
                continue  # an operator was first
            except Exception as error:
                why = one_line(redact_text(f"{type(error).__name__}: {error}"), 300)
                if name not in self._failed:
                    say(f"node {self._terms.name}: harness {name!r} cannot be started here: {why}")
                self._failed[name] = trio.current_time(), f"cannot be started on {self._terms.name}: {why}"

    async def _obey(self, names: Collection[str]) -> None:
        """Take the orders to start harnesses that have ended with their nodes, and carry them out."""
        if not names or (orders := self._orchestrator.beside.orders) is None:
            return
        self._orchestrator.absent = {name: partial(self._start, name) for name in names}
        orders.carry_out(await in_thread(partial(self._store.take_orders, names)))

    def _start(self, name: str) -> None:
        self._running[name] = self._members.members[name].start(self._orchestrator)

    def _hand_over(self, names: Mapping[str, str], nursery: trio.Nursery) -> None:
        for name, to in names.items():
            if name not in self._leaving:
                self._leaving.add(name)
                cause = f"handed over to node {to}" if to else f"handed over: node {self._terms.name} drains"
                nursery.start_soon(self._leave, name, cause)

    async def _leave(self, name: str, cause: str) -> None:
        """Give a harness up at its next step boundary: however long that takes, unless the node drains."""
        await self._orchestrator.hand_over(name, cause, self._terms.drain_s if self._draining.is_set() else inf)
        self._leaving.discard(name)

    def _settle_ended(self) -> None:
        """Forget the harnesses that have ended here, and tell of those that need somebody."""
        for name, handle in [*self._running.items()]:
            if (outcome := handle.outcome) is not None:
                del self._running[name]
                if _is_to_be_told(outcome):
                    say(one_line(f"node {self._terms.name}: harness {name!r} {outcome}", 500))

    def _warn(self, view: View) -> None:
        for node in view.alive:
            if node.digest != self._members.digest and node.run not in self._warned:
                self._warned.add(node.run)
                say(
                    f"node {self._terms.name}: node {node.name} has another file ({node.digest}, here "
                    f"{self._members.digest}): neither takes what the other runs; give all nodes the same file"
                )

    async def _tell(self, table: NodeTable, unplaced: Mapping[str, str]) -> None:
        now = self._draining.is_set(), dict(unplaced)
        if now == self._told:
            return
        for name in () if now[0] else now[1].keys() - self._told[1].keys() - self._failed.keys():
            say(f"node {self._terms.name}: harness {name!r} is not run: {now[1][name]}")
        self._told = now
        own = self._terms.fleet, self._terms.name, self._store.run
        await in_thread(lambda: table.tell(*own, draining=now[0], unplaced=now[1]))


def _is_to_be_told(outcome: Outcome) -> bool:
    return outcome.kind in _TOLD and not isinstance(outcome.error, OwnershipError)
