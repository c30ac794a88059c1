"""Records for the tests of numbers and spans: made by hand, or by a run."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from orchestrator import Orchestrator, OrchestratorError, Store
from orchestrator.records import Record
from tests.orchestrator.scripted import STEADY, Scripted, Steps

SECOND = 1_000_000


def record(seq: int, kind: str, step: int = 0, *, harness: str = "a", attempt: int = 1, run: str = "r", **body: Any) -> Record:
    """Return a record made `seq` seconds after 1970."""
    return Record(seq, harness, attempt, step, seq * SECOND, kind, msgspec.json.encode(body).decode(), run)


async def double(number: int) -> int:
    """Have an effect on the world."""
    return number * 2


async def busy(harness: Scripted) -> Steps:
    """Make three steps with an effect each, fail after the second, and go on."""
    while harness.current_step < 3:
        number = harness.current_step + 1
        yield number, await harness.once(f"double/{number}", double, number)
        await harness.sleep(1)
        if harness.current_step == 2 and not harness.ran:
            harness.ran.append("failed")
            raise ValueError("the second time is the worst")


async def run_busy(store: Store, names: Iterable[str] = ("a",), **options: Any) -> None:
    """Run such harnesses to their end."""
    try:
        async with Orchestrator(store, handle_signals=False, backoff=STEADY, **options) as orchestrator:
            for name in names:
                orchestrator.start(Scripted(busy), name=name)
    except* OrchestratorError:
        pass
