"""A node of a fleet as an actor of Ray: `run_node`, with Trio in a thread of its own. Runs in a process that Ray has started.

Invariant: Ray places the process and starts it again; which harnesses it may write for is decided by its lease alone. So each
process is a node with a name of its own: one that Ray takes for dead may still run, beside its successor.
"""

from __future__ import annotations

import os
import socket
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from concurrent.futures import Future, wait
from contextlib import suppress
from typing import Any, TypeAlias

import trio
from attrs import frozen

from harnesses.diagnostics.extras import load_extra
from orchestrator.errors import StoreUnusable, UsageError
from orchestrator.nodes.fleet_members import Fleet
from orchestrator.nodes.run_node import run_node
from orchestrator.text.terminal_text import say

LoadFleet: TypeAlias = Callable[[], tuple[Fleet, Mapping[str, Any]]]
"""Returns the fleet, and further keyword arguments of `run_node`."""
_LOOK_S = 1.0
"""Seconds between two looks at whether the daemon of Ray that has started this process is alive."""
_CRASH_S = 1.0
"""Seconds from an unexpected error to the end of the process, which Ray starts again at once."""


@frozen
class Placed:
    """Where Ray runs a node now."""

    node: str
    """Its name in the fleet."""
    machine: str
    process: int


class RayNode:
    """Runs one node, from the start of the process.

    Args:
        name: what the name of the node begins with.
        load: returns the fleet; called here, on the machine of the node.
        named: other keyword arguments of `run_node`.
    """

    def __init__(self, name: str, load: LoadFleet, named: Mapping[str, Any]) -> None:
        context = load_extra("ray", "ray", "a node on Ray").get_runtime_context()
        self._load, self._named = load, named
        self._placed = Placed(f"{name}-{context.get_worker_id()[:6]}", socket.gethostname(), os.getpid())
        self._begun = Future[tuple[trio.lowlevel.TrioToken, trio.Event, trio.CancelScope]]()
        self._ended = Future[str]()
        threading.Thread(target=self._run, name="node").start()
        threading.Thread(target=self._drain_without, args=(os.getppid(),), name="raylet", daemon=True).start()

    def where(self) -> Placed:
        """Return where it runs."""
        return self._placed

    def wait(self, node: str, seconds: float) -> str | None:
        """Return what is wrong when the node has ended, "" if nothing is. None if it goes on, or has another name by now."""
        if node == self._placed.node and wait([self._ended], seconds).done:
            return self._ended.result()
        return None

    def drain(self) -> None:
        """Hand the harnesses over at their next step boundaries, and end."""
        token, drain, _ = self._begun.result()
        _in_loop(token, drain.set)

    def cancel(self) -> None:
        """Cancel the harnesses at once, and end."""
        token, _, scope = self._begun.result()
        _in_loop(token, scope.cancel)

    def _run(self) -> None:
        try:
            trio.run(self._take_part)
        except (UsageError, StoreUnusable) as error:  # another attempt would end in the same way
            self._ended.set_result(str(error))
        except BaseException:
            traceback.print_exc()
            time.sleep(_CRASH_S)
            os._exit(1)
        else:
            self._ended.set_result("")

    async def _take_part(self) -> None:
        drain = trio.Event()
        with trio.CancelScope() as scope:
            self._begun.set_result((trio.lowlevel.current_trio_token(), drain, scope))
            members, options = self._load()
            await run_node(members, name=self._placed.node, drain=drain, **{**options, **self._named})

    def _drain_without(self, raylet: int) -> None:
        """End when Ray's daemon on this machine is gone: Ray neither ends this process, nor passes orders on to it."""
        while os.getppid() == raylet:
            time.sleep(_LOOK_S)
        say(f"node {self._placed.node}: the daemon of Ray is gone: handing over")
        self.drain()
        self._ended.result()
        os._exit(0)


def _in_loop(token: trio.lowlevel.TrioToken, work: Callable[[], object]) -> None:
    with suppress(trio.RunFinishedError):
        token.run_sync_soon(work)
