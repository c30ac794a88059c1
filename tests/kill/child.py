"""The program that is killed: runs the workload on a store, and writes each acknowledged step to a file descriptor.

python -m tests.kill.child STORE --steps 100 --acknowledge 1
"""

from __future__ import annotations

import argparse
import os
from functools import partial
from pathlib import Path
from typing import Any

import trio

from orchestrator import Backoff, Orchestrator, SqliteStore, Store
from orchestrator.testing import FaultyStore, kill_this_process

from .workload import KINDS, Acknowledge, Known


async def run_all(options: argparse.Namespace) -> None:
    """Run every harness to its last step."""
    store: Store = SqliteStore(options.store)
    if options.fault is not None:
        moment, number = options.fault.split(":")
        store = FaultyStore(store, kill_this_process, at=int(number), after=moment == "after")
    backoff = Backoff(base_s=0.001, cap_s=0.01)
    async with Orchestrator(store, backoff=backoff, intensity=10**6, control=options.control) as orchestrator:
        for name in options.only or KINDS:
            tell = partial(acknowledge, options.acknowledge, name)
            stored = Stored(tell) if options.group else None
            harness = KINDS[name](options.steps, stored or tell, options.pace)
            if stored is not None:
                stored.harness = harness
            how: Any = {"take_over": options.take_over, "durability": "group" if options.group else "step"}
            orchestrator.start(harness, name=name, **how)
    store.close()


class Stored:
    """Tells of the steps that are stored, of a harness that goes on before they are."""

    harness: Known[Any]

    def __init__(self, tell: Acknowledge) -> None:
        self.tell = tell
        self.last: int | None = None

    def __call__(self, step: int) -> None:
        """Take note that a step was accepted."""
        last = step - 1 if self.last is None else self.last
        self.last = max(last, self.harness.durable_step)
        for number in range(last + 1, self.last + 1):
            self.tell(number)


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
    parser.add_argument("--group", action="store_true", help="store steps in groups, and acknowledge those that are stored")
    parser.add_argument("--control", action="store_true", help="take orders from other programs")
    parser.add_argument("--fault", metavar="before:N|after:N", help="the commit at which the program kills itself")
    return parser.parse_args()


if __name__ == "__main__":
    trio.run(run_all, parse())
