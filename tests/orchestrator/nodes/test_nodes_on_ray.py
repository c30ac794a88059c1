"""G8 on a Ray cluster: Ray places nodes and starts them again; whatever it takes for dead, no step is lost or made twice."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psycopg
import pytest

from orchestrator import PostgresStore
from tests import ROOT
from tests.faults_of_nodes.node_faults import BELIEVED
from tests.orchestrator.nodes.node_processes import LEASE_S, Nodes, wait_until

# Not imported yet: Ray reads its environment when it is.
pytestmark = pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed: `.ci/run` installs it for this file")

_ENVIRONMENT = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_AUTH_MODE": "token",
    "RAY_AUTH_TOKEN": os.urandom(16).hex(),
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # loopback addresses only
    # Ray takes 13 s until it believes that a machine is gone, and 60 s that its head is.
    "RAY_health_check_initial_delay_ms": "500",
    "RAY_health_check_period_ms": "500",
    "RAY_health_check_failure_threshold": "3",
    "RAY_gcs_rpc_server_reconnect_timeout_s": "12",
    "RAY_raylet_start_wait_time_s": "60",
}
_OPTIONS = ("--nodes", "2", "--label", "git", "--cpus", "1")
_ON = re.compile(r"^node (\S+): on \S+, process (\d+)$", re.MULTILINE)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """A head and two machines with a processor each, all on this one."""
    folder = tempfile.mkdtemp(prefix="ray-")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in _ENVIRONMENT.items():
            patch.setenv(name, value)
        patch.setenv("RAY_TMPDIR", folder)
        from ray.cluster_utils import Cluster

        given = {"include_dashboard": False, "node_ip_address": "127.0.0.1", "object_store_memory": 80 * 2**20}
        cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, **given})
        try:
            for _ in range(2):
                cluster.add_node(wait=False, num_cpus=2, resources={"git": 1}, **given)
            yield cluster
        finally:
            cluster.shutdown()
            shutil.rmtree(folder, ignore_errors=True)


class Command:
    """`orchestrator node --cluster ray`, as a process of its own."""

    def __init__(self, nodes: Nodes, folder: Path, address: str, *options: str) -> None:
        self._told = folder / "told"
        words = ["--store", nodes.url, "--fleet", "desk", "--lease", str(LEASE_S), "--drain", "5"]
        factory = ["--factory", "tests.orchestrator.nodes.fleet_harnesses:ticking"]
        cluster = ["--cluster", "ray", "--address", address, *options]
        with self._told.open("wb") as told:
            command = [sys.executable, "-m", "orchestrator", "node", *factory, *words, *cluster]
            self.process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=told, stderr=told)

    def close(self) -> None:
        """Kill it: Ray ends its nodes."""
        self.process.kill()
        self.process.wait(30)

    @property
    def told(self) -> str:
        return self._told.read_text()

    def placed(self) -> dict[str, int]:
        """Return the process of each node that was told to be placed, by its name, oldest first."""
        return {name: int(process) for name, process in _ON.findall(self.told)}

    def wait_for_placed(self, count: int) -> list[int]:
        """Wait until it has told of so many nodes in all; return their processes."""
        wait_until(lambda: len(self.placed()) >= count or self.process.poll() is not None, f"{count} nodes are placed")
        assert self.process.poll() is None, self.told
        return list(self.placed().values())


@pytest.fixture
def command(nodes: Nodes, tmp_path: Path, cluster: Any) -> Iterator[Command]:
    with closing(Command(nodes, tmp_path, cluster.address, *_OPTIONS)) as command:
        yield command


def _wait_for_shares(nodes: Nodes, *shares: int) -> None:
    wait_until(lambda: sorted((nodes.owned_or_none() or {}).values()) == sorted(shares), f"shares are {shares}")


def _parent(process: int) -> int:
    return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])


def test_killed_and_orphaned_workers_lose_no_step_and_a_signal_has_all_hand_over(nodes: Nodes, command: Command) -> None:
    """G8: a killed process is started again; one whose daemon was killed runs on beside its successor, and writes nothing."""
    first, second = command.wait_for_placed(2)
    _wait_for_shares(nodes, 2, 2)
    nodes.wait_for_steps()

    os.kill(first, signal.SIGKILL)
    begin = time.monotonic()
    wait_until(lambda: 4 in (nodes.owned_or_none() or {}).values() or len(command.placed()) == 3, "others go on")
    nodes.wait_for_steps(1)
    assert time.monotonic() - begin < LEASE_S + 10
    _wait_for_shares(nodes, 2, 2)

    os.kill(raylet := _parent(second), signal.SIGKILL)
    wait_until(lambda: _parent(second) != raylet, "the daemon is gone")
    os.kill(second, signal.SIGSTOP)  # not before: those of an orphaned process group that are stopped are hung up
    try:
        command.wait_for_placed(4)
        _wait_for_shares(nodes, 2, 2)
        nodes.wait_for_steps()
    finally:
        os.kill(second, signal.SIGCONT)
    wait_until(lambda: not os.path.exists(f"/proc/{second}"), "the orphan ends")
    nodes.wait_for_steps()

    command.process.send_signal(signal.SIGTERM)
    assert command.process.wait(60) == 0, command.told
    wait_until(lambda: nodes.owned_or_none() == {}, "no node is left")
    nodes.assert_whole()


def test_without_the_end_of_leases_a_killed_worker_is_noticed(nodes: Nodes, tmp_path: Path, cluster: Any) -> None:
    """The mutant beside the faults above."""
    PostgresStore(nodes.url).close()
    with psycopg.connect(nodes.url, autocommit=True, options="-csearch_path=orchestrator") as db:
        db.execute(BELIEVED.sql.encode())
    with closing(Command(nodes, tmp_path, cluster.address, *_OPTIONS)) as command:
        first, _ = command.wait_for_placed(2)
        _wait_for_shares(nodes, 2, 2)
        nodes.wait_for_steps()
        os.kill(first, signal.SIGKILL)
        command.wait_for_placed(3)
        nodes.patience_s = 2 * LEASE_S
        with pytest.raises(AssertionError, match="all make steps"):
            nodes.wait_for_steps()


def test_when_the_head_is_killed_harnesses_go_on_elsewhere(nodes: Nodes, command: Command, cluster: Any) -> None:
    """G8: the nodes run until Ray ends them; a node of another kind takes over."""
    placed = command.wait_for_placed(2)
    _wait_for_shares(nodes, 2, 2)
    cluster.head_node.kill_gcs_server(check_alive=False)
    nodes.wait_for_steps()
    nodes.start("plain")
    try:
        assert command.process.wait(60) == 1, command.told
        nodes.wait_for({"plain": 4})
    finally:
        for process in placed:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
    nodes.wait_for_steps()
    nodes.assert_whole()


_LOCAL = """
import socket
from orchestrator.nodes import run_on_ray

ray = run_on_ray._ray("local")
run_on_ray._connect(ray, "local")
try:
    ports = [ray.nodes()[0]["NodeManagerPort"], int(ray.get_runtime_context().gcs_address.rpartition(":")[2])]
    for port in ports:
        socket.create_connection(("127.0.0.1", port), 5).close()
        try:
            socket.create_connection(("127.0.0.2", port), 5).close()
        except ConnectionRefusedError:
            print("refused")
finally:
    ray.shutdown()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has further loopback addresses")
def test_a_cluster_of_this_machine_alone_cannot_be_reached_from_others() -> None:
    folder = tempfile.mkdtemp(prefix="ray-")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")} | {"RAY_TMPDIR": folder}
    try:
        ran = subprocess.run(
            [sys.executable, "-c", _LOCAL], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120, check=False
        )
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    assert ran.stdout.split() == ["refused", "refused"], ran.stderr[-2000:]
