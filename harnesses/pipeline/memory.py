"""What a pipeline asks of a memory, and tells it. Nouns.

The law: a memory can neither stop a pipeline nor command its agents: what it recalls is handed on as data, and what it raises
is an event.
"""

from __future__ import annotations

from typing import Protocol

from attrs import frozen

from harnesses.governance.contract_nouns import BuilderContract, ValidatorContract
from harnesses.pipeline.record import TaskNote


@frozen(kw_only=True)
class Asked:
    """What is about to be worked."""

    run_id: str
    task: TaskNote
    agents: tuple[str, ...]
    """What the agents of its stages are known by."""


@frozen(kw_only=True)
class Recalled:
    """What is remembered of earlier work."""

    text: str = ""
    """For the agent: bounded, labelled as history."""
    episodes: tuple[str, ...] = ()
    """Ids of what it is made of."""


@frozen(kw_only=True)
class Finished:
    """Work that has passed."""

    run_id: str
    task: TaskNote
    agents: tuple[str, ...]
    attempt: int
    contract: BuilderContract
    verdict: ValidatorContract
    evidence_paths: tuple[str, ...]


class PipelineMemory(Protocol):
    """A memory, as a pipeline needs it."""

    async def recall(self, asked: Asked) -> Recalled:
        """Return what may help."""
        ...

    async def remember(self, finished: Finished) -> str:
        """Take in what has passed, once for each run, task and attempt however often it is told; return what became of it."""
        ...
