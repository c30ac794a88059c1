"""The program of a worker of `run_workers`: `python -m orchestrator.workers.worker_program DESCRIPTOR`."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Awaitable, Callable, Sequence
from importlib import import_module
from typing import Any, TypeAlias, cast

import trio

from orchestrator.errors import UsageError
from orchestrator.orchestrator import Orchestrator
from orchestrator.workers.worker_channel import Begun, Ended, Report, WorkerChannel

Start: TypeAlias = Callable[[Orchestrator, Sequence[str]], object]


def ended(orchestrator: Orchestrator) -> tuple[Ended, ...]:
    """Return how each harness ended, as plain values."""
    found = [(handle.name, handle.outcome) for handle in orchestrator.handles]
    return tuple(
        Ended(name, outcome.kind.value, outcome.cause, outcome.step, outcome.attempt)
        for name, outcome in found
        if outcome is not None
    )


def main() -> None:
    """Run this worker's share to its end."""
    channel = WorkerChannel.open(int(sys.argv[1]))
    sys.path[:] = channel.share.options["path"]
    trio.run(_run, channel)


async def _run(channel: WorkerChannel) -> None:
    options: dict[str, Any] = channel.share.options
    start = _load(options["start"])
    orchestrator = Orchestrator(options["store"], **options["options"])
    orchestrator.tells_signals = False
    orchestrator.elsewhere = frozenset(options["all"])
    code = 1
    try:
        async with orchestrator:
            channel.stop_with_program()
            given = start(orchestrator, channel.share.names)
            if inspect.isawaitable(given):
                await cast(Awaitable[object], given)
            channel.tell(Begun())
        code = 0
    finally:
        if orchestrator.handles:
            channel.tell(Report(ended=ended(orchestrator), code=code))


def _load(reference: str) -> Start:
    """Return the function that starts the harnesses.

    Raises:
        UsageError: there is none of that name.
    """
    module, _, name = reference.partition(":")
    found = getattr(import_module(module), name, None)
    if not callable(found):
        raise UsageError(f"start: expected a function {name!r} in {module}, was {found!r:.100}; correct the name")
    return cast(Start, found)


if __name__ == "__main__":
    main()
