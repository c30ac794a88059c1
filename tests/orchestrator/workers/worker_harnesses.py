"""Harnesses that the tests run in several workers, and the function that starts them there."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator, Sequence

import trio

from harnesses import BaseHarness
from harnesses.budgets.budget import Budget
from orchestrator import Orchestrator
from orchestrator.store.store_capabilities import path_of

LIMIT = 21


class Spending(BaseHarness[int, int, int]):
    """Makes steps until the pool that it shares with its siblings is empty."""

    async def execute(self) -> AsyncIterator[tuple[int, int]]:
        while True:
            self.update_state(lambda count: count + 1)
            yield self.state, os.getpid()


class Asking(BaseHarness[int, str, int]):
    """Sends a message to `other`, which runs in another process, and waits for its answer."""

    accepts = (int,)

    async def execute(self) -> AsyncIterator[tuple[str, int]]:
        await self.send("other", 20)
        yield "sent", os.getpid()
        answer = await self.receive(int)
        yield "answered", answer


class Other(BaseHarness[int, str, int]):
    """Sends back twice the number that it gets."""

    accepts = (int,)

    async def execute(self) -> AsyncIterator[tuple[str, int]]:
        number = await self.receive(int)
        await self.send("asking", 2 * number)
        yield "doubled", os.getpid()


async def start(orchestrator: Orchestrator, names: Sequence[str]) -> None:
    """Start a share of the harnesses."""
    pool = orchestrator.pool("shared", Budget(steps=LIMIT))
    if "other" in names:
        await trio.sleep(0.5)  # what is sent to it meanwhile waits
    kinds = {"asking": Asking, "other": Other}
    for name in names:
        if name in kinds:
            orchestrator.start(kinds[name](0), name=name)
        else:
            orchestrator.start(Spending(0), name=name, pool=pool)


def start_wrongly(orchestrator: Orchestrator, names: Sequence[str]) -> None:
    """Fail before anything is started."""
    raise ValueError(f"cannot start {names[0]}")


async def start_after_a_kill(orchestrator: Orchestrator, names: Sequence[str]) -> None:
    """Start a share, but kill the first worker that is to do so."""
    store = path_of(orchestrator.store)
    assert store is not None
    mark = store.with_suffix(".killed")
    if not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    await start(orchestrator, names)
