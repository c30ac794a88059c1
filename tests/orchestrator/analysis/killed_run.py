"""A program that is killed while one of its harnesses hangs and another waits for a person, for `test_true_figures`."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import trio
from trio.testing import MockClock

from harnesses import Action
from harnesses.timing import clock
from orchestrator import Orchestrator
from tests.orchestrator.scripted import Scripted, Steps

SECONDS = 200
"""How long the first program lives; then nothing is recorded for `GONE`."""
GONE = 1000
IS_AGAIN = len(sys.argv) > 2


async def hanging(harness: Scripted) -> Steps:
    """Make two steps, then none until the program is killed; two more in the next one."""
    while harness.current_step < 4:
        if harness.current_step == 2 and not IS_AGAIN:
            await trio.sleep_forever()
        await harness.sleep(1)
        yield harness.current_step, "made"


async def ticking(harness: Scripted) -> Steps:
    """Make a step a second, and have the program killed in the midst of it."""
    while harness.current_step < SECONDS + 50:
        await harness.sleep(1)
        yield harness.current_step, "ticked"
        if harness.current_step == SECONDS and not IS_AGAIN:
            os.kill(os.getpid(), signal.SIGKILL)


async def asking(harness: Scripted) -> Steps:
    """Ask a person."""
    await harness.approval("pay", Action("order", "pay 100 to Bob", expires_s=1_000_000))
    yield 1, "paid"


async def main(path: Path) -> None:
    clock.system_time_ns = lambda: 1_772_366_400 * 10**9 + round(1e9 * (trio.current_time() - begin))
    begin = trio.current_time() - (SECONDS + GONE) * IS_AGAIN
    async with Orchestrator(path, handle_signals=False, log=path.with_suffix(".jsonl")) as orchestrator:
        for script in (hanging, ticking, asking):
            orchestrator.start(Scripted(script, 0), name=script.__name__)
        await trio.sleep(SECONDS + 100)
        orchestrator.stop()


if __name__ == "__main__":
    trio.run(main, Path(sys.argv[1]), clock=MockClock(autojump_threshold=0))
