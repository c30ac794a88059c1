"""Nodes as processes of their own, none of which outlives the test, and what is asserted of them."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import TracebackType
from typing import IO, Self

from orchestrator.store.postgres.postgres_address import Address
from orchestrator.store.postgres.postgres_nodes import NodeTable
from orchestrator.store.postgres.postgres_reader import PostgresReader
from tests import ROOT

LEASE_S = 2.0
"""Long enough for a machine on which eight programs want a processor."""
PATIENCE_S = 60.0


def wait_until(holds: Callable[[], object], what: str, patience_s: float = PATIENCE_S) -> None:
    """Wait until something is true, for a minute at most."""
    deadline = time.monotonic() + patience_s
    while not holds():
        assert time.monotonic() < deadline, f"{what}: not within {patience_s:g} s"
        time.sleep(0.02)


class Nodes:
    """Nodes of the fleet `desk` on one store. At the end every process is killed, a stopped one too.

    Args:
        url: address of a database of its own.
        patience_s: seconds that anything is waited for.
    """

    program = "tests.orchestrator.nodes.node_program"
    fleet = "tests.orchestrator.nodes.fleet_harnesses"

    def __init__(self, url: str, *, patience_s: float = PATIENCE_S) -> None:
        self.url = url
        self.patience_s = patience_s
        self.store = PostgresReader(Address(url, "orchestrator", LEASE_S))
        self.table = NodeTable(self.store)
        self._processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for process in self._processes:
            with suppress(ProcessLookupError):
                process.send_signal(signal.SIGCONT)
                process.kill()
        for process in self._processes:
            process.wait(30)
        self.store.close_readers()

    def start(
        self,
        name: str,
        factory: str = "ticking",
        url: str | None = None,
        *more: str,
        env: Mapping[str, str] | None = None,
        output: IO[bytes] | None = None,
    ) -> subprocess.Popen[bytes]:
        """Start a node.

        Args:
            more: further arguments of the program.
            output: file for what it says; None for that of the tests.
        """
        words = ["-m", self.program, url or self.url, name, str(LEASE_S), f"{self.fleet}:{factory}", *more]
        command = [sys.executable, *words]
        self._processes.append(
            subprocess.Popen(command, cwd=ROOT, env=env, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
        )
        return self._processes[-1]

    def owned(self) -> dict[str, int]:
        """Return how many harnesses each living node has, by the name of the node."""
        alive = {node.run: node.name for node in self.table.nodes("desk") if node.is_alive}
        runs = [place.run for place in self.table.places()] if alive else []
        return {name: runs.count(run) for run, name in alive.items()}

    def steps(self) -> dict[str, int]:
        """Return the last step of each harness, by its name."""
        return {one.name: one.current_step for one in self.store.harnesses()}

    def wait_for(self, owned: dict[str, int]) -> None:
        """Wait until each node has so many harnesses, and no other is alive."""
        wait_until(lambda: self.owned_or_none() == owned, f"{owned}", self.patience_s)

    def owned_or_none(self) -> dict[str, int] | None:
        """Return what `owned` does; None while there is no store."""
        try:
            return self.owned()
        except Exception:
            return None

    def wait_for_steps(self, more: int = 3, *names: str) -> None:
        """Wait until every harness, or each of these, has made some more steps."""
        before = self.steps()

        def all_do() -> bool:
            return all(step >= before[name] + more for name, step in self.steps().items() if name in names or not names)

        wait_until(all_do, "all make steps", self.patience_s)

    def assert_whole(self) -> None:
        """Assert that no harness has a gap or a step twice, and that its state is that of its steps."""
        for one in self.store.harnesses():
            inputs = [step.input for step in self.store.steps(one.name, limit=1_000_000)]
            assert inputs == list(range(1, len(inputs) + 1))
            assert self.store.state_at(one.name, len(inputs)) == str(len(inputs))
