"""`run_node`: a program that takes its share of a fleet's harnesses, as one of several on one PostgreSQL store.

open the store ──► join ──► live ──► drained: leave, and return
      ▲                      └────► the lease is lost: everything is aborted, and it comes back as a new run
      └─────────────────────────────┘
"""

from __future__ import annotations

import signal
import socket
import threading
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import Future
from functools import partial
from typing import Any

import trio
from attrs import define, field

from harnesses.diagnostics.error_groups import leaves
from harnesses.nurseries import open_beside
from harnesses.processes.cores import usable_cores
from orchestrator.errors import HarnessFailed, OwnedElsewhere, OwnershipError, StoreError, StoreUnusable, UsageError
from orchestrator.nodes.fleet_members import Fleet, Member, load_fleet
from orchestrator.nodes.node_life import NodeLife, NodeTerms, in_thread
from orchestrator.orchestrator import Orchestrator
from orchestrator.runtime.run_shutdown import heed_signals
from orchestrator.store.postgres.postgres_connection import is_connection_error, is_refusal
from orchestrator.store.postgres.postgres_nodes import NodeTable
from orchestrator.store.postgres.postgres_store import LEASE_S, PostgresStore
from orchestrator.text.terminal_text import say

_AGAIN_S = 1.0
"""Seconds between two attempts to reach a server that is gone; less for short leases."""
_NAME_S = 0.1
"""Seconds between two looks at who has the name of this node."""


async def run_node(
    members: str | Fleet | Iterable[Member],
    *,
    store: str,
    fleet: str,
    name: str | None = None,
    labels: Collection[str] = (),
    cpus: float | None = None,
    lease_s: float = LEASE_S,
    drain_s: float = 10.0,
    drain: trio.Event | None = None,
    **options: Any,
) -> None:
    """Run a share of the harnesses of a fleet, until SIGTERM or SIGINT: then hand them over, and return.

    The harnesses are spread over the nodes of the fleet that are alive. Those of a node that is gone are taken over when its
    lease has lapsed. A node whose lease is lost aborts its harnesses, and joins again when it reaches the server.

    Args:
        members: the harnesses of the fleet, the same on each node: `module:function` that returns them, or they themselves.
        store: address of a database on a PostgreSQL server, `postgresql://…`.
        fleet: name of the fleet; a store may have several.
        name: name of this node, of its own in the fleet; default is that of the machine.
        labels: what harnesses may need of a node.
        cpus: processors that harnesses may use here; default is what this process may use.
        lease_s: see `PostgresStore`.
        drain_s: seconds from the signal until harnesses that have not come to a step boundary are cancelled.
        drain: an event that means the same as the signal.
        options: other keyword arguments of `Orchestrator`.

    Raises:
        UsageError: an argument is wrong.
        StoreUnusable: the server has no such database or user, or the password is wrong; one that is away is waited for.
        OwnedElsewhere: another node has the name.
    """
    node = _Node(
        _fleet_of(members),
        NodeTerms(
            fleet=_checked("fleet", fleet),
            name=_checked("name", name or socket.gethostname()),
            labels=frozenset(_checked("label", label) for label in labels),
            cpus=_cpus(cpus),
            drain_s=drain_s,
        ),
        partial(PostgresStore, store, lease_s=lease_s),
        lease_s,
        {"drain_s": drain_s, "handle_signals": False, **options},
        trio.Event() if drain is None else drain,
    )
    async with open_beside() as nursery:
        if threading.current_thread() is threading.main_thread():
            await nursery.start(heed_signals, node.heed_signal)
        await node.run()


def _fleet_of(members: str | Fleet | Iterable[Member]) -> Fleet:
    if isinstance(members, Fleet):
        return members
    return load_fleet(members) if isinstance(members, str) else Fleet.of(members)


def _checked(option: str, text: object) -> str:
    if not isinstance(text, str) or not text or not text.isprintable() or any(mark in text for mark in " ,"):
        raise UsageError(f"{option}: expected a word without spaces and commas, got {text!r:.100}; correct it")
    return text


def _cpus(given: float | None) -> float:
    if given is None:
        return float(usable_cores())
    if isinstance(given, bool) or not 0 < given <= 1e6:
        raise UsageError(f"cpus: expected a number above 0, got {given!r:.100}; correct it")
    return float(given)


