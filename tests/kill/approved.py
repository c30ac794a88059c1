"""The program that is killed while people answer: one harness does an effect in each step, and each needs an approval.

python -m tests.kill.approved STORE WORLD --steps 2 --fault after:3
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import trio

from harnesses import Action
from orchestrator import Orchestrator, SqliteStore
from orchestrator.store.store_protocol import Committed
from orchestrator.testing import kill_this_process

from .effects import Plain, options_of_a_life
from .effects_world import World

NAME = "publishing"


class Publishing(Plain):
    """One effect in each step, which a person has to approve."""

    async def do_once(self, key: str, ticket: str) -> str:
        action = Action("publish", f"publish {ticket}")
        return await self.once(key, self.world.act, ticket, reconcile=self.world.ask, approval=action)


class DyingStore(SqliteStore):
    """Kills this process before or after one of its commits. Unlike `FaultyStore`, it notices what other processes write.

    Args:
        fault: `before:N` or `after:N`; nothing without one.
    """

    def __init__(self, path: Path, fault: str | None) -> None:
        super().__init__(path)
        moment, _, number = (fault or "").partition(":")
        self._due = moment, int(number or 0)
        self._made = 0

    def commit(self, *args: Any, **options: Any) -> Committed:
        self._made += 1
        if self._due == ("before", self._made):
            kill_this_process()
        committed = super().commit(*args, **options)
        if self._due == ("after", self._made):
            kill_this_process()
        return committed


async def run_all(options: argparse.Namespace) -> None:
    """Run the harness to its last step, or until it is blocked."""
    store = DyingStore(options.store, options.fault)
    async with Orchestrator(store) as orchestrator:
        orchestrator.start(Publishing(options.steps, World(options.world), "once", None), name=NAME)
    store.close()


if __name__ == "__main__":
    trio.run(run_all, options_of_a_life(steps=2).parse_args())
