"""The memory of a pipeline: a protocol, and an implementation with `EpisodicMemory`.

Invariant: a memory can neither stop a pipeline nor command its agents: recalled text is passed on as data, and an error is an
    event.
"""

from __future__ import annotations

from typing import Protocol

from attrs import frozen

from harnesses.governance.contracts.contract import BuilderContract, ValidatorContract
from harnesses.memory import EpisodicMemory, Query, Skipped, episode_of
from harnesses.pipeline.pipeline_state import TaskNote
from harnesses.processes.threads import aside
from harnesses.timing.clock import utc_now


@frozen(kw_only=True)
class Asked:
    """The task that is about to be worked."""

    run_id: str
    task: TaskNote
    agents: tuple[str, ...]
    """Names of the agents of its stages."""


@frozen(kw_only=True)
class Recalled:
    """Memories of earlier work."""

    text: str = ""
    """Text for the agent: bounded, and labelled as history."""
    episodes: tuple[str, ...] = ()
    """Ids of the episodes it is based on."""


@frozen(kw_only=True)
class Finished:
    """A task that has passed."""

    run_id: str
    task: TaskNote
    agents: tuple[str, ...]
    attempt: int
    contract: BuilderContract
    verdict: ValidatorContract
    evidence_paths: tuple[str, ...]


class PipelineMemory(Protocol):
    """The memory interface that a pipeline needs."""

    async def recall(self, asked: Asked) -> Recalled:
        """Return memories that may help with a task."""
        ...

    async def remember(self, finished: Finished) -> str:
        """Store passed work; once for each run, task and attempt, however often it is called. Return the result in words."""
        ...


class EpisodesOfPipeline:
    """Recalls from an `EpisodicMemory`, and stores passed work in it.

    Args:
        memory: the memory of the project.
        harness: the durable name of the pipeline; a retraction names the harnesses that used the retracted episode.
        branch: branch of the repository, if there is one.
    """

    def __init__(self, memory: EpisodicMemory, *, harness: str = "", branch: str = "unknown") -> None:
        self._memory = memory
        self._harness = harness
        self._branch = branch

    async def recall(self, asked: Asked) -> Recalled:
        task = asked.task
        query = Query(
            _words(task),
            agents=asked.agents,
            stages=tuple(str(stage) for stage in task.stages),
            branch=self._branch,
            run_id=asked.run_id,
            task_id=str(task.id),
            harness=self._harness,
        )
        recall = await aside(self._memory.recall, query)
        return Recalled(text=recall.text, episodes=tuple(one.episode.id for one in recall.episodes))

    async def remember(self, finished: Finished) -> str:
        task = finished.task
        episode = episode_of(
            finished.contract,
            finished.verdict,
            run_id=finished.run_id,
            task=_words(task),
            attempt=finished.attempt,
            evidence_paths=finished.evidence_paths,
            now=utc_now(),
            branch=self._branch,
            agents=finished.agents,
            stages=tuple(str(stage) for stage in task.stages),
        )
        came = await aside(self._memory.write, episode)
        return f"skipped: {came.reason}" if isinstance(came, Skipped) else f"written as {came.id}"


def _words(task: TaskNote) -> str:
    return "\n".join((task.title, task.description, task.goal, *task.domains, *task.acceptance_criteria))
