"""Tries at features: asks the agent, has its work validated, and accepts it.

    once(work) ──TurnResult──► once?(judge) ──Verdict──► accept ──► the draft of a step

Invariant: an agent's result is recorded as soon as it exists, so that a program that was killed continues from it and neither
asks nor pays twice. Errors meant for the harness itself (waiting for a person, budget spent) are re-raised; every other error
of the agent is a result.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from functools import partial
from typing import Any

import trio
from attrs import define, field, frozen

from harnesses.effects.effect import Effect, NotDone
from harnesses.errors import BudgetExhausted, HarnessError, Stopping, Waiting
from harnesses.features.errors import ChatFailed, FeatureError, MemoryFailed, ValidationFailed
from harnesses.features.feature import Feature, FeatureStatus, Standing, TurnResult, Verdict
from harnesses.features.feature_prompts import assignment
from harnesses.features.feature_record import Assignment, FeatureState, IterationKind, IterationStatus
from harnesses.features.loop.feature_steps import StepDraft
from harnesses.features.loop.feature_workplace import Ask, Once, Workplace
from harnesses.features.loop.startup_checks import StartupChecks, UnlessStopped
from harnesses.features.planning.state_changes import fail_run, finish_recheck, finish_turn, interrupt_run, place_of
from harnesses.features.run_policy import RunPolicy
from harnesses.features.turn_results import (
    JUDGE,
    WORK,
    Judged,
    Try,
    Worked,
    as_cause,
    check_result,
    check_verdict,
    describe_error,
    effect_key,
    find_order,
    find_session,
    find_try,
)

_MAX_DELAY_S = 30.0


@frozen(kw_only=True)
class Capabilities:
    """The functions of the running harness that `FeatureAttempts` may use."""

    state: Callable[[], FeatureState]
    now: Callable[[], datetime]
    stopping: Callable[[], bool]
    hear: Callable[[], Awaitable[object]]
    """Processes new messages, which may change the state."""
    ask: Ask
    unless_stopped: UnlessStopped
    once: Once
    settle: Callable[..., Awaitable[object]]
    effects: Callable[[], tuple[Effect, ...]]


@define
class FeatureAttempts:
    """Makes tries at features, one after the other, and rechecks features that pass.

    Args:
        prompts: prompts used instead of the default ones, by feature id.
        delay_s: seconds before a turn that follows a failed turn of the agent.
    """

    harness: Capabilities
    workplace: Workplace
    checks: StartupChecks
    policy: RunPolicy
    prompts: Mapping[str, str] = field(factory=dict[str, str])
    delay_s: float = 0.0
    working: str | None = field(default=None, init=False)
    """Id of the feature being worked."""
    _failures: int = field(default=0, init=False)
    """Number of consecutive failed turns of the agent."""
    _cause: Exception | None = field(default=None, init=False)
    """The last error of the agent or the validator."""

    # a try

    async def turn(self, feature_id: str, turn: int, *, taken_up: bool = False) -> StepDraft:
        """Have a feature worked and validated, or continue a try that a killed program has left."""
        opens = self._state.run is None
        if opens and (refused := await self._begin(taken_up=taken_up)) is not None:
            return refused
        if not taken_up and self._failures and not await self._pause():
            return self._interrupt(None, "a stop")
        self.working = feature_id
        try:
            key = effect_key(WORK, feature_id, turn)
            work: Worked = await self.harness.once(key, self._work, feature_id, turn, idempotent=True)
        except (Waiting, BudgetExhausted) as error:
            return await self._halt(feature_id, turn, error, opens=opens)
        if work.cut_off:
            return self._interrupt(feature_id, work.cut_off, turn=turn, duration_s=work.duration_s)
        if work.result is None:
            return self._not_worked(feature_id, turn, work)
        if taken_up:
            await self.harness.hear()
            if (verdict := await self.workplace.overtaken(self._state, work.result)) is not None:
                return self._after(feature_id, turn, work, Judged(verdict=verdict), None)
        return await self._worked(feature_id, turn, work, taken_up=taken_up)

    async def _worked(self, id: str, turn: int, work: Worked, *, taken_up: bool) -> StepDraft:
        """Have the work validated, and accept it if it passes."""
        assert work.result is not None
        judge = partial(self._judge, work.result)
        if self.workplace.acts_on_verdicts:
            judged: Judged = await self.harness.once(effect_key(JUDGE, id, turn), judge, id, turn, idempotent=True)
        else:
            judged = await judge(id, turn)
        if judged.verdict is None:
            took_s = work.duration_s + judged.duration_s
            return self._not_judged(IterationKind.TURN, id, judged, turn=turn, result=work.result, duration_s=took_s)
        if taken_up:
            # A new message may resolve what a failed acceptance was waiting for.
            await self.harness.hear()
        commit = await self._accept(id, turn, work.result, judged.verdict) if judged.verdict.passed else None
        self._failures = 0
        return self._after(id, turn, work, judged, commit)

    def _after(self, id: str, turn: int, work: Worked, judged: Judged, commit: str | None) -> StepDraft:
        """Return the step of a validated try."""
        verdict = judged.verdict
        assert verdict is not None
        return StepDraft(
            kind=IterationKind.TURN,
            status=IterationStatus.PASSED if verdict.passed else IterationStatus.NOT_VALIDATED,
            state=finish_turn(
                self._opened(), self.policy, id, result=work.result, verdict=verdict, commit=commit, now=self.harness.now()
            ),
            feature_id=id,
            turn=turn,
            result=work.result,
            verdict=verdict,
            duration_s=work.duration_s + judged.duration_s,
        )

    async def _accept(self, id: str, turn: int, result: TurnResult, verdict: Verdict) -> str | None:
        """Accept the work at the workplace; return the new last known good commit, if there is a repository.

        Raises:
            MemoryFailed: the workplace raised an error that is not one of this project.
        """
        feature, _ = self._find(id)
        try:
            return await self.workplace.accept(self.harness.once, feature, turn, result, verdict)
        except HarnessError:
            raise
        except Exception as error:
            if (order := find_order(error)) is not None:
                raise order from error.__cause__
            raise MemoryFailed(f"feature {id!r}: its work cannot be accepted: {describe_error(error)}") from error

    def _not_worked(self, id: str, turn: int, work: Worked) -> StepDraft:
        """Return the step of a try in which the agent failed."""
        now = self.harness.now()
        state = finish_turn(self._opened(), self.policy, id, error=work.error, session=work.session, now=now)
        self._failures += 1
        fast = self.policy.fail_fast.on_chat_error
        return StepDraft(
            kind=IterationKind.TURN,
            status=IterationStatus.CHAT_FAILED,
            state=state,
            feature_id=id,
            turn=turn,
            duration_s=work.duration_s,
            then=self._caused(ChatFailed(f"feature {id!r}: the agent failed: {work.error}")) if fast else None,
        )

    async def _halt(self, id: str, turn: int, error: HarnessError, *, opens: bool) -> StepDraft:
        """Hand off a try that waits for a person or for budget; `error` is raised after the step.

        No hand-off is needed if the try recorded effects of its own, because it is resumed later, or if it opens the run: the
        error is raised at once.
        """
        begun = find_try(self.harness.effects())
        if begun is not None and not begun.done:
            await self._settle(begun)
        if opens or (begun is not None and begun.done):
            raise error
        if begun is None:
            return self._interrupt(None, describe_error(error), then=error)
        return self._interrupt(id, describe_error(error), turn=turn, then=error)

    async def recover(self, begun: Try | None) -> StepDraft:
        """Hand off a try or run that an earlier attempt left unfinished."""
        if begun is not None:
            await self._settle(begun)
        id = None if begun is None else begun.feature_id
        state = interrupt_run(self._opened(), id, self.harness.now(), "the end of its program")
        return StepDraft(kind=IterationKind.RECOVER, status=IterationStatus.INTERRUPTED, state=state, feature_id=id)

    async def _settle(self, begun: Try) -> None:
        """Record that a try was interrupted."""
        await self.harness.settle(effect_key(WORK, begun.feature_id, begun.turn), _not_done)

    async def _pause(self) -> bool:
        """Wait before the next turn of a failing agent; return False if the harness should stop instead."""
        try:
            await self.harness.unless_stopped(trio.sleep, retry_delay(self.delay_s, self._failures))
        except Stopping:
            return False
        return True

    # rechecks

    async def recheck(self, id: str) -> StepDraft:
        """Check whether a passing feature still passes, or a blocked one passes now."""
        opens = self._state.run is None
        if opens and (refused := await self._begin()) is not None:
            return refused
        try:
            judged = await self._verdict_of(self.workplace.recheck, self._state, *self._find(id))
        except (Waiting, BudgetExhausted) as error:
            if opens:
                raise
            return self._interrupt(None, describe_error(error), then=error)
        if judged.verdict is None:
            return self._not_judged(IterationKind.RECHECK, id, judged, duration_s=judged.duration_s)
        was_blocked = self._find(id)[1].status is FeatureStatus.BLOCKED
        failed = IterationStatus.NOT_VALIDATED if was_blocked else IterationStatus.SET_BACK
        return StepDraft(
            kind=IterationKind.RECHECK,
            status=IterationStatus.PASSED if judged.verdict.passed else failed,
            state=finish_recheck(self._opened(), self.policy, id, judged.verdict, self.harness.now()),
            feature_id=id,
            verdict=judged.verdict,
            duration_s=judged.duration_s,
        )

    # effects: the results of asking, as values

    async def _work(self, feature_id: str, turn: int) -> Worked:
        """Ask the agent. A stop cancels it; a try that has recorded effects of its own is then resumed at the next start."""
        started = trio.current_time()
        try:
            work = self.harness.unless_stopped(self.workplace.work, self.harness.ask, self._assigned(feature_id, turn))
            result = check_result(await work)
            took_s = _since(started)
            return Worked(result=result, duration_s=took_s, diff=await self.workplace.diff(result))
        except Stopping:
            if self._is_resumable():
                raise
            return Worked(cut_off="a stop", duration_s=_since(started))
        except Exception as error:
            said = self._words_unless_order(error)
            if self.harness.stopping():
                if self._is_resumable():
                    raise Stopping from error
                return Worked(cut_off=f"a stop ({said})", duration_s=_since(started))
            self._cause = as_cause(error)
            return Worked(error=said, session=find_session(error), duration_s=_since(started))

    def _is_resumable(self) -> bool:
        """Return whether the try in progress has recorded effects of its own, so that it continues after the last of them."""
        begun = find_try(self.harness.effects())
        return begun is not None and begun.done

    async def _judge(self, result: TurnResult, feature_id: str, turn: int) -> Judged:
        """Ask the validator. A stop waits until it has finished."""
        return await self._verdict_of(self.workplace.judge, self._find(feature_id)[0], result)

    async def _verdict_of(self, judge: Callable[..., Awaitable[Any]], *args: object) -> Judged:
        started = trio.current_time()
        try:
            return Judged(verdict=check_verdict(await judge(*args)), duration_s=_since(started))
        except Exception as error:
            said = self._words_unless_order(error)
            self._cause = as_cause(error)
            return Judged(error=said, duration_s=_since(started))

    def _words_unless_order(self, error: Exception) -> str:
        """Return the text of an error; raise the error in it that is meant for the harness, if any."""
        if (order := find_order(error)) is not None:
            raise order from error.__cause__
        return describe_error(error)

    def _assigned(self, feature_id: str, turn: int) -> Assignment:
        feature, standing = self._find(feature_id)
        words = standing.prompt or self.prompts.get(feature_id)
        return assignment(self._state, feature, standing, turn=turn, health=self.checks.evidence, words=words)

    # start and end of a run

    async def _begin(self, *, taken_up: bool = False) -> StepDraft | None:
        """Begin a run; return the step that ends it if the run cannot continue."""
        failure = await self.checks.begin(self._state, self.harness.now())
        # A try that has already been made is processed even if the health check fails now.
        if failure is None or taken_up or not self.policy.fail_fast.on_health_check_error:
            return None
        return self.fail(IterationKind.BEARINGS, failure)

    def _interrupt(
        self, id: str | None, why: str, *, turn: int = 0, duration_s: float = 0.0, then: Exception | None = None
    ) -> StepDraft:
        """Hand off the run because it was interrupted."""
        return StepDraft(
            kind=IterationKind.CLOSE if id is None else IterationKind.TURN,
            status=IterationStatus.INTERRUPTED,
            state=interrupt_run(self._opened(), id, self.harness.now(), why),
            feature_id=id,
            turn=turn,
            duration_s=duration_s,
            then=then,
        )

    def _not_judged(self, kind: IterationKind, id: str, judged: Judged, **told: Any) -> StepDraft:
        """Hand off the run because the validator failed, which says nothing about the work."""
        error = self._caused(ValidationFailed(f"feature {id!r}: the validator failed: {judged.error}"))
        return self.fail(kind, error, feature_id=id, **told)

    def fail(self, kind: IterationKind, error: FeatureError, **told: Any) -> StepDraft:
        """Hand off the run because it cannot continue; `error` is raised after the step."""
        state = fail_run(self._opened(), str(error), self.harness.now())
        return StepDraft(kind=kind, status=IterationStatus.FAILED, state=state, then=error, **told)

    def _caused(self, error: FeatureError) -> FeatureError:
        """Set an error's cause to the error raised in this attempt, if there was one."""
        error.__cause__, self._cause = self._cause, None
        return error

    @property
    def _state(self) -> FeatureState:
        return self.harness.state()

    def _opened(self) -> FeatureState:
        return self.checks.opened(self._state, self.harness.now())

    def _find(self, feature_id: str) -> tuple[Feature, Standing]:
        state = self._state
        at = place_of(state, feature_id)
        return state.features[at], state.standings[at]


def retry_delay(delay_s: float, failures: int) -> float:
    """Return the seconds to wait before the next turn, after that many consecutive failures."""
    # Doubling a thousand times would overflow; after twenty doublings the maximum is reached anyway.
    return min(_MAX_DELAY_S, delay_s * 2 ** min(failures - 1, 20)) if failures else 0.0


def _not_done(*_: object) -> NotDone:
    return NotDone()


def _since(started: float) -> float:
    return round(trio.current_time() - started, 6)
