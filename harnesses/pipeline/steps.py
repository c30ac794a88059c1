"""What else a pipeline does: it sets back what is stale, follows orders, and tells the memory what has passed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import trio

from harnesses.features.turn import words_of
from harnesses.governance.binding import changed
from harnesses.governance.contracts import read_builder, read_validator
from harnesses.governance.retry import TaskStatus
from harnesses.pipeline.changes import (
    record_of,
    remembered,
    set_back,
    stands,
)
from harnesses.pipeline.deeds import PipelineDeeds
from harnesses.pipeline.ids import TaskId
from harnesses.pipeline.memory import Finished
from harnesses.pipeline.orders import obeyed
from harnesses.pipeline.prompts import artifact_path
from harnesses.pipeline.record import MoveKind, PipelineState, TaskRecord
from harnesses.pipeline.telling import PipelineStep
from harnesses.threads import aside

_MAX_ORDERS = 100
"""Orders that are followed in one step."""


class PipelineSteps(PipelineDeeds):
    """The rest of the steps."""

    async def _set_back(self) -> PipelineStep | None:
        """Set back what was proven of content that is another now; None if there is nothing."""
        found = await aside(stale_tasks, self.state, self._workspace)
        if not found:
            return None
        state, events, said = self.state, list[dict[str, object]](), list[str]()
        for id, paths in found.items():
            if not stands(record_of(state, id)):
                continue
            why = f"its evidence is stale, for {', '.join(paths[:3])} {'is' if len(paths) == 1 else 'are'} not what was judged"
            state, back = set_back(state, id, why, self.now())
            events += [self._event("evidence_stale", task_id=str(one), because_of=str(id), paths=paths[:20]) for one in back]
            said.append(f"{id}: {why}")
        return self._made(state, MoveKind.SET_BACK, next(iter(found)), note="; ".join(said)[:500], events=events)

    # orders

    def _followed(self, orders: Sequence[object]) -> PipelineStep:
        """Do what people have ordered."""
        state, answers, events = self.state, list[str](), list[dict[str, object]]()
        for order in orders:
            state, id, answer = obeyed(state, self._guardrails, order, self.now())
            answers.append(answer)
            events.append(self._event("order_followed" if id else "order_refused", task_id=id or None, answer=answer))
        return self._made(state, MoveKind.ORDERS, note="; ".join(answers)[:1000], events=events)

    def _orders(self) -> list[object]:
        """Take the orders that have come."""
        orders: list[object] = []
        while len(orders) < _MAX_ORDERS:
            try:
                orders.append(self.receive_nowait())
            except trio.WouldBlock:
                break
        return orders

    # what is remembered

    def _unremembered(self) -> list[TaskRecord]:
        """Return what has passed and is not known to be remembered."""
        if self._memory is None:
            return []
        return [task for task in self.state.tasks if task.status is TaskStatus.PASS and not task.remembered]

    async def _remember(self, records: Sequence[TaskRecord]) -> PipelineStep:
        """Tell the memory what has passed. That it can not take it in is no reason to stop."""
        events: list[dict[str, object]] = []
        for record in records:
            came = await self._remembered(record)
            kind = "episode_memory_write_failed" if came.startswith("failed") else "episode_memory_written"
            events.append(self._event(kind, task_id=str(record.id), result=came))
        state = remembered(self.state, [record.id for record in records])
        return self._made(state, MoveKind.REMEMBER, records[0].id, events=events)

    async def _remembered(self, record: TaskRecord) -> str:
        assert self._memory is not None
        note = self._note(record.id)
        try:
            finished = Finished(
                run_id=self.state.run_id,
                task=note,
                agents=tuple(self._agents_of(note).values()),
                attempt=record.attempts,
                contract=read_builder(record.builder, task_id=str(record.id), agent=self._agent_name(note)),
                verdict=read_validator(record.validation, task_id=str(record.id)),
                evidence_paths=(f"tasks/{record.id}/builder.json", f"tasks/{record.id}/validation.json"),
            )
            return await self._memory.remember(finished)
        except Exception as error:
            return f"failed: {words_of(error)[:300]}"


def stale_tasks(state: PipelineState, workspace: Path) -> dict[TaskId, list[str]]:
    """Return the tasks whose proof is of content that is another now, each with the paths; reads all of it.

    Those that are proven and wait for their deeds count too. The artifact of a stage that two tasks have is spoken for by
    whichever was proven last.
    """
    notes = {note.id: note for note in state.plan}
    proven = sorted(filter(stands, state.tasks), key=lambda task: (not task.proven, -task.passed_step))
    spoken: set[str] = set()
    found: dict[TaskId, list[str]] = {}
    for task in proven:
        subject = {(one.path, one.sha256): one for entry in task.proof for one in entry.subject}
        own = [one for (path, _), one in subject.items() if path not in spoken]
        if paths := list(dict.fromkeys(changed(own, workspace))):
            found[task.id] = paths
        spoken |= {artifact_path(state, stage) for stage in notes[task.id].stages}
    return dict(sorted(found.items()))
