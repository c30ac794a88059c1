"""`FeatureHarness`: works on a list of features until each one is proven. The list is its state; each try is a step.

    initialise ──► startup checks ──► recheck ──► agent ──TurnResult──► validator ──Verdict──► state ──► … ──► hand-off
                   (each run)         (a sample)  once

`planning` decides the next move from the state; the collaborators carry it out and return the draft of a step; the harness
writes the step and yields it. Ownership:

    FeatureHarness ──► ListSetup ────────────────────► Workplace      where tries happen: `CodingHarness` passes its own
                   ──► FeatureAttempts ──────────────► Workplace
                   │         └──► StartupChecks ─────► Workplace, StepWriter
                   ──► StepWriter ──► FeatureMessages ► Workplace
                   │         └──► Phases ──► ObserverThread
                   ──► FeatureShutdown ──────────────► Workplace, Phases, ObserverThread

Invariants:

    * the next move is decided from the state, and an agent's result is recorded as soon as it exists; so a program that was
      killed continues from it, and neither asks nor pays twice
    * only a verdict makes a feature pass
    * a run that ends is handed off in the same step, or else at the next start
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from functools import partial
from math import inf
from pathlib import Path
from typing import Any, TypedDict, TypeVar

import trio
from attrs import evolve, frozen

from harnesses.base import BaseHarness
from harnesses.effects.effect import OPEN, EffectOutcome
from harnesses.errors import HarnessMisuse, Waiting
from harnesses.features.errors import FeatureError, InvalidRequest, NotReady
from harnesses.features.feature import Feature, FeatureStatus, TurnResult
from harnesses.features.feature_record import (
    DEFAULT_BRANCH,
    DEFAULT_SUMMARY,
    Assignment,
    FeatureState,
    InitializerRequest,
    InitializerResult,
    InitPlan,
    Iteration,
    IterationKind,
    IterationResult,
    IterationStatus,
    RunStatus,
)
from harnesses.features.feature_validators import OutcomeValidator
from harnesses.features.health_checks import CommandHealthCheck, HealthCheck
from harnesses.features.loop.feature_attempts import Capabilities, FeatureAttempts
from harnesses.features.loop.feature_messages import FeatureMessages
from harnesses.features.loop.feature_shutdown import FeatureShutdown, how_ended
from harnesses.features.loop.feature_steps import FeatureStep, StepDraft, StepWriter, Written
from harnesses.features.loop.feature_workplace import Workplace
from harnesses.features.loop.observers import ObserverThread, Phase, PhaseHooks, Phases
from harnesses.features.loop.startup_checks import ListSetup, StartupChecks
from harnesses.features.planning.feature_list import check_request, initializer_result
from harnesses.features.planning.feature_selectors import FeatureSelector, FirstPending
from harnesses.features.planning.next_move import Close, Done, Recheck, Turn, Wait, next_move, stuck
from harnesses.features.planning.state_changes import close_run
from harnesses.features.run_policy import RunPolicy
from harnesses.features.streaming import FeatureAgent, TurnObserver, observe
from harnesses.features.turn_results import find_try
from harnesses.step import Constraints

_UNRECORDED_S = 0.5
"""Maximum seconds before rechecks since the last step are recorded."""
_MOVED = {
    "accepting_acts": "acts_on_verdicts",
    "_do": "work",
    "_judge": "judge",
    "_recheck": "recheck",
    "_accept": "accept",
    "_obey": "follow",
    "_open": "open",
    "_close": "close",
    "_first_commit": "first_commit",
    "_load_features": "complete",
    "_knows_list": "knows_list",
    "_directory": "inspected",
    "_reject": "",
    "_cut_off": "",
}
"""Methods of earlier versions that are no longer called, with the `Workplace` method that replaces each, if any."""
AnswerT = TypeVar("AnswerT")


class FeatureOptions(TypedDict, total=False):
    """Options that a specialised harness passes on to `FeatureHarness`, which documents each."""

    health_check: HealthCheck | None
    selector: FeatureSelector | None
    init_plan: InitPlan | None
    prompt_overrides: Mapping[str, str] | None
    stream: bool
    observer: TurnObserver | None
    hooks: PhaseHooks | None
    handoff: Path | str | None
    amend: bool
    chat_delay_s: float
    metadata: Mapping[str, str] | None
    initial_state: FeatureState | None
    max_context_steps: int
    constraints: Constraints | None


@frozen(kw_only=True)
class _Attempt:
    """The collaborators of one attempt, from the start of `execute()` to its end."""

    messages: FeatureMessages
    writer: StepWriter
    checks: StartupChecks
    attempts: FeatureAttempts
    shutdown: FeatureShutdown


class FeatureHarness(BaseHarness[FeatureState, Iteration, IterationResult]):
    """Has an agent work on one feature after the other, and a validator prove each.

    One start works one run: as many features, turns and retries as its policy allows. The harness is complete when every
    required feature passes by a verdict; otherwise it ends as finished, and the next start begins the next run. If everything
    left is blocked, it waits for a person.

    Messages can unblock a feature, block it or set its prompt; see `loop.feature_messages`.

    Args:
        agent: does the work: takes an `Assignment` and returns a `TurnResult`.
        validator: validates the result; nothing else can make a feature pass. Pass `accept_all()` to accept everything.
        objective: the goal of the features.
        features: an empty list is replaced by six starter features.
        policy: the limits of a run.
        health_check: checks the environment when a run begins; the default runs the init plan.
        selector: chooses the next feature; the default uses the priority, then the order of the list.
        init_plan: commands for the health check; the default ones inspect a repository, if there is one.
        active_branch: branch that receives accepted work, if there is a repository.
        progress_summary: the first progress entry.
        prompt_overrides: prompts used instead of the default ones, by feature id.
        stream: whether the observer receives the events of a turn as they happen.
        observer: receives these events.
        hooks: called when phases start and end. Hooks and observer can neither break nor delay a run.
        handoff: directory for `HANDOFF.md` and `HANDOFF.json`, used by this harness only. During a run they are written at
            most once a second, but at once when the run ends and when a feature is set back or blocked.
        amend: whether a list that differs from the stored one replaces it, even when the stored one is complete.
        chat_delay_s: seconds before a turn that follows a failed turn of the agent; doubled each time, at most half a minute.
        metadata: stored in the manifest.
        workplace: where tries happen, how they are validated and how their work is accepted; it uses its own validator instead
            of `validator`. By default the agent submits a text.

    Raises:
        InvalidRequest: the objective is blank, the list is invalid, or no validator was given.
        NotReady: there is no agent.
    """

    def __init__(
        self,
        agent: FeatureAgent,
        validator: OutcomeValidator[Any],
        *,
        objective: str,
        features: Sequence[Feature] = (),
        policy: RunPolicy | None = None,
        health_check: HealthCheck | None = None,
        selector: FeatureSelector | None = None,
        init_plan: InitPlan | None = None,
        active_branch: str = DEFAULT_BRANCH,
        progress_summary: str = DEFAULT_SUMMARY,
        prompt_overrides: Mapping[str, str] | None = None,
        stream: bool = False,
        observer: TurnObserver | None = None,
        hooks: PhaseHooks | None = None,
        handoff: Path | str | None = None,
        amend: bool = False,
        chat_delay_s: float = 0.2,
        metadata: Mapping[str, str] | None = None,
        workplace: Workplace | None = None,
        initial_state: FeatureState | None = None,
        max_context_steps: int = 10,
        constraints: Constraints | None = None,
    ) -> None:
        super().__init__(initial_state or FeatureState(), max_context_steps=max_context_steps, constraints=constraints)
        _check(agent, validator, policy, chat_delay_s)
        request = InitializerRequest(
            current_objective=objective,
            feature_list=tuple(features),
            active_branch=active_branch,
            init_plan=init_plan,
            progress_summary=progress_summary,
            metadata=tuple(sorted((metadata or {}).items())),
        )
        check_request(request)
        self._prompts = dict(prompt_overrides or {})
        unknown = set(self._prompts) - {feature.id for feature in features}
        if features and unknown:
            raise InvalidRequest(f"prompt_overrides: expected ids of features, was {min(unknown)!r} too; correct it")
        self._agent = agent
        self._workplace = workplace or Workplace(validator)
        self._list = ListSetup(request, self._workplace, amend)
        self._policy = policy or RunPolicy()
        self._health_check: HealthCheck = health_check or CommandHealthCheck()
        self._selector: FeatureSelector = selector or FirstPending()
        self._observer, self._stream, self._hooks = observer, stream, hooks
        self._handoff = None if handoff is None else Path(handoff)
        self._chat_delay_s = chat_delay_s

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        own = cls.__mro__[: cls.__mro__.index(FeatureHarness)]
        if moved := sorted(_MOVED.keys() & {name for one in own for name in vars(one)}):
            instead = (
                f"override `Workplace.{name}` and pass that as `workplace`"
                if (name := _MOVED[moved[0]])
                else "nothing replaces it"
            )
            raise HarnessMisuse(f"{cls.__qualname__}.{moved[0]} is no longer called: {instead}")

    def asked_agents(self) -> Sequence[FeatureAgent]:
        # A workplace that does not ask the agent reports its costs itself, through `spending`.
        return (self._agent,) if self._workplace.asks_agent else ()

    def wrap_agent(self, wrap: Callable[[FeatureAgent], FeatureAgent]) -> None:
        """Replace the agent by `wrap(agent)`. Call it before the harness starts."""
        self._agent = wrap(self._agent)

    def limit_tries(self, most: int) -> None:
        """Limit the tries of each feature to `most`, unless the policy's limit is lower. Call it before the harness starts."""
        policy = self._policy
        self._policy = evolve(policy, max_turns_per_feature=min(most, policy.max_turns_per_feature))

    @property
    def initialized(self) -> InitializerResult:
        """The result of the initialisation; `created` is whether it happened in this attempt."""
        return initializer_result(self.state, created=self._list.has_created)

    @property
    def gauges(self) -> Mapping[str, float]:
        """Numbers for dashboards: how many features have which status, and tries so far."""
        standings = self.state.standings
        counts = dict.fromkeys(FeatureStatus, 0.0)
        for one in standings:
            counts[one.status] += 1
        return {f"features_{status.value}": count for status, count in counts.items()} | {
            "features": float(len(standings)),
            "tries": float(sum(one.tries for one in standings)),
            "set_backs": float(sum(one.set_backs for one in standings)),
        }

    def is_complete(self) -> bool:
        return self._list.is_complete(self.state, self._policy) and not self._workplace.owes(self.state)

    def conclusion(self) -> str:
        return self._workplace.conclusion(self.state)

    def reopens(self) -> bool:
        """Return whether the list may have changed since it was completed."""
        return self._list.amend and not self.is_complete()

    # the loop

    async def execute(self) -> AsyncIterator[FeatureStep]:
        self._list.begin_attempt()
        attempt = self._collaborators()
        writer, shutdown = attempt.writer, attempt.shutdown
        try:
            await self._workplace.open(self.name, self.state)
            self._take_over()
            shutdown.claim(self._handoff or self._workplace.handoff_directory)
            while (draft := await self._next_step(attempt)) is not None:
                written = self._write(draft, writer)
                yield written.step
                self._settle(attempt)
                await shutdown.show(self.state, attempt.attempts.working, at_once=written.matters)
                if writer.then is not None:
                    raise writer.then
        except BaseException as error:
            shutdown.how = how_ended(error, self._surroundings("end").control)
            raise
        finally:
            self._settle(attempt)
            await shutdown.close(self.state, attempt.attempts.working)

    def _take_over(self) -> None:
        """Make the list of a fork's origin its own: under its name, with its branch."""
        manifest = self.state.manifest
        if manifest is not None and manifest.session_id != self.name:
            branch = self._workplace.branch or manifest.active_branch
            manifest = evolve(manifest, session_id=self.name, active_branch=branch)
            self.update_state(lambda state: evolve(state, manifest=manifest, proposal=None))

    def _collaborators(self) -> _Attempt:
        observers = ObserverThread()
        phases = Phases(self._hooks, observers, self.name)
        messages = FeatureMessages(self.receive_nowait, self._workplace, self._policy)
        writer = StepWriter(phases, messages, self._stream)
        checks = StartupChecks(self._health_check, self._workplace, writer, self._unless_stopped)
        capabilities = Capabilities(
            state=lambda: self.state,
            now=self.now,
            stopping=lambda: self.stopping,
            hear=partial(self._hear, messages),
            ask=partial(self._ask, observers),
            unless_stopped=self._unless_stopped,
            once=self.once,
            settle=self.settle,
            effects=lambda: self.effects,
        )
        attempts = FeatureAttempts(capabilities, self._workplace, checks, self._policy, self._prompts, self._chat_delay_s)
        shutdown = FeatureShutdown(self.name, self._workplace, phases, observers)
        return _Attempt(messages=messages, writer=writer, checks=checks, attempts=attempts, shutdown=shutdown)

    async def _next_step(self, attempt: _Attempt) -> StepDraft | None:
        """Make the next move and return its step; None at the end."""
        if self.state.manifest is None:
            return await self._initialise(attempt.writer)
        begun = find_try(self.effects)
        if begun is not None and (begun.done or self._surroundings("resume").has_asked()):
            return await attempt.attempts.turn(begun.feature_id, begun.turn, taken_up=True)
        if begun is not None or (self.state.run is not None and not attempt.checks.has_begun):
            return await attempt.attempts.recover(begun)
        if attempt.writer.is_over:
            if (delivered := await self._deliver()) is not None:
                return delivered
            if (wait := stuck(self.state)) is not None:
                raise Waiting(wait.reason)
            return None
        if any(one.outcome in (*OPEN, EffectOutcome.CONFIRMED) for one in self.effects):
            # A delivery that was interrupted ends in the step in which it began.
            return await self._deliver() or await self._advance(attempt)
        draft, remark = await self._list.compare(self.state, self._policy, self.now)
        attempt.writer.note(remark=remark)
        if draft is None and await self._hear(attempt.messages):
            draft = StepDraft(kind=IterationKind.ORDERS, status=IterationStatus.DONE, state=self.state)
        return draft or await self._deliver() or await self._advance(attempt)

    async def _initialise(self, writer: StepWriter) -> StepDraft:
        writer.phases.start(Phase.INITIALIZER, 0)
        draft, remark = await self._list.initialise(self.state, self.name, self.now)
        writer.note(remark=remark)
        return draft

    async def _deliver(self) -> StepDraft | None:
        """Deliver accepted work between runs; return the step, or None if nothing is owed."""
        state = self.state
        if state.run is not None or not state.runs or state.runs[-1].status is RunStatus.INTERRUPTED:
            return None
        if not self._workplace.owes(state):
            return None
        state, note = await self._workplace.deliver(self.once, self.settle, self._pause, state)
        return StepDraft(kind=IterationKind.PROPOSE, status=IterationStatus.DONE, state=state, note=note)

    async def _pause(self, seconds: float) -> None:
        await self._unless_stopped(trio.sleep, seconds)

    async def _advance(self, attempt: _Attempt) -> StepDraft | None:
        """Return the step for the next move that the state asks for."""
        await self._workplace.check(self.state)
        while True:
            try:
                move = next_move(self.state, self._policy, self._selector)
            except FeatureError as error:
                return attempt.attempts.fail(IterationKind.CLOSE, error)
            match move:
                case Done():
                    return None
                case Wait(reason=reason):
                    raise Waiting(reason)
                case Close(status=status, note=note):
                    state = close_run(self.state, status, note, self.now())
                    return StepDraft(kind=IterationKind.CLOSE, status=IterationStatus.DONE, state=state, note=note)
                case Recheck(feature_id=feature_id):
                    passed = any(one.id == feature_id and one.passes for one in self.state.features)
                    draft = await attempt.attempts.recheck(feature_id)
                    if not passed or not await self._is_kept_for_later(draft, attempt.writer):
                        return draft
                case Turn(feature_id=feature_id, attempt=turn):
                    return await attempt.attempts.turn(feature_id, turn)

    async def _is_kept_for_later(self, draft: StepDraft, writer: StepWriter) -> bool:
        """Keep a quick recheck that still passes for the next step, unless the last step was too long ago. If it is lost, it
        is simply repeated."""
        if draft.kind is not IterationKind.RECHECK or draft.status is not IterationStatus.PASSED:
            return False
        assert draft.feature_id is not None
        writer.note(rechecked=(draft.feature_id,))
        if draft.state.run is None:
            return False
        # Without a step, give other tasks and messages to this harness a turn.
        await trio.lowlevel.checkpoint()
        if self.stopping or trio.current_time() - writer.recorded_at >= _UNRECORDED_S:
            return False
        self.update_state(lambda _: draft.state)
        return True

    def _write(self, draft: StepDraft, writer: StepWriter) -> Written:
        number, now = self.current_step + 1, self.now()
        written = writer.write(draft, self.state, number=number, now=now, stopping=self.stopping)
        self.update_state(lambda _: written.state, summary=written.summary)
        return written

    def _settle(self, attempt: _Attempt) -> None:
        """Check whether the last step has been recorded."""
        if attempt.writer.settle(self.current_step):
            attempt.attempts.working = None

    # functions for the collaborators

    async def _hear(self, messages: FeatureMessages) -> bool:
        """Process new messages; return whether there are any."""
        before = self.state
        after = await messages.hear(before)
        if after is not before:
            self.update_state(lambda _: after)
        return messages.has_news()

    async def _ask(self, observers: ObserverThread, assignment: Assignment) -> TurnResult:
        agent = self._agent
        if self._stream and self._observer is not None:
            agent = observe(agent, partial(observers.notify, self._observer, assignment))
        return await self.run_agent(agent, assignment)

    async def _unless_stopped(self, function: Callable[..., Awaitable[AnswerT]], *args: Any) -> AnswerT:
        """Return the result of a function; when the harness should stop, cancel it and raise `Stopping`."""
        answer: list[AnswerT] = []

        async def call() -> None:
            answer.append(await function(*args))

        await self._surroundings("call").control.wait(call)
        return answer[0]


def _check(agent: object, validator: object, policy: object, chat_delay_s: object) -> None:
    if not hasattr(agent, "run"):
        raise NotReady(f"no agent was given: expected an agent, was {agent!r}; create an Agent")
    if not hasattr(validator, "validate"):
        raise InvalidRequest(f"no validator was given: expected one, was {validator!r}; for experiments use accept_all()")
    if type(chat_delay_s) not in (int, float) or not 0 <= chat_delay_s < inf:  # type: ignore[operator]
        raise InvalidRequest(f"chat_delay_s: expected seconds, 0 or more, was {chat_delay_s!r}; correct it")
    if not isinstance(policy, RunPolicy | None):
        raise InvalidRequest(f"policy: expected a RunPolicy, was {policy!r:.200}; create one")
