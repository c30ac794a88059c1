"""`run_on_ray`: nodes of a fleet, placed over the machines of a Ray cluster, for as long as this program runs.

Ray finds room for them, starts them, and starts them again. Leases in the store keep every step right, whatever Ray does.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, cast

import trio
from attrs import define, field

from harnesses.diagnostics.extras import load_extra
from harnesses.errors import NotReady
from harnesses.nurseries import open_beside
from orchestrator.errors import UsageError
from orchestrator.nodes.fleet_members import Fleet, load_fleet
from orchestrator.nodes.ray_node import LoadFleet, Placed, RayNode
from orchestrator.runtime.run_shutdown import heed_signals
from orchestrator.store.postgres.postgres_store import LEASE_S
from orchestrator.text.terminal_text import one_line, say

_LOOK_S = 5.0
"""Seconds after which a node is asked again where it runs."""
_ROOM_S = 10.0
"""Seconds after which it is told that Ray has no room for a node."""
_MORE_S = 15.0
"""Seconds that a node has to end, beyond those that its harnesses have."""
_LABEL = 0.001
"""How much of the resource of Ray that a label names a node takes: its machine has it, or has not."""
_LOOPBACK = "127.0.0.1"
_LOOPBACK_ONLY = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"
"""Ray's variable, read when it is imported: with 0, a cluster listens on loopback addresses alone, elsewhere on all."""
_THREADS = 4
"""Calls that a node answers at once: one of them waits for its end."""


async def run_on_ray(
    members: str | LoadFleet,
    *,
    store: str,
    fleet: str,
    nodes: int = 1,
    address: str = "auto",
    name: str = "ray",
    labels: Collection[str] = (),
    cpus: float = 1.0,
    lease_s: float = LEASE_S,
    drain_s: float = 10.0,
    drain: trio.Event | None = None,
    max_restarts: int = -1,
) -> None:
    """Run nodes of a fleet on a Ray cluster, until SIGTERM or SIGINT: then have them hand everything over, and return.

    The nodes end with this program. One whose process or machine is gone is started again by Ray where there is room, as a
    node with another name; until then, the others of the fleet take its harnesses over when its lease has lapsed.

    Args:
        members: `module:function` that returns the harnesses, or a function that Ray can send to other machines.
        store: address of a database that all machines reach, `postgresql://…`.
        fleet: name of the fleet; nodes that Ray has not started may be in it, too.
        nodes: how many to place.
        address: address of the head of the cluster; "auto" for that of `RAY_ADDRESS` or of this machine, "local" for a new
            cluster on this machine, for which the loop waits. If the program is connected to a cluster, that one is used.
        name: what the names of the nodes begin with.
        labels: what harnesses may need of these nodes, each a resource of that name on machines of the cluster.
        cpus: processors that harnesses may use on each node, and that Ray keeps for it.
        lease_s: see `PostgresStore`.
        drain_s: see `run_node`.
        drain: an event that means the same as the signal.
        max_restarts: how often Ray starts a node again; -1 for always.

    Raises:
        UsageError: an argument is wrong, a node cannot be started anywhere, or there is no cluster.
        ray.exceptions.RayError: a node is gone, and Ray does not start it again; the others have gone on until they were told
            to end.
    """
    if isinstance(nodes, bool) or not 1 <= nodes <= 10_000:
        raise UsageError(f"nodes: expected a number from 1 to 10000, got {nodes!r:.100}; say how many Ray is to place")
    load = partial(_load, members) if isinstance(members, str) else members
    named = {"store": store, "fleet": fleet, "labels": tuple(labels), "cpus": cpus, "lease_s": lease_s, "drain_s": drain_s}
    wanted: dict[str, Any] = {
        "num_cpus": cpus,
        "resources": dict.fromkeys(labels, _LABEL),
        "max_restarts": max_restarts,
        "max_task_retries": -1,
        "max_concurrency": _THREADS,
        "scheduling_strategy": "SPREAD",
    }
    ray, room = _ray(address), " and ".join([f"{cpus:g} cpus", *(f"resource {label}" for label in labels)])
    placing = _Placing(ray, room, drain_s, trio.Event() if drain is None else drain)
    if address == "local":  # it ends with the thread that makes it (PR_SET_PDEATHSIG), so not in one that Trio may end
        is_ours = _connect(ray, address)
    else:
        is_ours = await trio.to_thread.run_sync(_connect, ray, address)
    try:
        await _place(placing, [(f"{name}-{number}", load, named) for number in range(1, nodes + 1)], wanted)
    finally:
        with trio.CancelScope(shield=True):
            await trio.to_thread.run_sync(placing.close, is_ours)


def _load(reference: str) -> tuple[Fleet, Mapping[str, Any]]:
    return load_fleet(reference), {}


def _ray(address: str) -> Any:
    if address == "local":
        os.environ.setdefault(_LOOPBACK_ONLY, "0")
    try:
        return load_extra("ray", "ray", "placing nodes on a cluster")
    except NotReady as error:
        raise UsageError(str(error)) from error


def _connect(ray: Any, address: str) -> bool:
    """Connect to a cluster; return whether the program was not connected before."""
    if ray.is_initialized():
        return False
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # of a cluster that is made: nothing is reported to Ray's makers
    options: dict[str, Any] = {"include_dashboard": False, "_node_ip_address": _LOOPBACK} if address == "local" else {}
    try:
        ray.init(address=address, logging_level=logging.ERROR, **options)
    except Exception as error:  # each release of Ray has classes of its own for it
        raise UsageError(
            f"address: no cluster of Ray can be reached at {address!r:.200}: {error}; start one with `ray start --head`, "
            "or give the address of its head"
        ) from error
    return True


