"""G8 over machines: a node that comes back soon; what else may happen to nodes is in `tests.faults_of_nodes`."""

from __future__ import annotations

import signal

from tests.orchestrator.nodes.node_processes import Nodes


def test_a_node_that_is_started_again_within_its_old_lease_waits_and_gets_its_share(nodes: Nodes) -> None:
    """G8: also if it has the name of the one that was killed."""
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
