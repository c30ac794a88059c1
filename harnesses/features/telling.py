"""How a feature harness tells what it does: the step that is yielded, the orders that are followed in it, and the phases.

The law: a hand-off and what led to it are one step; an order is answered in the step that uses it up.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

import trio

from harnesses.features.attempt import Made
from harnesses.features.changes import ended, interrupted
from harnesses.features.feature import FeatureStatus, TurnResult, Verdict
from harnesses.features.hooks import Phase, Phases
from harnesses.features.orders import obeyed
from harnesses.features.parts import FeatureParts
from harnesses.features.policy import RunPolicy
from harnesses.features.record import (
    FeatureState,
    Iteration,
    IterationKind,
    IterationResult,
    IterationStatus,
    ProgressEntry,
    RunStatus,
)
from harnesses.step import StepYield

FeatureStep: TypeAlias = StepYield[Iteration, IterationResult]

_SHOWN = 5
"""Ids that a note names."""
_MAX_ORDERS = 100
"""Orders that are followed in one step."""


class FeatureTelling(FeatureParts):
    """Makes steps of states, and tells hooks of them."""

    _policy: RunPolicy
    _phases: Phases

    # orders

    async def _hear(self) -> bool:
        """Take the orders that have come, to be followed with the next step; return whether there are any."""
        at = self._at
        while len(at.orders) + len(at.answers) < _MAX_ORDERS:
            try:
                order = self.receive_nowait()
            except trio.WouldBlock:
                break
            answer = await self._obey(order)
            if answer is None:
                at.orders.append(order)
            else:
                at.answers.append(answer)
        return bool(at.orders or at.answers)

    def _followed(self, state: FeatureState) -> tuple[FeatureState, list[str]]:
        """Return the state after the orders that have come, and what became of them."""
        at = self._at
        answers, at.answers = at.answers, []
        orders, at.orders = at.orders, []
        for order in orders:
            state, answer = obeyed(state, self._policy, order, self.now())
            answers.append(answer)
        return state, answers

    # what is told

    def _made(
        self,
        state: FeatureState,
        kind: IterationKind,
        status: IterationStatus,
        note: str = "",
        *,
        id: str | None = None,
        turn: int = 0,
        result: TurnResult | None = None,
        verdict: Verdict | None = None,
        duration_s: float = 0.0,
    ) -> FeatureStep:
        """Return the step that leads to `state`. Without a note it says what progress there was."""
        at, before = self._at, self.state
        note = note or "; ".join(entry.summary for entry in _new(before.progress, state.progress))
        state, answers = self._followed(state)
        if state.run is not None and self.stopping:
            # It came to its end although the harness is to stop; there is no other step to hand off in.
            state = interrupted(state, None, self.now(), "a stop")
        rechecked, at.rechecked = tuple(at.rechecked), []
        note = "; ".join(filter(None, (note, _still(rechecked), *answers)))
        over = ended(before, state)
        matters = bool(over or answers or status is IterationStatus.SET_BACK or _blocks(id, state))
        at.last = Made(number=self.current_step + 1, ended=over, matters=matters)
        given = Iteration(
            kind=kind,
            run=self._run_number(state),
            feature_id=id,
            turn=turn,
            last_failure=None if id is None or not turn else self._standing(id).last_failure,
            streamed=self._stream and turn > 0,
        )
        self.update_state(lambda _: state, summary=f"{at.remark}; {note}" if at.remark else note)
        made = IterationResult(
            status=status,
            note=note,
            result=result,
            verdict=verdict,
            health=at.health,
            ended=over,
            rechecked=rechecked,
            duration_s=round(duration_s, 6),
        )
        at.remark, at.health = "", None
        return StepYield(given, made)

    def _run_number(self, state: FeatureState) -> int:
        """Return the run that the step being made belongs to; 0 if to none."""
        if (over := self._at.last.ended) is not None:
            return over.run
        return 0 if state.run is None else state.run.number

    def _settle_phase(self) -> None:
        """Note that the step that was made is on record, if it is."""
        at = self._at
        if at.last.settled or self.current_step < at.last.number:
            return
        at.last.settled, at.working, at.stepped_at = True, None, trio.current_time()
        over = at.last.ended
        if over is not None and over.status is not RunStatus.SUCCEEDED:
            self._phases.fail(over.note)
        elif over is not None or self._phases.phase is Phase.INITIALIZER:
            self._phases.succeed()


def _blocks(id: str | None, state: FeatureState) -> bool:
    """Return whether a feature is blocked."""
    return any(one.feature_id == id and one.status is FeatureStatus.BLOCKED for one in state.standings)


def _still(ids: Sequence[str]) -> str:
    """Say what passes still."""
    more = f" and {len(ids) - _SHOWN} more" if len(ids) > _SHOWN else ""
    return f"judged anew, and passing still: {', '.join(ids[:_SHOWN])}{more}" if ids else ""


def _new(before: Sequence[ProgressEntry], after: Sequence[ProgressEntry]) -> Iterable[ProgressEntry]:
    """Return the entries that were added; the list is bounded, so those at its front may be gone."""
    last = before[-1] if before else None
    fresh = list[ProgressEntry]()
    for entry in reversed(after):
        if entry is last:
            break
        fresh.append(entry)
    return reversed(fresh)
