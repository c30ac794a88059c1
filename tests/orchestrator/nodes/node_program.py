"""A node for tests: `python -m tests.orchestrator.nodes.node_program URL NAME LEASE_S FACTORY`."""

from __future__ import annotations

import sys

import trio

from orchestrator.nodes.run_node import run_node

if __name__ == "__main__":
    url, name, lease_s, factory = sys.argv[1:]
    trio.run(lambda: run_node(factory, store=url, fleet="desk", name=name, lease_s=float(lease_s), cpus=1, drain_s=5))
