"""The program that is killed while it works a small pipeline.

python -m tests.kill.pipeline_child FOLDER --fault after:7
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import trio

from harnesses.agent import Agent, AgentRun
from harnesses.governance import EvidencePolicy, Grade
from harnesses.pipeline import Deed, Inspection, PipelineHarness, Stage, StageWork, each_stage
from orchestrator import Backoff, Orchestrator, SqliteStore, Store
from orchestrator.testing import FaultyStore, kill_this_process

STAGES = (
    Stage(id="a", title="A", artifact="a.json", agent="agent.a"),
    Stage(id="b", title="B", artifact="b.json", agent="agent.b", after=("a",)),
    Stage(id="c", title="C", artifact="c.json", agent="agent.c", after=("a",)),
    Stage(id="d", title="D", artifact="d.json", agent="agent.d", after=("b", "c")),
)
DEED = Deed(category="note", summary="write a line", command=("sh", "-c", "echo done >> deeds"))
WRONG_FIRST = "b"


async def build(run: AgentRun[Any, StageWork]) -> object:
    """Write the artifact, and say so; one of them says so without having done it, at its first attempt that it came to."""
    work = run.input
    root = Path(work.directory or ".")
    (path,) = work.artifacts.values()
    with (root / "attempts").open("a") as log:
        log.write(f"{work.task.id} {work.claim.attempt}\n")
    if str(work.task.id) == WRONG_FIRST and work.claim.attempt == 1:
        return "All done. Trust me."
    (root / path).write_text(json.dumps({"made": str(work.task.id)}))
    return {
        "task_id": str(work.task.id),
        "agent": work.agent,
        "nonce": work.claim.nonce,
        "status": "PASS",
        "summary": "wrote the artifact",
        "files_modified": [path],
        "tests_run": ["read it again"],
        "risks": [],
        "next_steps": [],
        "memory_summary": {"work_done": "wrote the artifact", "evidence": [path]},
        "stage_summaries": [{"stage_id": str(work.task.id), "work_done": "wrote the artifact", "evidence": [path]}],
    }


async def judge(run: AgentRun[Any, Inspection]) -> object:
    """Read the artifact."""
    inspection = run.input
    (path,) = inspection.artifacts.values()
    good = json.loads(inspection.project.read_text(path)) == {"made": str(inspection.task.id)}
    return {
        "task_id": str(inspection.task.id),
        "validator": inspection.validator,
        "status": "PASS" if good else "FAIL",
        "checks": [{"name": "read", "status": "PASS" if good else "FAIL", "evidence": path}],
        "issues": [],
        "retry_recommendation": "none",
        "nonce": inspection.claim.nonce,
    }


async def run_all(options: argparse.Namespace) -> None:
    """Work until every task passes; a person, of whom there is none here, lets what is blocked have another attempt."""
    store: Store = SqliteStore(options.folder / "run.db")
    if options.fault is not None:
        moment, number = options.fault.split(":")
        store = FaultyStore(store, kill_this_process, at=int(number), after=moment == "after")
    (options.folder / "work").mkdir(exist_ok=True)
    harness = PipelineHarness(
        STAGES,
        each_stage(STAGES, deeds={"c": (DEED,)}),
        agents=Agent(build, name="builder"),
        validators=Agent(judge, name="validator"),
        workspace=options.folder / "work",
        goal="four stages",
        run_folder="run",
        guardrails=options.guardrails,
        evidence_policy=EvidencePolicy(Grade.OBSERVED),
    )
    async with Orchestrator(store, backoff=Backoff(base_s=0.001, cap_s=0.01)) as orchestrator:
        handle = orchestrator.start(harness, name="pipeline")
        for task in options.unblock:
            handle.send({"unblock": task})
    if isinstance(store, FaultyStore):
        (options.folder / "commits").write_text(str(store.commits))
    store.close()


def parse() -> argparse.Namespace:
    """Return the options."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--fault", metavar="before:N|after:N", help="the commit at which the program kills itself")
    parser.add_argument("--unblock", nargs="*", default=[], metavar="TASK")
    options = parser.parse_args()
    from harnesses.governance import Guardrails

    # The deed needs nobody's word here: what is tried is that it is done once.
    options.guardrails = Guardrails(require_user_approval_for_destructive_actions=False)
    return options


if __name__ == "__main__":
    trio.run(run_all, parse())
