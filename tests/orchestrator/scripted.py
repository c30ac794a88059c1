"""A harness made of one generator function, and questions asked of a store: what the tests of this folder share."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeAlias, cast

from harnesses import BaseHarness
from orchestrator import Backoff, Orchestrator, OrchestratorError, Store

Steps: TypeAlias = AsyncIterator[Any]

STEADY = Backoff(base_s=1, factor=1, jitter=0)
"""A second before each restart."""


class Scripted(BaseHarness[Any, Any, Any]):
    """Runs `script(harness)`; complete once `current_step` is `until`."""

    def __init__(self, script: Callable[[Scripted], Any], state: Any = None, *, until: int | None = None) -> None:
        super().__init__(state)
        self.script = script
        self.until = until
        self.generator: Any = None
        self.ran: list[str] = []
        """What the script has to say for itself."""

    def execute(self) -> Steps:
        self.generator = self.script(self)
        return cast(Steps, self.generator)

    def is_complete(self) -> bool:
        return self.current_step == self.until


async def poll(harness: Scripted) -> Steps:
    """Make a step each second, for ever."""
    while True:
        yield harness.current_step + 1, None
        await harness.sleep(1)


async def three(harness: Scripted) -> Steps:
    """Make steps, one a second, until there are three."""
    while harness.current_step < 3:
        yield harness.current_step + 1, None
        await harness.sleep(1)


async def crash(harness: Scripted) -> Steps:
    """Make a step, and crash a second later."""
    yield harness.current_step + 1, None
    await harness.sleep(1)
    raise ValueError("boom")


@asynccontextmanager
async def to_the_end(
    store: Store | None = None, **options: Any
) -> AsyncGenerator[tuple[Orchestrator, list[BaseException]], None]:
    """A program that runs until its harnesses have ended, and the list of what it raises then."""
    errors: list[BaseException] = []
    options.setdefault("backoff", STEADY)
    try:
        async with Orchestrator(store, handle_signals=False, **options) as orchestrator:
            yield orchestrator, errors
    except* OrchestratorError as group:
        errors.extend(group.exceptions)


def numbers(store: Store, name: str) -> list[int]:
    """Return the numbers of the recorded steps."""
    return [step.step_number for step in store.steps(name, limit=1_000_000)]


def kinds(store: Store, name: str) -> list[str]:
    """Return the kinds of everything recorded of a harness, in order."""
    return [record.kind for record in store.records(limit=1_000_000) if record.harness == name]


def events(store: Store, name: str) -> list[str]:
    """Return the kinds of a harness's lifecycle events, in order."""
    return [kind for kind in kinds(store, name) if kind not in ("step", "message")]
