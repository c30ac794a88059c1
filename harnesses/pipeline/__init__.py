"""The staged pipeline: agents build, others validate in a copy, evidence decides, people approve dangerous actions.

harness         the harness that works through the stages
plan/           stages, the tasks that cover them, and the preset of 15 stages of software development
stage_work      the inputs and answers of builders and validators
judging/        a private copy of the workspace, the checks and commands run in it, and the verdict
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
"""Former names of `Artifact` and `CheckRun`."""

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