async def _place(
    placing: _Placing, given: Iterable[tuple[str, LoadFleet, Mapping[str, Any]]], wanted: Mapping[str, Any]
) -> None:
    """Place nodes, and follow them until all have ended, heeding signals."""
    async with open_beside() as nursery:
        if threading.current_thread() is threading.main_thread():
            # Not before Ray is connected: it sets a handler of its own, which would abort this program.
            await nursery.start(heed_signals, placing.heed_signal)
        placing.make(given, wanted)
        await placing.run()


@define(eq=False)
class _Node:
    """A node as this program knows it."""

    name: str
    """What its name in the fleet begins with."""
    actor: Any
    placed: Placed | None = None
    """Where it is; None until Ray has found room for it."""
    scope: trio.CancelScope = field(factory=trio.CancelScope)


@define(eq=False)
class _Placing:
    """Places nodes, tells where they are, and passes on when they have to end."""

    _ray: Any
    _wanted: str
    """What each node needs of its machine."""
    _drain_s: float
    _draining: trio.Event
    _nodes: list[_Node] = field(factory=list[_Node])
    _lost: Exception | None = None
    """Why Ray does not start a node again."""

    def heed_signal(self, number: int) -> None:
        """Drain at the first signal, cancel at the second."""
        name = signal.Signals(number).name
        if not self._draining.is_set():
            say(f"{name}: handing over within {self._drain_s:g} s; a second signal cancels at once")
            self._draining.set()
        else:
            say(f"{name} again: cancelling")
            self._order("cancel")

    def make(self, given: Iterable[tuple[str, LoadFleet, Mapping[str, Any]]], wanted: Mapping[str, Any]) -> None:
        """Ask Ray for an actor for each node.

        Raises:
            UsageError: Ray refuses what is wanted.
        """
        try:
            kind = self._ray.remote(RayNode).options(**wanted)
        except ValueError as error:
            raise UsageError(f"nodes on Ray: {error}; correct the labels or cpus") from error
        self._nodes = [_Node(arguments[0], kind.remote(*arguments)) for arguments in given]

    async def run(self) -> None:
        """Follow the nodes until all have ended.

        Raises:
            UsageError: a node says that it cannot be started on any machine.
            Exception: Ray's, if a node is gone for good; when the others have ended.
        """
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._pass_on, nursery.cancel_scope)
            async with trio.open_nursery() as following:
                for node in self._nodes:
                    following.start_soon(self._follow, node)
            nursery.cancel_scope.cancel()
        if self._lost is not None:
            raise self._lost

    def close(self, shut_down: bool) -> None:
        """End what has not ended, and leave the cluster."""
        with suppress(Exception):  # the cluster may be gone
            for node in self._nodes:
                self._ray.kill(node.actor)
        if shut_down:
            self._ray.shutdown()

    async def _pass_on(self, scope: trio.CancelScope) -> None:
        """When it has to end, tell the nodes, and wait for them for so long."""
        await self._draining.wait()
        self._order("drain")
        await trio.sleep(self._drain_s + _MORE_S)
        late = [node.placed.node for node in self._nodes if node.placed is not None]
        say(f"{', '.join(late)}: not ended after {self._drain_s + _MORE_S:g} s: killing")
        scope.cancel()

    def _order(self, order: str) -> None:
        for node in self._nodes:
            if node.placed is None:
                node.scope.cancel()
            else:
                getattr(node.actor, order).remote()

    async def _follow(self, node: _Node) -> None:
        """Wait for the end of a node. If it can be started nowhere, the others have to end, too."""
        try:
            with node.scope:
                if wrong := await self._wait(node):
                    self._lost = UsageError(wrong)
                    self._draining.set()
        except Exception as error:  # Ray's classes are known only where it is installed
            say(f"node {node.name} is gone, and Ray does not start it again: {one_line(str(error), 500)}")
            self._lost = error

    async def _wait(self, node: _Node) -> str:
        """Tell where a node is, until it has ended; return what is wrong."""
        while True:
            placed = await self._place(node)
            if placed != node.placed:
                node.placed = placed
                say(f"node {placed.node}: on {placed.machine}, process {placed.process}")
            if self._draining.is_set():
                node.actor.drain.remote()
            wrong: str | None = await _result(node.actor.wait.remote(placed.node, _LOOK_S))
            if wrong is not None:
                return wrong

    async def _place(self, node: _Node) -> Placed:
        reference = node.actor.where.remote()
        with trio.move_on_after(_ROOM_S):
            return cast(Placed, await _result(reference))
        say(f"node {node.name}: Ray has no machine for it yet, with {self._wanted}; it waits")
        return cast(Placed, await _result(reference))


async def _result(reference: Any) -> Any:
    """Return what a call of an actor returns; Ray makes the call again where the actor was started again."""
    done, token = trio.Event(), trio.lowlevel.current_trio_token()

    def tell(_: object) -> None:
        with suppress(trio.RunFinishedError):
            token.run_sync_soon(done.set)

    future = reference.future()
    future.add_done_callback(tell)
    await done.wait()
    return future.result()
