"""A pipeline's memory in the episodic one: what passed is an episode, and what is like the task at hand is recalled."""

from __future__ import annotations

from datetime import UTC, datetime

from harnesses.governance.memory import EpisodicMemory, Query, Skipped, attempt_id, episode_of
from harnesses.pipeline.memory import Asked, Finished, Recalled
from harnesses.pipeline.record import TaskNote
from harnesses.threads import aside


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
            now=datetime.now(UTC),
            branch=self._branch,
            agents=finished.agents,
            stages=tuple(str(stage) for stage in task.stages),
        )
        came = await aside(self._memory.write, episode)
        return f"skipped: {came.reason}" if isinstance(came, Skipped) else f"written as {came.id}"


def episode_id(run_id: str, task_id: str, attempt: int) -> str:
    """Return what the episode of an attempt is known by, to retract it."""
    return attempt_id(run_id, task_id, attempt)


def _words(task: TaskNote) -> str:
    return "\n".join((task.title, task.description, task.goal, *task.domains, *task.acceptance_criteria))
