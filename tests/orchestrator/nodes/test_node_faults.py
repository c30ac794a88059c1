"""G8 over machines: whatever becomes of a node, others go on with its harnesses, without a gap and without a step twice."""

from __future__ import annotations

import time

from tests.orchestrator.nodes.node_processes import LEASE_S, Nodes


def test_the_harnesses_of_a_killed_node_go_on_elsewhere(nodes: Nodes) -> None:
    """G8: after `kill -9`, another node takes over when the lease has lapsed."""
    first = nodes.start("a")
    nodes.start("b")
    nodes.wait_for({"a": 2, "b": 2})
    nodes.wait_for_steps()

    first.kill()
    begin = time.monotonic()
    nodes.wait_for({"b": 4})
    assert time.monotonic() - begin < LEASE_S + 10
    nodes.wait_for_steps()
    nodes.assert_whole()
