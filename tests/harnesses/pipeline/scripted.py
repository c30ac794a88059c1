"""Pipelines for tests: small ones, with agents that do as they are told."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import trio
from trio.testing import MockClock

from harnesses.agent import Agent, AgentRun
from harnesses.pipeline.harness import PipelineHarness
from harnesses.pipeline.plan.stage import Stage
from harnesses.pipeline.stage_work import Inspection, StageWork

Work = StageWork
Act = Callable[[StageWork], Awaitable[object] | object]


def stages(*names: str, chain: bool = False, **more: Any) -> tuple[Stage, ...]:
    """Return stages `a`, `b`, …; in a chain each waits for the one before."""
    return tuple(
        Stage(
            id=name,
            title=f"Stage {name}",
            artifact=f"{name}.json",
            agent=f"agent.{name}",
            after=(names[place - 1],) if chain and place else (),
            **more,
        )
        for place, name in enumerate(names)
    )


def write(work: StageWork, path: str, content: str) -> str:
    """Write a file below the project's root; return its path."""
    assert work.directory is not None
    place = Path(work.directory) / path
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(content, encoding="utf-8")
    return path


def write_artifacts(work: StageWork, **content: object) -> list[str]:
    """Write the artifact of each stage of a task; return the paths."""
    said = content or {"said": "something"}
    return [write(work, path, json.dumps(said)) for path in work.artifacts.values()]


def contract(work: StageWork, files: list[str], **changes: object) -> dict[str, Any]:
    """Return a complete contract of an honest builder."""
    return {
        "task_id": str(work.task.id),
        "agent": work.agent,
        "nonce": work.claim.nonce,
        "status": "PASS",
        "summary": "wrote what was asked for",
        "files_modified": files,
        "tests_run": ["looked at what was written"],
        "risks": [],
        "next_steps": [],
        "memory_summary": {"work_done": "wrote what was asked for", "evidence": files},
        "stage_summaries": [
            {"stage_id": str(id), "agent_id": work.agent, "work_done": "wrote its artifact", "evidence": files}
            for id in work.task.stages
        ],
        **changes,
    }


def honest(work: StageWork) -> dict[str, Any]:
    """Write the artifacts, and say so."""
    return contract(work, write_artifacts(work))


class Builders(Agent[Any, Any, Any]):
    """Does what is told for each task, by id and attempt: the last repeats; what is not named is done honestly.

    Args:
        pause_s: what each attempt takes; by default a second of a virtual clock, or a moment of the real one.
    """

    def __init__(self, acts: Mapping[str, Act | list[Act]] | None = None, *, pause_s: float | None = None) -> None:
        super().__init__(self._work, name="builder")
        self._acts = dict(acts or {})
        self._pause_s = pause_s
        self.begun: list[tuple[str, int]] = []
        self.at_work = self.most_at_work = 0

    async def _work(self, run: AgentRun[Any, StageWork]) -> object:
        work = run.input
        self.begun.append((str(work.task.id), work.claim.attempt))
        self.at_work += 1
        self.most_at_work = max(self.most_at_work, self.at_work)
        try:
            is_virtual = isinstance(trio.lowlevel.current_clock(), MockClock)
            await trio.sleep(self._pause_s if self._pause_s is not None else 1.0 if is_virtual else 0.02)
            acts = self._acts.get(str(work.task.id), honest)
            act = acts[min(work.claim.attempt, len(acts)) - 1] if isinstance(acts, list) else acts
            made = act(work)
            return await made if isinstance(made, Awaitable) else made
        finally:
            self.at_work -= 1


def verdict(inspection: Inspection, **changes: object) -> dict[str, Any]:
    """Return the contract of a validator that has found all good."""
    return {
        "task_id": str(inspection.task.id),
        "validator": inspection.validator,
        "status": "PASS",
        "checks": [{"name": "looked", "status": "PASS", "evidence": "at every file"}],
        "issues": [],
        "retry_recommendation": "none",
        "nonce": inspection.claim.nonce,
        **changes,
    }


def judging(act: Callable[[Inspection], object] = verdict, name: str = "validator") -> Agent[Any, Any, Any]:
    """Return a validator."""

    async def judge(run: AgentRun[Any, Inspection]) -> object:
        made = act(run.input)
        return await made if isinstance(made, Awaitable) else made

    return Agent(judge, name=name)


def pipeline(workspace: Path, *names: str, chain: bool = False, **options: Any) -> PipelineHarness:
    """Return a pipeline over stages of these names."""
    workspace.mkdir(exist_ok=True)
    options.setdefault("agents", Builders())
    options.setdefault("validators", judging())
    given = options.pop("stages", None) or stages(*names, chain=chain)
    return PipelineHarness(given, workspace=workspace, goal="try things out", run_folder="run", **options)


def statuses(harness: PipelineHarness) -> dict[str, str]:
    """Return where each task stands."""
    return {str(task.id): str(task.status) for task in harness.state.tasks}
