"""The staged pipeline: agents build, others judge in a copy, code decides by evidence, and people approve what is dangerous.

stage, task     what has to come to be, and what is claimed as one
preset          the 15 stages of software development, and two ways to make tasks of them
harness         the harness that works them
assignments     what builders and validators are handed, and what they hand in
readonly        what a validator can do: read a copy, run commands in it, change nothing
folder          the run folder: what was done, as files
"""

from harnesses.pipeline.assignments import Inspection, StageWork
from harnesses.pipeline.episodes import EpisodesOfPipeline
from harnesses.pipeline.errors import PipelineInvalid
from harnesses.pipeline.harness import PipelineHarness
from harnesses.pipeline.ids import StageId, TaskId
from harnesses.pipeline.material import Material
from harnesses.pipeline.memory import Asked, Finished, PipelineMemory, Recalled
from harnesses.pipeline.preset import PLAN_TASKS, SDLC_STAGES, SDLC_TASKS
from harnesses.pipeline.readonly import ReadOnly
from harnesses.pipeline.record import (
    Mode,
    MoveKind,
    PipelineInput,
    PipelineOutput,
    PipelineState,
    RunStatus,
)
from harnesses.pipeline.seen import Seen
from harnesses.pipeline.stage import Stage, StageCheck
from harnesses.pipeline.task import Deed, Task, each_stage

__all__ = [
    "PLAN_TASKS",
    "SDLC_STAGES",
    "SDLC_TASKS",
    "Asked",
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
