"""`FeatureHarness`: works a list of features until every one is proven. The list is its state, a try is a step.

    initialise ──► bearings ──► recheck ──► agent ──TurnResult──► validator ──Verdict──► state ──► … ──► hand-off
                   (each run)   (a sample)   once

The laws:

    what is next is decided from the state, and what an agent has done is on record once it is done; so a program that was
    killed goes on with it, and neither asks nor pays twice
    a feature passes by a verdict, and by nothing else
    a run that ends is handed off in the same step; one that could not be is handed off at the next start
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import ExitStack
from math import inf
from pathlib import Path
from typing import Any, TypedDict

import trio
from attrs import evolve

from harnesses.errors import Waiting
from harnesses.features.aside import Aside
from harnesses.features.attempt import Attempt
from harnesses.features.bearings import has_news
from harnesses.features.changes import amended, checked_request, closed, initialised, initializer_result, interrupted
from harnesses.features.errors import FeatureError, InvalidRequest, NotReady
from harnesses.features.feature import Feature
from harnesses.features.health import CommandHealthCheck
from harnesses.features.hooks import Phase, PhaseHooks, Phases
from harnesses.features.leaving import FeatureLeaving
from harnesses.features.lists import differences
from harnesses.features.manifest import (
    DEFAULT_BRANCH,
    DEFAULT_SUMMARY,
    InitializerRequest,
    InitializerResult,
    InitPlan,
)
from harnesses.features.planning import Close, Done, Recheck, Turn, Wait, is_complete, next_move, stuck
from harnesses.features.policy import RunPolicy
from harnesses.features.protocols import FeatureSelector, HealthCheck, OutcomeValidator
from harnesses.features.record import FeatureState, IterationKind, IterationStatus
from harnesses.features.selectors import FirstPending
from harnesses.features.streaming import FeatureAgent, TurnObserver
from harnesses.features.telling import FeatureStep
from harnesses.features.turn import Try, try_on_record
from harnesses.step import Constraints


class FeatureOptions(TypedDict, total=False):
    """What a harness for another kind of work hands on to `FeatureHarness`, where each is described."""

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


class FeatureHarness(FeatureLeaving):
    """Has an agent work one feature after the other, and a validator prove each.

    One start works one run: as many features, turns and retries as its policy allows. It is complete when every required
    feature passes, by evidence; else it ends exhausted, and started again it begins the next run. If what is left is
    blocked, it waits for a person.

    People can tell it to unblock, block or word a feature by message; see `orders`.

    Args:
        agent: does the work: it is given an `Assignment` and returns a `TurnResult`.
        validator: judges the result; nothing else can make a feature pass. `accept_all()` has to be asked for.
        objective: what the features are for.
        features: an empty list stands for the starter skeleton of six.
        policy: how much a run may do.
        health_check: looks at the surroundings when a run begins; the default runs the init plan.
        selector: says which feature is next; the default goes by priority, then by the order of the list.
        init_plan: commands for the health check; the default ones look at a repository, if there is one.
        active_branch: where accepted work goes, where there is a repository.
        progress_summary: the first progress entry.
        prompt_overrides: what the agent is asked instead of the usual words, by feature id.
        stream: whether the observer is told what happens in a turn while it happens.
        observer: is told so.
        hooks: are told of the phases. Hooks and observer can neither break nor delay a run.
        handoff: directory of its own for `HANDOFF.md` and `HANDOFF.json`. In the middle of a run they are written once a
            second at most, but at once when it ends and when something is set back or blocked.
        amend: whether a list that differs from the one being worked changes that, also if that is complete.
        chat_delay_s: seconds before a turn that follows a failed one of the agent; doubled each time, up to half a minute.
        metadata: kept in the manifest.

    Raises:
        InvalidRequest: the objective is blank, the list can not be worked, or no validator was chosen.
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
        initial_state: FeatureState | None = None,
        max_context_steps: int = 10,
        constraints: Constraints | None = None,
    ) -> None:
        super().__init__(
            agent,
            validator,
            prompt_overrides=prompt_overrides or {},
            stream=stream,
            observer=observer,
            initial_state=initial_state,
            max_context_steps=max_context_steps,
            constraints=constraints,
        )
        if not hasattr(agent, "run"):
            raise NotReady(f"no agent was given: expected one to do the work, was {agent!r}; make an Agent")
        if not hasattr(validator, "validate"):
            raise InvalidRequest(f"no validator was chosen: expected one, was {validator!r}; to try things out, accept_all()")
        self._request = InitializerRequest(
            current_objective=objective,
            feature_list=tuple(features),
            active_branch=active_branch,
            init_plan=init_plan,
            progress_summary=progress_summary,
            metadata=tuple(sorted((metadata or {}).items())),
        )
        checked_request(self._request)
        unknown = set(self._prompts) - {feature.id for feature in features}
        if features and unknown:
            raise InvalidRequest(f"prompt_overrides: expected ids of features, was {min(unknown)!r} too; correct it")
        if type(chat_delay_s) not in (int, float) or not 0 <= chat_delay_s < inf:
            raise InvalidRequest(f"chat_delay_s: expected seconds, 0 or more, was {chat_delay_s!r}; correct it")
        if not isinstance(policy, RunPolicy | None):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidRequest(f"policy: expected a RunPolicy, was {policy!r:.200}; make one")
        self._policy = policy or RunPolicy()
        self._health_check: HealthCheck = health_check or CommandHealthCheck()
        self._selector: FeatureSelector = selector or FirstPending()
        self._hooks = hooks
        self._handoff = None if handoff is None else Path(handoff)
        self._amend = amend
        self._chat_delay_s = chat_delay_s
        self._created = False

    def limit_tries(self, most: int) -> None:
        """Let a feature have at most so many tries, if its policy does not say fewer. Before it is started."""
        policy = self._policy
        self._policy = evolve(policy, max_turns_per_feature=min(most, policy.max_turns_per_feature))

    @property
    def initialized(self) -> InitializerResult:
        """What the initialisation has given; `created` is whether it came in this attempt."""
        return initializer_result(self.state, created=self._created)

    def is_complete(self) -> bool:
        if not is_complete(self.state, self._policy):
            return False
        if not self._amend or self._at.compared:
            return True
        return self._knows_list() and not (self._given and has_news(self.state, self._given))

    def reopens(self) -> bool:
        """Return whether the list may have changed since it was completed."""
        return self._amend and not self.is_complete()

    @property
    def _given(self) -> tuple[Any, ...]:
        return self._request.feature_list

    async def _load_features(self) -> Sequence[Feature]:
        return self._given

    def _knows_list(self) -> bool:
        """Return whether the list is known without loading it."""
        return True

    # the loop

    async def execute(self) -> AsyncIterator[FeatureStep]:
        self._at = Attempt(stepped_at=trio.current_time())
        self._aside, self._health, self._created = Aside(), "", False
        self._claims, self._files = ExitStack(), None
        self._phases = Phases(self._hooks, self._aside, self.name)
        try:
            await self._open()
            self._claim()
            while (made := await self._next_step()) is not None:
                yield made
                await self._recorded()
        except BaseException as error:
            self._at.how = self._how(error)
            raise
        finally:
            await self._leave()

    async def _next_step(self) -> FeatureStep | None:
        """Make the next step; None at the end."""
        if self.state.manifest is None:
            return await self._initialise()
        begun = try_on_record(self.effects)
        if begun is not None and begun.done:
            return await self._turn(begun.feature_id, begun.turn, taken_up=True)
        if begun is not None or (self.state.run is not None and not self._at.own_run):
            return await self._recover(begun)
        if self._at.last.over:
            if (wait := stuck(self.state)) is not None:
                raise Waiting(wait.reason)
            return None
        return await self._compare() or await self._follow_orders() or await self._advance()

    async def _advance(self) -> FeatureStep | None:
        """Make the step that the state asks for."""
        while True:
            try:
                move = next_move(self.state, self._policy, self._selector)
            except FeatureError as error:
                return self._failed(IterationKind.CLOSE, error)
            match move:
                case Done():
                    return None
                case Wait(reason=reason):
                    raise Waiting(reason)
                case Close(status=status, note=note):
                    state = closed(self.state, status, note, self.now())
                    return self._made(state, IterationKind.CLOSE, IterationStatus.DONE, note)
                case Recheck(feature_id=feature_id):
                    if (made := await self._judge_anew(feature_id)) is not None:
                        return made
                case Turn(feature_id=feature_id, attempt=turn):
                    return await self._turn(feature_id, turn)

    # steps

    async def _initialise(self) -> FeatureStep:
        """Set up manifest, features and first progress entry, all in one step."""
        self._phases.start(Phase.INITIALIZER, 0)
        request = await self._requested()
        state = initialised(request, self.name, await self._first_commit(), self.now())
        self._at.compared = self._created = True
        note = f"{len(state.features)} features for: {request.current_objective}"
        return self._made(state, IterationKind.INITIALIZE, IterationStatus.DONE, note)

    async def _requested(self) -> InitializerRequest:
        return evolve(self._request, feature_list=tuple(await self._load_features()))

    async def _compare(self) -> FeatureStep | None:
        """Compare the list given with the one being worked; once in each attempt."""
        if self._at.compared or not (self._given or self._amend):
            return None
        self._at.compared = True
        request = await self._requested()
        given = checked_request(request) if request.feature_list else ()
        said = differences(self.state.features, given) if given else ""
        if self._amend and given and has_news(self.state, given):
            state = amended(self.state, given, self.now())
            return self._made(state, IterationKind.AMEND, IterationStatus.DONE, said)
        if said and not self._amend:
            self._at.remark = f"! the list given is not the one being worked ({said}): it is kept; to change it, amend=True"
        if is_complete(self.state, self._policy):
            return self._made(self.state, IterationKind.AMEND, IterationStatus.DONE, "nothing new in the list")
        return None

    async def _follow_orders(self) -> FeatureStep | None:
        """Do what people have ordered since the last step."""
        return self._made(self.state, IterationKind.ORDERS, IterationStatus.DONE) if await self._hear() else None

    async def _recover(self, begun: Try | None) -> FeatureStep:
        """Hand off what an attempt has left that ended in the middle."""
        if begun is not None:
            await self._put_off(begun)
        id = None if begun is None else begun.feature_id
        state = interrupted(self._opened(), id, self.now(), "the end of its program")
        return self._made(state, IterationKind.RECOVER, IterationStatus.INTERRUPTED, id=id)
