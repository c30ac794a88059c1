"""A node that is changed: `python -m tests.faults_of_nodes.fault_node URL NAME LEASE_S FACTORY [CHANGE…]`."""

from __future__ import annotations

import sys

import trio

from orchestrator.nodes.run_node import run_node
from tests.faults_of_nodes.changes import CHANGES

if __name__ == "__main__":
    url, name, lease_s, factory, *changes = sys.argv[1:]
    for change in changes:
        CHANGES[change]()
    trio.run(lambda: run_node(factory, store=url, fleet="desk", name=name, lease_s=float(lease_s), cpus=1, drain_s=5))
