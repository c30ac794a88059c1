"""The program that is killed while the class of its harness's state changes from life to life.

python -m tests.kill.versions_child STORE --version 2 --until 40
"""

from __future__ import annotations

import argparse
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, ClassVar

import trio
from attrs import evolve, frozen

from harnesses import BaseHarness, migrates
from orchestrator import Backoff, Orchestrator

STEP = "n{}"


def _led(version: int) -> Any:
    """Return the migration to a version: the count moves into a field of another name, and the trace grows."""

    def migrate(stored: dict[str, Any]) -> dict[str, Any]:
        count = stored[STEP.format(version - 1)]
        return {STEP.format(version): count, "trace": [*stored["trace"], [version, count]]}

    return migrate


@frozen
class One:
    """The first."""

    n1: int = 0
    trace: tuple[tuple[int, int], ...] = ()


@frozen
class Two:
    """The second."""

    schema_version: ClassVar[int] = 2
    n2: int = 0
    trace: tuple[tuple[int, int], ...] = ()


@frozen
class Three:
    """The third."""

    schema_version: ClassVar[int] = 3
    n3: int = 0
    trace: tuple[tuple[int, int], ...] = ()


@frozen
class Four:
    """The fourth."""

    schema_version: ClassVar[int] = 4
    n4: int = 0
    trace: tuple[tuple[int, int], ...] = ()


VERSIONS: tuple[type[Any], ...] = (One, Two, Three, Four)
for _cls in VERSIONS[1:]:
    for _to in range(2, VERSIONS.index(_cls) + 2):
        migrates(_cls, from_version=_to - 1)(_led(_to))


class Counting(BaseHarness[Any, int, int]):
    """Counts its steps in the field that its class has for it."""

    def __init__(self, version: int, until: int) -> None:
        super().__init__(VERSIONS[version - 1]())
        self.field = STEP.format(version)
        self.until = until

    def is_complete(self) -> bool:
        return self.current_step >= self.until

    async def execute(self) -> AsyncIterator[tuple[int, int]]:
        while True:
            count = int(getattr(self.state, self.field))
            assert count == self.current_step, f"the state has {count} at step {self.current_step}"
            self.update_state(lambda state: evolve(state, **{self.field: getattr(state, self.field) + 1}))
            yield count, count + 1
            print(end=".", flush=True)


async def run(store: Path, version: int, until: int) -> None:
    """Count up to a number."""
    async with Orchestrator(store, backoff=Backoff(base_s=0.001, cap_s=0.01)) as orchestrator:
        orchestrator.start(Counting(version, until), name="counting")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("store", type=Path)
    parser.add_argument("--version", type=int, default=1)
    parser.add_argument("--until", type=int, default=40)
    options = parser.parse_args()
    trio.run(run, options.store, options.version, options.until)
