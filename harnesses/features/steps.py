"""The steps of a feature harness: what is done in each. Which one is next is decided elsewhere."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, TypeVar

import trio

from harnesses.effects import NotDone
from harnesses.errors import BudgetExhausted, HarnessError, Waiting
from harnesses.features.bearings import agreed, look
from harnesses.features.changes import after_turn, failed, interrupted, opened, rechecked
from harnesses.features.errors import ChatFailed, FeatureError, MemoryFailed, ValidationFailed
from harnesses.features.feature import TurnResult, Verdict
from harnesses.features.hooks import Phase
from harnesses.features.planning import next_run
from harnesses.features.protocols import HealthCheck
from harnesses.features.record import FeatureState, IterationKind, IterationStatus
from harnesses.features.telling import FeatureStep, FeatureTelling
from harnesses.features.turn import JUDGE, WORK, Judged, Try, Worked, key_of, order_in, try_on_record, words_of

__all__ = ["FeatureStep", "FeatureSteps"]

_MAX_DELAY_S = 30.0
_UNRECORDED_S = 0.5
"""What was seen since the last step is recorded after so long, if not before."""
AnswerT = TypeVar("AnswerT")


class FeatureSteps(FeatureTelling):
    """One method for each kind of step: it does what is to be done and returns what is to be yielded."""

    _health_check: HealthCheck
    _chat_delay_s: float

    # a try

    async def _turn(self, feature_id: str, turn: int, *, taken_up: bool = False) -> FeatureStep:
        """Have a feature worked and judged, or go on where an attempt was killed that did so."""
        opens = self.state.run is None
        if opens and (refused := await self._bearings(taken_up=taken_up)) is not None:
            return refused
        if not taken_up and self._at.chat_failures and not await self._paused(self._delay()):
            return self._interrupted(None, "a stop")
        self._at.working = feature_id
        try:
            key = key_of(WORK, feature_id, turn)
            work = await self.once(key, self._work, feature_id, turn, idempotent=True)
        except (Waiting, BudgetExhausted) as error:
            return await self._halted(feature_id, turn, error, opens=opens)
        if work.cut_off:
            await self._put(feature_id, self._cut_off, feature_id, turn)
            return self._interrupted(feature_id, work.cut_off, turn=turn, duration_s=work.duration_s)
        if work.result is None:
            return await self._not_worked(feature_id, turn, work)
        return await self._worked(feature_id, turn, work, work.result, taken_up=taken_up)

    async def _worked(self, id: str, turn: int, work: Worked, result: TurnResult, *, taken_up: bool) -> FeatureStep:
        """Have the work judged, and take it in or put it aside."""
        judge = partial(self._judged, result)
        if self.accepting_acts:
            judged = await self.once(key_of(JUDGE, id, turn), judge, id, turn, idempotent=True)
        else:
            judged = await judge(id, turn)
        took_s = work.duration_s + judged.duration_s
        if judged.verdict is None:
            return self._not_judged(IterationKind.TURN, id, judged, turn=turn, result=result, duration_s=took_s)
        if taken_up:
            # What a person says may be what an acceptance that has failed is waiting for.
            await self._hear()
        commit = await self._taken_in(id, turn, result, judged.verdict)
        state = after_turn(
            self._opened(), self._policy, id, result=result, verdict=judged.verdict, commit=commit, now=self.now()
        )
        self._at.chat_failures = 0
        status = IterationStatus.PASSED if judged.verdict.passed else IterationStatus.NOT_VALIDATED
        return self._made(
            state, IterationKind.TURN, status, id=id, turn=turn, result=result, verdict=judged.verdict, duration_s=took_s
        )

    async def _taken_in(self, id: str, turn: int, result: TurnResult, verdict: Verdict) -> str | None:
        """Put the work where it belongs; return the new last known good commit, where there is one."""
        feature = self._feature(id)
        if verdict.passed:
            return await self._put(id, self._accept, feature, turn, result, verdict)
        await self._put(id, self._reject, feature, turn, result, verdict.evidence)
        return None

    async def _put(self, id: str, function: Callable[..., Awaitable[AnswerT]], *args: Any) -> AnswerT:
        """Return what a function returns that puts work somewhere.

        Raises:
            MemoryFailed: it has raised what is not an error of this project.
        """
        try:
            return await function(*args)
        except HarnessError:
            raise
        except Exception as error:
            if (order := order_in(error)) is not None:
                raise order from error.__cause__
            raise MemoryFailed(f"feature {id!r}: its work can not be put where it belongs: {words_of(error)}") from error

    async def _not_worked(self, id: str, turn: int, work: Worked) -> FeatureStep:
        """Count a try in which the agent has failed."""
        await self._put(id, self._reject, self._feature(id), turn, None, work.error)
        state = after_turn(self._opened(), self._policy, id, error=work.error, session=work.session, now=self.now())
        self._at.chat_failures += 1
        if self._policy.fail_fast.on_chat_error:
            self._at.then = self._caused(ChatFailed(f"feature {id!r}: the agent failed: {work.error}"))
        status = IterationStatus.CHAT_FAILED
        return self._made(state, IterationKind.TURN, status, id=id, turn=turn, duration_s=work.duration_s)

    async def _halted(self, id: str, turn: int, error: HarnessError, *, opens: bool) -> FeatureStep:
        """Hand off a try that waits for a person, or for money; then the error is raised.

        What was done stays on record by itself: then there is nothing to hand off, and it is taken up again.
        """
        begun = try_on_record(self.effects)
        if (begun is not None and begun.done) or (begun is None and opens):
            raise error
        self._at.then = error
        if begun is None:
            return self._interrupted(None, words_of(error))
        await self._put_off(begun)
        return self._interrupted(id, words_of(error), turn=turn)

    async def _put_off(self, begun: Try) -> None:
        """Settle that a try was cut off, and put aside what it has left."""
        await self.settle(key_of(WORK, begun.feature_id, begun.turn), _not_done)
        await self._put(begun.feature_id, self._cut_off, begun.feature_id, begun.turn)

    def _delay(self) -> float:
        """Return how long to wait before the next turn of an agent that has failed."""
        failures = self._at.chat_failures
        # No number holds the doubles of a thousand failures; after twenty the longest delay is reached anyway.
        return min(_MAX_DELAY_S, self._chat_delay_s * 2 ** min(failures - 1, 20)) if failures else 0.0

    # a feature that passes

    async def _judge_anew(self, id: str) -> FeatureStep | None:
        """Look whether a feature that passes still does; None if it does, and that is to be told with the next step."""
        opens = self.state.run is None
        if opens and (refused := await self._bearings()) is not None:
            return refused
        try:
            judged = await self._verdict_of(self._recheck, self._feature(id), self._standing(id))
        except (Waiting, BudgetExhausted) as error:
            if opens:
                raise
            self._at.then = error
            return self._interrupted(None, words_of(error))
        if judged.verdict is None:
            return self._not_judged(IterationKind.RECHECK, id, judged, duration_s=judged.duration_s)
        state = rechecked(self._opened(), self._policy, id, judged.verdict, self.now())
        if judged.verdict.passed:
            self._at.rechecked.append(id)
            if state.run is not None and await self._may_wait():
                self.update_state(lambda _: state)
                return None
        return self._made(
            state,
            IterationKind.RECHECK,
            IterationStatus.PASSED if judged.verdict.passed else IterationStatus.SET_BACK,
            id=id,
            verdict=judged.verdict,
            duration_s=judged.duration_s,
        )

    async def _may_wait(self) -> bool:
        """Return whether what was seen may be recorded with the next step: lost, it is soon seen again."""
        # Others, and orders to this harness, have their turn although there is no step.
        await trio.lowlevel.checkpoint()
        return not self.stopping and trio.current_time() - self._at.stepped_at < _UNRECORDED_S

    # the beginning and the end of a run

    async def _bearings(self, *, taken_up: bool = False) -> FeatureStep | None:
        """Begin a run: see that all is as it was agreed, and look at the surroundings. Returns the step that ends it, if any.

        Args:
            taken_up: whether its first try has been made already; then it is not too late to take that in.
        """
        self._at.began = self.now()
        manifest = agreed(self.state)
        self._phases.start(Phase.TASK_ITERATION, next_run(self.state).number)
        seen, failure = await self._or_stop(look, self._health_check, manifest.init_plan, self._directory())
        self._at.health, self._health, self._at.own_run = seen, seen.evidence, True
        if failure is None or taken_up or not self._policy.fail_fast.on_health_check_error:
            return None
        return self._failed(IterationKind.BEARINGS, failure)

    def _opened(self) -> FeatureState:
        """Return the state with a run open."""
        return opened(self.state, self._at.began or self.now())

    def _interrupted(self, id: str | None, why: str, *, turn: int = 0, duration_s: float = 0.0) -> FeatureStep:
        """Hand off the run because it is cut off."""
        state = interrupted(self._opened(), id, self.now(), why)
        kind = IterationKind.CLOSE if id is None else IterationKind.TURN
        return self._made(state, kind, IterationStatus.INTERRUPTED, id=id, turn=turn, duration_s=duration_s)

    def _not_judged(
        self,
        kind: IterationKind,
        id: str,
        judged: Judged,
        *,
        turn: int = 0,
        result: TurnResult | None = None,
        duration_s: float = 0.0,
    ) -> FeatureStep:
        """Hand off the run because the validator has failed; that says nothing about the work."""
        error = self._caused(ValidationFailed(f"feature {id!r}: the validator failed: {judged.error}"))
        return self._failed(kind, error, id=id, turn=turn, result=result, duration_s=duration_s)

    def _failed(
        self,
        kind: IterationKind,
        error: FeatureError,
        *,
        id: str | None = None,
        turn: int = 0,
        result: TurnResult | None = None,
        duration_s: float = 0.0,
    ) -> FeatureStep:
        """Hand off the run because it can not go on; then `error` is raised."""
        self._at.then = error
        state = failed(self._opened(), str(error), self.now())
        return self._made(state, kind, IterationStatus.FAILED, id=id, turn=turn, result=result, duration_s=duration_s)

    def _caused(self, error: FeatureError) -> FeatureError:
        """Give an error its cause: what was raised, if that was in this attempt."""
        error.__cause__, self._at.cause = self._at.cause, None
        return error


def _not_done(*_: object) -> NotDone:
    return NotDone()
