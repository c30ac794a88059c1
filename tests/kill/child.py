"""The program that is killed: runs the workload on a store, and writes each acknowledged step to a file descriptor.

python -m tests.kill.child STORE --steps 100 --acknowledge 1
"""

from __future__ import annotations

import argparse
import os
from functools import partial
from pathlib import Path

import trio

from orchestrator import Backoff, Orchestrator, SqliteStore, Store
from orchestrator.testing import FaultyStore, kill_this_process

from .workload import KINDS


async def run_all(options: argparse.Namespace) -> None:
    """Run every harness to its last step."""
    store: Store = SqliteStore(options.store)
    if options.fault is not None:
        moment, number = options.fault.split(":")
        store = FaultyStore(store, kill_this_process, at=int(number), after=moment == "after")
    backoff = Backoff(base_s=0.001, cap_s=0.01)
    async with Orchestrator(store, backoff=backoff, intensity=10**6, control=options.control) as orchestrator:
        for name in options.only or KINDS:
            harness = KINDS[name](options.steps, partial(acknowledge, options.acknowledge, name), options.pace)
            orchestrator.start(harness, name=name, take_over=options.take_over)
    store.close()


def acknowledge(descriptor: int, name: str, step: int) -> None:
    """Tell that a step was acknowledged; what was written here outlives the process."""
    os.write(descriptor, f"{name} {step}\n".encode())


def parse() -> argparse.Namespace:
    """Return the options."""
    parser = argparse.ArgumentParser()
    parser.add_argument("store", type=Path)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--acknowledge", type=int, default=1, metavar="DESCRIPTOR")
    parser.add_argument("--only", action="append", choices=list(KINDS))
    parser.add_argument("--pace", type=float, default=0.0, metavar="S", help="seconds that each step takes")
    parser.add_argument("--take-over", action="store_true")
    parser.add_argument("--control", action="store_true", help="take orders from other programs")
    parser.add_argument("--fault", metavar="before:N|after:N", help="the commit at which the program kills itself")
    return parser.parse_args()


if __name__ == "__main__":
    trio.run(run_all, parse())
