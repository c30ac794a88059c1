"""What earlier tasks hand on to a later one: where their artifacts are, what they decided, what to keep, hints. Pure.

Only tasks that have passed hand on anything, and only to tasks that wait for them, directly or not. The nearest come first, so
that a bound cuts off the oldest. All of it was said by agents: it is data for whoever is told.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from harnesses.governance.contract_nouns import BuilderContract, StageSummary
from harnesses.governance.contracts import read_builder
from harnesses.governance.errors import ContractError
from harnesses.governance.memory.sanitising import sanitised
from harnesses.governance.retry import TaskStatus
from harnesses.pipeline.ids import TaskId
from harnesses.pipeline.record import PipelineState, TaskNote, TaskRecord

MAX_WORK_DONE = 700
"""Characters of what a task says it has done."""
MAX_ITEM = 260
"""Characters of a decision, a hint, and so on."""
MAX_ITEMS = 10
"""Of each kind from one task."""


def predecessors(state: PipelineState, task: TaskNote) -> tuple[TaskNote, ...]:
    """Return every task that `task` waits for, directly or not, the nearest first."""
    notes = {note.id: note for note in state.plan}
    found: dict[TaskId, TaskNote] = {}
    next_ones = list(task.after)
    while next_ones:
        for id in next_ones:
            found.setdefault(id, notes[id])
        next_ones = [other for id in next_ones for other in notes[id].after if other not in found]
    return tuple(found.values())


def handover(state: PipelineState, task: TaskNote) -> str:
    """Return what the tasks before this one hand on to it, in words; empty if there is nothing."""
    records = {record.id: record for record in state.tasks}
    passed = [note for note in predecessors(state, task) if records[note.id].status is TaskStatus.PASS]
    return "\n\n".join(_handed_on(state, note, records[note.id]) for note in passed)


def _handed_on(state: PipelineState, note: TaskNote, record: TaskRecord) -> str:
    lines = [f"## {note.id}: {note.title}"]
    lines += _listed("artifact", (f"{state.run_folder}/{kept.path}" for kept in record.kept))
    contract = _contract(record)
    if contract is not None:
        lines += _summarised(contract)
    return "\n".join(lines)


def _contract(record: TaskRecord) -> BuilderContract | None:
    """Return what a task was passed with. A record from outside may hold anything."""
    try:
        return read_builder(record.builder, task_id=str(record.id))
    except ContractError:
        return None


def _summarised(contract: BuilderContract) -> list[str]:
    summary, stages = contract.memory_summary, contract.stage_summaries
    if summary is None:
        return [f"done: {sanitised(contract.summary, MAX_WORK_DONE)}"]
    dropped = {*summary.context_to_drop, *(item for stage in stages for item in stage.context_to_drop)}
    kept = [item for item in (*summary.context_to_keep, *_kept(stages)) if item not in dropped]
    return [
        f"done: {sanitised(summary.work_done or contract.summary, MAX_WORK_DONE)}",
        *_listed("decided", summary.decisions),
        *_listed("keep in mind", kept),
        *_listed("hint", summary.next_agent_hints),
        *_listed("risk", contract.risks),
        *_listed("left open", contract.next_steps),
    ]


def _kept(stages: Sequence[StageSummary]) -> Iterable[str]:
    return (item for stage in stages for item in stage.context_to_keep)


def _listed(word: str, items: Iterable[str]) -> list[str]:
    return [f"{word}: {sanitised(item, MAX_ITEM)}" for item in list(dict.fromkeys(items))[:MAX_ITEMS]]
