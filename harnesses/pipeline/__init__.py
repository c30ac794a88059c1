"""The staged pipeline: agents build, others judge in a copy, code decides by evidence, and people approve what is dangerous.

harness         the harness that works the stages
plan/           stages, the tasks that cover them, and the preset of 15 stages of software development
stage_work      what builders and validators are handed, and what they hand in
judging/        a private copy of the workspace, what is run and looked at in it, and the verdict
run_folder/     what was done, as files
"""

from harnesses.pipeline.harness import PipelineHarness
from harnesses.pipeline.judging.read_only_copy import CheckRun, ReadOnly
from harnesses.pipeline.pipeline_memory import Asked, EpisodesOfPipeline, Finished, PipelineMemory, Recalled
from harnesses.pipeline.pipeline_state import Mode, MoveKind, PipelineInput, PipelineOutput, PipelineState, RunStatus
from harnesses.pipeline.plan.ids import PipelineInvalid, StageId, TaskId
from harnesses.pipeline.plan.preset import PLAN_TASKS, SDLC_STAGES, SDLC_TASKS
from harnesses.pipeline.plan.stage import Artifact, Stage, StageCheck
from harnesses.pipeline.plan.task import Deed, Task, each_stage
from harnesses.pipeline.stage_work import Inspection, StageWork

Material, Seen = Artifact, CheckRun
"""The names that these had before."""

__all__ = [
    "PLAN_TASKS",
    "SDLC_STAGES",
    "SDLC_TASKS",
    "Artifact",
    "Asked",
    "CheckRun",
    "Deed",
    "EpisodesOfPipeline",
    "Finished",
    "Inspection",
    "Material",
    "Mode",
    "MoveKind",
    "PipelineHarness",
    "PipelineInput",
    "PipelineInvalid",
    "PipelineMemory",
    "PipelineOutput",
    "PipelineState",
    "ReadOnly",
    "Recalled",
    "RunStatus",
    "Seen",
    "Stage",
    "StageCheck",
    "StageId",
    "StageWork",
    "Task",
    "TaskId",
    "each_stage",
]
