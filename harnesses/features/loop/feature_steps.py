"""Builds the steps of a feature harness.

Invariant: a hand-off and its reason are in the same step; a message is answered in the step that consumes it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TypeAlias

import trio
from attrs import define, evolve, field, frozen

from harnesses.features.feature import FeatureStatus, TurnResult, Verdict
from harnesses.features.feature_record import (
    FeatureState,
    Iteration,
    IterationKind,
    IterationResult,
    IterationStatus,
    ProgressEntry,
    RunOutcome,
    RunStatus,
)
from harnesses.features.loop.feature_messages import FeatureMessages
from harnesses.features.loop.observers import Phase, Phases
from harnesses.features.planning.state_changes import find_outcome, interrupt_run
from harnesses.step import StepYield

FeatureStep: TypeAlias = StepYield[Iteration, IterationResult]

_SHOWN = 5
"""Maximum ids named in a note."""


@frozen(kw_only=True)
class StepDraft:
    """The result of a move, and the state after it."""

    kind: IterationKind
    status: IterationStatus
    state: FeatureState
    note: str = ""
    """Summary of the step; if empty, the new progress entries are used."""
    feature_id: str | None = None
    turn: int = 0
    result: TurnResult | None = None
    verdict: Verdict | None = None
    duration_s: float = 0.0
    then: Exception | None = None
    """Error raised after the step is recorded."""


@frozen(kw_only=True)
class Notes:
    """Observations since the last step, to be recorded with the next one."""

    remark: str = ""
    """Remark shown to observers."""
    health: Verdict | None = None
    rechecked: tuple[str, ...] = ()
    """Ids of features that were rechecked and still pass."""


@frozen(kw_only=True)
class Written:
    """A step that is ready to be yielded."""

    state: FeatureState
    step: FeatureStep
    summary: str
    ended: RunOutcome | None
    """The outcome of the run that ends with this step."""
    matters: bool
    """Whether the hand-off files should be written at once."""


def write_step(draft: StepDraft, before: FeatureState, notes: Notes, answers: Sequence[str], *, streamed: bool) -> Written:
    """Return the step for a draft.

    Args:
        before: the state after the last step.
        answers: answers to the messages that the step consumes.
        streamed: whether turns are streamed.
    """
    state, id = draft.state, draft.feature_id
    note = "; ".join(filter(None, (draft.note, _still_passing(notes.rechecked), *answers)))
    over = find_outcome(before, state)
    standing = next((one for one in before.standings if one.feature_id == id), None) if draft.turn else None
    given = Iteration(
        kind=draft.kind,
        run=over.run if over is not None else 0 if state.run is None else state.run.number,
        feature_id=id,
        turn=draft.turn,
        last_failure=None if standing is None else standing.last_failure,
        streamed=streamed and draft.turn > 0,
    )
    made = IterationResult(
        status=draft.status,
        note=note,
        result=draft.result,
        verdict=draft.verdict,
        health=notes.health,
        ended=over,
        rechecked=notes.rechecked,
        duration_s=round(draft.duration_s, 6),
    )
    blocked = any(one.feature_id == id and one.status is FeatureStatus.BLOCKED for one in state.standings)
    return Written(
        state=state,
        step=StepYield(given, made),
        summary=f"{notes.remark}; {note}" if notes.remark else note,
        ended=over,
        matters=bool(over or answers or draft.status is IterationStatus.SET_BACK or blocked),
    )


def progress_note(before: FeatureState, after: FeatureState) -> str:
    """Return the new progress entries as text. The list is bounded, so entries at its front may have been dropped."""
    last = before.progress[-1] if before.progress else None
    fresh = list[ProgressEntry]()
    for entry in reversed(after.progress):
        if entry is last:
            break
        fresh.append(entry)
    return "; ".join(entry.summary for entry in reversed(fresh))


@define
class StepWriter:
    """Builds steps one after the other, and tells the hooks about the phases that end with them.

    Args:
        phases: told when a step is recorded.
        messages: processed with each step.
        streamed: whether turns are streamed.
    """

    phases: Phases
    messages: FeatureMessages
    streamed: bool
    notes: Notes = Notes()
    last: Written | None = None
    """The last step built in this attempt."""
    then: Exception | None = None
    """Error raised after the last step is recorded."""
    recorded_at: float = field(factory=trio.current_time)
    """When the last step was recorded, on Trio's clock."""
    is_over: bool = field(default=False, init=False)
    """Whether a run was handed off in this attempt. An interrupted run continues, unless the interruption ends the attempt."""
    _number: int = 0
    """Number of the last step, until it is known to be recorded."""

    def note(self, *, remark: str = "", health: Verdict | None = None, rechecked: Iterable[str] = ()) -> None:
        """Add observations to record with the next step."""
        notes = self.notes
        self.notes = Notes(
            remark=remark or notes.remark, health=health or notes.health, rechecked=(*notes.rechecked, *rechecked)
        )

    def write(self, draft: StepDraft, before: FeatureState, *, number: int, now: datetime, stopping: bool) -> Written:
        """Return the step for a draft; new messages are processed with it.

        Args:
            before: the state after the last step.
            number: number of this step.
            stopping: whether the harness is stopping, so that this step is the last chance for a hand-off.
        """
        note = draft.note or progress_note(before, draft.state)
        state, answers = self.messages.follow(draft.state, now)
        if stopping and state.run is not None:
            state = interrupt_run(state, None, now, "a stop")
        draft = evolve(draft, state=state, note=note)
        self.last = write_step(draft, before, self.notes, answers, streamed=self.streamed)
        self.notes, self.then, self._number = Notes(), draft.then, number
        over = self.last.ended
        self.is_over = self.is_over or (over is not None and over.status is not RunStatus.INTERRUPTED)
        return self.last

    def settle(self, current_step: int) -> bool:
        """Check whether the last step has been recorded; return whether that is new."""
        if self.last is None or not self._number or current_step < self._number:
            return False
        self._number, self.recorded_at = 0, trio.current_time()
        over = self.last.ended
        if over is not None and over.status is not RunStatus.SUCCEEDED:
            self.phases.fail(over.note)
        elif over is not None or self.phases.phase is Phase.INITIALIZER:
            self.phases.succeed()
        return True


def _still_passing(ids: Sequence[str]) -> str:
    more = f" and {len(ids) - _SHOWN} more" if len(ids) > _SHOWN else ""
    return f"rechecked and still passing: {', '.join(ids[:_SHOWN])}{more}" if ids else ""
