"""Episodes for the tests of the memory."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from attrs import define

from harnesses.memory import Episode, EpisodicMemory, MemorySettings

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)


@define
class Clock:
    """A clock that is turned by hand."""

    now: datetime = NOW

    def __call__(self) -> datetime:
        return self.now

    def advance(self, **by: float) -> None:
        self.now += timedelta(**by)


def episode(name: str = "one", task: str = "Round prices to ticks in the checkout", **more: Any) -> Episode:
    """Return an episode that a validator has passed."""
    fields: dict[str, Any] = {
        "id": f"ep_run_{name}_1",
        "run_id": "run",
        "task_id": name,
        "task": task,
        "outcome": "PASS",
        "validator_status": "PASS",
        "evidence_paths": (f"tasks/{name}/builder.json", f"tasks/{name}/validation.json"),
        "created_at": NOW,
    }
    return Episode(**(fields | more))


def memory(folder: Path, *, clock: Clock | None = None, embedder: Any = None, **settings: Any) -> EpisodicMemory:
    """Return an open memory below a folder."""
    made = MemorySettings(**settings)
    return EpisodicMemory(folder / "memory.db", project="shop", settings=made, embedder=embedder, now=clock or Clock())
