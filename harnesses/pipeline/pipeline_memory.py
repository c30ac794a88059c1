"""The memory of a pipeline: a protocol, and its implementation by an `EpisodicMemory`.

The law: a memory can neither stop a pipeline nor command its agents: what it recalls is handed on as data, and what it raises
is an event.
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


class EpisodesOfPipeline:
    """Recalls from an `EpisodicMemory`, and writes to it what has passed.

    Args:
        memory: of the project.
        harness: the durable name of the pipeline: a retraction names who has used what was retracted.
        branch: of the repository, if there is one.
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
