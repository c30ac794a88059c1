"""G8 over machines: whatever becomes of a node, others go on with its harnesses, without a gap and without a step twice."""

from __future__ import annotations

import signal
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


def test_a_node_that_was_frozen_is_fenced_and_comes_back(nodes: Nodes) -> None:
    """G8: it goes on in the belief that it owns its harnesses, and writes nothing."""
    first = nodes.start("a")
    nodes.start("b")
    nodes.wait_for({"a": 2, "b": 2})
    nodes.wait_for_steps()

    first.send_signal(signal.SIGSTOP)
    nodes.wait_for({"b": 4})
    nodes.wait_for_steps()
    first.send_signal(signal.SIGCONT)
    nodes.wait_for({"a": 2, "b": 2})
    nodes.wait_for_steps()
    nodes.assert_whole()


def test_a_node_that_is_started_again_within_its_old_lease_waits_and_gets_its_share(nodes: Nodes) -> None:
    first = nodes.start("a")
    nodes.wait_for({"a": 4})
    first.kill()
    again = nodes.start("a")
    nodes.start("b")
    nodes.wait_for({"a": 2, "b": 2})
    nodes.wait_for_steps()

    again.send_signal(signal.SIGTERM)
    assert again.wait(60) == 0
    nodes.wait_for({"b": 4})
    nodes.assert_whole()
