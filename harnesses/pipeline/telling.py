"""How a pipeline tells what it does: the step that is yielded, with its events and its evidence in one commit; the run folder.

The laws: what is shown in files is on record; text from agents is without its secrets wherever it is told.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias, cast

import trio
from attrs import asdict, evolve

from harnesses.attachments import MAX_CHARACTERS
from harnesses.governance.binding import Bound
from harnesses.governance.evidence import Evidence
from harnesses.governance.grades import Grade
from harnesses.governor import Finding
from harnesses.pipeline.changes import record_of
from harnesses.pipeline.folder import event, rendered
from harnesses.pipeline.folder_files import sweep_drafts, write_folder
from harnesses.pipeline.ids import TaskId
from harnesses.pipeline.record import Json, MoveKind, PipelineInput, PipelineOutput, PipelineState, run_status
from harnesses.pipeline.work import PipelineWork
from harnesses.secrets import redact, redact_text
from harnesses.step import StepYield
from harnesses.threads import aside

PipelineStep: TypeAlias = StepYield[PipelineInput, PipelineOutput]
MAX_ENTRIES = 400
"""Entries of evidence with one step; of what an agent reports, the rest is in its contract."""
_CHUNK = 200
"""Files that one entry speaks of; more of them are another entry."""
_CHUNK_CHARACTERS = MAX_CHARACTERS // 3
_LEAVING_S = 2.0
_log = logging.getLogger(__name__)


class PipelineTelling(PipelineWork):
    """Makes steps of states, and shows them."""

    _events: list[Json]
    _evidence: list[Json]
    _pending: tuple[int, Sequence[Json], Sequence[Json], str]
    """The step being made: its number, events, evidence and note."""
    _shown: PipelineState

    def _made(
        self,
        state: PipelineState,
        kind: MoveKind,
        id: TaskId | None = None,
        *,
        note: str = "",
        events: Iterable[Mapping[str, object]] = (),
        evidence: Iterable[Evidence] = (),
        findings: Iterable[Finding] = (),
    ) -> PipelineStep:
        """Return the step that leads to `state`; made again before it is yielded, it is one step with what was made before."""
        told = tuple(redact(dict(one)) for one in events)
        seen = tuple(entry.plain() for one in evidence for entry in in_chunks(one))[:MAX_ENTRIES]
        seen = tuple(_clean(one) for one in seen)
        for one in told:
            self.attach("task", one)
        for one in seen:
            self.attach("evidence", one)
        for finding in findings:
            self.attach("guardrail", {"task_id": "" if id is None else str(id), **asdict(finding)})
        number, note = self.current_step + 1, redact_text(note)
        if self._pending[0] == number:
            _, earlier, found, said = self._pending
            told, seen, note = (*earlier, *told), (*found, *seen), f"{said}; {note}"
        self._pending = (number, told, seen, note)
        self.update_state(lambda _: state, summary=note or None)
        record = None if id is None else record_of(state, id)
        given = PipelineInput(kind=kind, task="" if id is None else str(id), attempt=0 if record is None else record.attempts)
        status = str(run_status(state)) if record is None else str(record.status)
        return StepYield(given, PipelineOutput(status=status, note=note, events=told, evidence=seen))

    # what is shown

    async def _open_folder(self) -> None:
        """Take up what has been told before, and show it: whatever was written there by others is overwritten."""
        self._events, self._evidence, self._pending = [], [], (0, (), (), "")
        self._shown = self.state
        # Read from the store, all of it.
        for told in await aside(self._outputs):
            self._events += told.events
            self._evidence += told.evidence
        if self.state.run_id:
            await aside(sweep_drafts, self._root())
            await self._show()

    def _settle(self) -> None:
        """Note that the step that was made is on record, if it is."""
        number, events, evidence, _ = self._pending
        if number and self.current_step >= number:
            self._events += events
            self._evidence += evidence
            self._pending = (0, (), (), "")
            self._shown = self.state

    def _show_all(self) -> None:
        """Write the run folder of all that is on record."""
        told = self._outputs()
        events = tuple(event for one in told for event in one.events)
        evidence = tuple(entry for one in told for entry in one.evidence)
        self._write(self.state, events, evidence)

    def _outputs(self) -> list[PipelineOutput]:
        return [step.output for step in self.step_history]

    def _write(self, state: PipelineState, events: Sequence[Json], evidence: Sequence[Json]) -> None:
        try:
            folder = rendered(state, events, evidence)
            write_folder(self._workspace, folder, below=state.run_folder, clear=True)
        except Exception:
            _log.warning("harness %r could not write its run folder %s", self.name, state.run_folder, exc_info=True)

    async def _show(self) -> None:
        """Write the run folder. It is a view: that it can not be written is no reason to stop."""
        if not self._shown.run_id:
            return
        await aside(self._write, self._shown, tuple(self._events), tuple(self._evidence))

    async def _leave(self) -> None:
        """Show the last step, however the end came."""
        self._settle()
        with trio.move_on_after(_LEAVING_S, shield=True):
            await self._show()

    def _event(self, type: str, **fields: object) -> dict[str, object]:
        return event(type, self.now(), **fields)


def in_chunks(entry: Evidence) -> list[Evidence]:
    """Return an entry as several, if it speaks of more files than fit in one record."""
    chunks: list[list[Bound]] = [[]]
    size = 0
    for one in entry.subject:
        if len(chunks[-1]) == _CHUNK or size > _CHUNK_CHARACTERS:
            chunks.append([])
            size = 0
        chunks[-1].append(one)
        size += len(one.path) + 100
    return [entry] if len(chunks) == 1 else [evolve(entry, subject=chunk) for chunk in chunks]


def proof_of(evidence: Iterable[Evidence]) -> tuple[Evidence, ...]:
    """Return the entries that a pass rests on: not what the agent has said."""
    return tuple(entry for one in evidence if one.grade >= Grade.OBSERVED for entry in in_chunks(one))


def _clean(entry: dict[str, Any]) -> Json:
    """Return an entry without secrets. Hashes and paths stay as they are: others look them up."""
    said = cast(str, entry["evidence"])
    return {**entry, "evidence": redact_text(said)}