@define(eq=False)
class _Node:
    """A node over all its lives."""

    _members: Fleet
    _terms: NodeTerms
    _open: partial[PostgresStore]
    _lease_s: float
    _options: dict[str, Any]
    _draining: trio.Event
    _orchestrator: Orchestrator | None = None
    _said: set[str] = field(factory=set[str])
    _has_lived: bool = False
    """Whether it has taken part: from then on it waits for a server that refuses it, too."""

    def heed_signal(self, number: int) -> None:
        """Drain at the first signal, cancel at the second."""
        name = signal.Signals(number).name
        if not self._draining.is_set():
            say(f"{name}: handing over within {self._terms.drain_s:g} s; a second signal cancels at once")
            self._draining.set()
        elif self._orchestrator is not None:
            say(f"{name} again: cancelling")
            self._orchestrator.stop(0.0)

    async def run(self) -> None:
        while (store := await self._reach()) is not None:
            try:
                if await self._live(store):
                    return
            finally:
                with trio.CancelScope(shield=True):
                    await trio.to_thread.run_sync(store.close)
            say(f"node {self._terms.name}: its lease is lost, and its harnesses are aborted; it joins again")

    async def _reach(self) -> PostgresStore | None:
        """Open the store as a new run, as soon as the server can be reached; None if it has to drain before."""
        while not self._draining.is_set():
            try:
                return await self._open_unless_draining()
            except StoreUnusable as error:
                if error.__cause__ is None or not is_connection_error(error.__cause__):
                    raise
                if not self._has_lived and is_refusal(error.__cause__):
                    raise
                self._say_once(str(error), f"node {self._terms.name}: {error}; it waits for the server")
            with trio.move_on_after(min(_AGAIN_S, self._lease_s)):
                await self._draining.wait()
        return None

    async def _open_unless_draining(self) -> PostgresStore | None:
        """Open the store; None if it has to drain before it is open. Given up, it is closed as soon as it is open."""
        opened = Future[PostgresStore]()
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_cancel_at, self._draining, nursery.cancel_scope)
                await in_thread(partial(_open_into, opened, self._open))
                nursery.cancel_scope.cancel()
        except BaseException:
            if not opened.cancel() and opened.exception() is None:
                with trio.CancelScope(shield=True):
                    await trio.to_thread.run_sync(opened.result().close)
            raise
        return None if opened.cancel() else opened.result()

    def _say_once(self, key: str, text: str) -> None:
        if key not in self._said:
            self._said.add(key)
            say(text)

    async def _live(self, store: PostgresStore) -> bool:
        """Take part in the fleet; return whether the node has drained: False if the lease is lost."""
        try:
            if not await self._join(store):
                return True
            if self._said or self._has_lived:
                say(f"node {self._terms.name}: the server is reached again, and it is in fleet {self._terms.fleet}")
            self._said.clear()
            self._has_lived = True
            await self._take_part(store)
            await in_thread(partial(NodeTable(store).leave, self._terms.fleet, self._terms.name, store.run))
        except Exception as error:
            if all(isinstance(one, StoreError | OwnershipError | HarnessFailed) for one in leaves(error)) and is_over(store):
                return False
            raise
        return True

    async def _take_part(self, store: PostgresStore) -> None:
        orchestrator = self._orchestrator = Orchestrator(store, **self._options)
        orchestrator.elsewhere = frozenset(self._members.members)
        orchestrator.tells_blocked = False  # told when it happened, as is a failure
        try:
            async with orchestrator:
                await NodeLife(self._members, self._terms, store, orchestrator, self._draining).run()
        except ExceptionGroup as group:
            # Whoever was first with a harness runs it: the node asked for it and lost, which harms nobody.
            outcomes = [handle.outcome for handle in orchestrator.handles]
            lost = {id(one.error) for one in outcomes if one is not None and isinstance(one.error, OwnedElsewhere)}
            if rest := [one for one in leaves(group) if not isinstance(one, HarnessFailed) and id(one) not in lost]:
                raise ExceptionGroup(str(group), [one for one in rest if isinstance(one, Exception)]) from group

    async def _join(self, store: PostgresStore) -> bool:
        """Put the run into the table of nodes; return whether it is in it, False if it has to drain before.

        The name may still be that of an earlier life of this node, whose lease has not lapsed: nobody renews that.

        Raises:
            OwnedElsewhere: somebody does.
        """
        table, terms, before = NodeTable(store), self._terms, None
        labels, digest = sorted(terms.labels), self._members.digest
        while not self._draining.is_set():
            if await in_thread(partial(table.join, terms.fleet, terms.name, store.run, labels, terms.cpus, digest)):
                return True
            holder = await in_thread(partial(table.holder, terms.fleet, terms.name))
            if holder is not None:
                run, until, left_s = holder
                if before is not None and before != (run, until):
                    raise OwnedElsewhere(
                        f"node {terms.name!r} of fleet {terms.fleet!r} runs already: expected a name of its own for each "
                        f"node, got one that run {run} keeps; choose another with --name, or stop that one"
                    )
                before = run, until
                self._say_once(run, f"node {terms.name}: its name has a lease for {left_s:.1f} s more; it waits")
            with trio.move_on_after(_NAME_S):
                await self._draining.wait()
        return False


def _open_into(opened: Future[PostgresStore], open_store: Callable[[], PostgresStore]) -> None:
    """Open a store in a thread, for somebody who gives up by `opened.cancel()`."""
    try:
        store = open_store()
    except Exception as error:
        if opened.set_running_or_notify_cancel():
            opened.set_exception(error)
        return
    if opened.set_running_or_notify_cancel():
        opened.set_result(store)
    else:
        store.close()


async def _cancel_at(event: trio.Event, scope: trio.CancelScope) -> None:
    await event.wait()
    scope.cancel()


def is_over(store: PostgresStore) -> bool:
    """Return whether the lease of a run has ended."""
    try:
        store.check_in_place()
    except StoreUnusable:
        return True
    return False
