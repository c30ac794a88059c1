"""Runs builders and validators in background tasks, several at a time.

    start_building, start_judging ──► a Trio task each ──► results ──► arrived(): one at a time, for the loop

Invariants: background tasks never change the state; an agent's error is a result like any other, unless it concerns the whole
harness (a spent budget, a person who must decide).

`assign_agents` decides which agents build and validate each task before anything begins, and returns an `AgentTable`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeAlias, cast

import trio
from attrs import evolve, frozen

from harnesses.agent import Agent
from harnesses.features.turn_results import find_order
from harnesses.governance.contracts.completeness import independent
from harnesses.governance.evidence.attempt_verdict import Claim
from harnesses.governance.limits.counted_agent import AgentStopped, limited, tallying
from harnesses.pipeline.judging.case_judge import Case, CaseJudge, Judged, Now
from harnesses.pipeline.pipeline_state import Built, PipelineState, TaskNote, note_of, record_of
from harnesses.pipeline.plan.ids import PipelineInvalid, TaskId
from harnesses.pipeline.plan.pipeline_plan import PipelinePlan
from harnesses.pipeline.plan.task import Task
from harnesses.pipeline.run_folder.folder_files import remove_file
from harnesses.pipeline.stage_work import (
    Inspection,
    PipelineAgent,
    StageWork,
    builder_json,
    error_text,
    read_submission,
    stage_work,
)
from harnesses.pipeline.transitions import built_of
from harnesses.processes.threads import aside

ANY = "*"
"""The key of the default agent."""
Builders: TypeAlias = PipelineAgent | Sequence[PipelineAgent]
"""The builders of a task: one agent, or one for each attempt; the last one makes all further attempts."""
Agents: TypeAlias = PipelineAgent | Mapping[str, Builders]
Validators: TypeAlias = PipelineAgent | Mapping[str, PipelineAgent] | None


@frozen
class AgentTable:
    """The agents of each task."""

    builders: Mapping[TaskId, tuple[PipelineAgent, ...]]
    """Builders by task, in the order of the attempts."""
    validators: Mapping[TaskId, PipelineAgent | None]

    def builder(self, id: TaskId, attempt: int) -> PipelineAgent:
        """Return the builder of a task for an attempt, from 1."""
        builders = self.builders[id]
        return builders[min(attempt, len(builders)) - 1]

    def every(self) -> tuple[PipelineAgent, ...]:
        """Return all of them, each once."""
        builders = [one for several in self.builders.values() for one in several]
        return tuple(dict.fromkeys([*builders, *(one for one in self.validators.values() if one is not None)]))


def assign_agents(plan: PipelinePlan, agents: Agents, validators: Validators) -> AgentTable:
    """Return the agents that build and validate each task.

    Raises:
        PipelineInvalid: an agent is missing, or a builder would validate its own work.
    """
    found = {id: _find(plan, task, agents, "agents") for id, task in plan.tasks.items()}
    builders = {id: one if isinstance(one, tuple) else (one,) for id, one in found.items()}
    judges = {id: _validator(plan, task, validators, builders[id]) for id, task in plan.tasks.items()}
    return AgentTable(builders, judges)


def _find(plan: PipelinePlan, task: Task, agents: object, argument: str) -> PipelineAgent | tuple[PipelineAgent, ...]:
    """Return the agent of a task, found by its id, its first stage's agent, one of its domains, or "*"."""
    if isinstance(agents, Agent):
        return cast(PipelineAgent, agents)  # type: ignore[redundant-cast]
    known: Mapping[str, object] = cast(Mapping[str, object], agents) if isinstance(agents, Mapping) else {}
    keys = (str(task.id), plan.stages[task.stages[0]].agent, *(f"domain:{one}" for one in task.domains), ANY)
    found = next((known[key] for key in keys if key in known), None)
    if isinstance(found, Sequence) and found and all(isinstance(one, Agent) for one in cast("Sequence[object]", found)):
        return tuple(cast("Sequence[PipelineAgent]", found))
    if not isinstance(found, Agent):
        raise PipelineInvalid(
            f"task {str(task.id)!r} has no agent in `{argument}`: expected an Agent for one of {', '.join(keys)}, was "
            f"{found!r:.80}"
        )
    return cast(PipelineAgent, found)  # type: ignore[redundant-cast]


def _validator(
    plan: PipelinePlan, task: Task, validators: Validators, builders: Sequence[PipelineAgent]
) -> PipelineAgent | None:
    if validators is None:
        if plan.guardrails.require_validator_contract:
            raise PipelineInvalid(
                f"task {str(task.id)!r} has no validator: expected `validators`; or allow rules alone with "
                "Guardrails(require_validator_contract=False)"
            )
        return None
    found = _find(plan, task, validators, "validators")
    if isinstance(found, tuple):
        raise PipelineInvalid(f"task {str(task.id)!r}: validators: expected one Agent, got {len(found)}; name one")
    for builder in builders:
        apart = independent(builder, found)
        if not apart.ok:
            raise PipelineInvalid(f"task {str(task.id)!r}: {apart.evidence}; give the two agents different names")
    return found


_PASSES = 4
"""Scheduler passes to wait, so that tasks ending at the same moment can all report."""
Ask: TypeAlias = Callable[[PipelineAgent, StageWork | Inspection], Awaitable[object]]


@frozen
class BuildResult:
    """An agent has submitted its work, or failed."""

    task: TaskId
    nonce: str
    built: Built


@frozen
class JudgingResult:
    """A submission was validated."""

    task: TaskId
    nonce: str
    judged: Judged | None
    problem: str = ""
    """Why it could not be validated."""


@frozen
class Halt:
    """The whole harness must stop or wait."""

    task: TaskId
    error: Exception


Result: TypeAlias = BuildResult | JudgingResult | Halt


class Workers:
    """Running builders and validators, at most one for each task.

    Args:
        nursery: the nursery in which they run.
        ask: asks an agent, and returns its answer.
        limit_s: maximum seconds for each of them.
    """

    def __init__(
        self,
        nursery: trio.Nursery,
        plan: PipelinePlan,
        agents: AgentTable,
        judge: CaseJudge,
        *,
        ask: Ask,
        now: Now,
        limit_s: float,
    ) -> None:
        self._nursery, self._plan, self._agents, self._case_judge = nursery, plan, agents, judge
        self._ask, self._now, self._limit_s = ask, now, limit_s
        self._results: list[Result] = []
        """At most one result for each task, because no work starts on a task whose result has not been taken."""
        self._arrival = trio.Event()
        self.working: dict[TaskId, str] = {}
        """Nonce of the claim of each task that is being worked or validated."""
        self.claims: set[str] = set()
        """Nonces of the claims made for these workers; earlier claims were interrupted."""

    def start_building(self, state: PipelineState) -> None:
        """Start the agents whose claims are recorded."""
        for record in state.tasks:
            claim = record.claim
            if claim is not None and record.built is None and record.id not in self.working and claim.nonce in self.claims:
                self.working[record.id] = claim.nonce
                self._nursery.start_soon(self._build, state, note_of(state, record.id), claim)

    def start_judging(self, state: PipelineState, id: TaskId) -> None:
        """Start the validation of a task's submission."""
        claim = record_of(state, id).claim
        assert claim is not None
        self.working[id] = claim.nonce
        self._nursery.start_soon(self._judge, state, note_of(state, id), claim)

    def finish(self, result: Result) -> str:
        """Mark the work on a task as ended; return the nonce of its claim. A halt gives the claim back."""
        nonce = self.working.pop(result.task, "")
        if isinstance(result, Halt):
            self.claims.discard(nonce)
        return nonce

    async def arrived(self, order: Sequence[TaskId]) -> Result | None:
        """Return a result if there is one; of several, that of the first task in `order`."""
        self._arrival = trio.Event()
        for _ in range(_PASSES):
            if not self._results:
                return None
            # Tasks that end at the same moment can all report, so that the choice does not depend on chance.
            await trio.lowlevel.checkpoint()
        self._results.sort(key=lambda result: order.index(result.task))
        return self._results.pop(0)

    async def wait(self) -> None:
        """Wait until a result arrives that was not there at the last call of `arrived`."""
        await self._arrival.wait()

    def _hand_over(self, result: Result) -> None:
        self._results.append(result)
        self._arrival.set()

    async def _build(self, state: PipelineState, task: TaskNote, claim: Claim) -> None:
        try:
            result: Result = BuildResult(task.id, claim.nonce, await self._built(state, task, claim))
        except Exception as error:
            order = find_order(error)
            failed = BuildResult(task.id, claim.nonce, Built(contract="", failure=error_text(error)))
            result = failed if order is None else Halt(task.id, order)
        self._hand_over(result)

    async def _built(self, state: PipelineState, task: TaskNote, claim: Claim) -> Built:
        agent, workspace, rails = self._agents.builder(task.id, claim.attempt), self._plan.workspace, self._plan.guardrails
        # An older contract does not belong to this attempt.
        await aside(remove_file, workspace, builder_json(state, task))
        built: Built | None = None
        answer: object = None
        with tallying(rails) as tally, trio.move_on_after(self._limit_s) as limit:
            try:
                answer = await self._ask(limited(agent, rails), stage_work(workspace, state, task, claim))
            except AgentStopped as stopped:
                built = Built(contract="", failure=error_text(stopped), finding=stopped.finding)
        if built is None and limit.cancelled_caught:
            built = Built(contract="", failure=f"the agent was stopped: expected it to end within {self._limit_s:g} s")
        if built is None:
            built = await aside(read_submission, workspace, state, task, answer)
        return evolve(built, tool_calls=tally.tool_calls, messages=tally.messages) if tally.is_counting else built

    async def _judge(self, state: PipelineState, task: TaskNote, claim: Claim) -> None:
        case = Case(
            state=state,
            task=task,
            claim=claim,
            built=built_of(record_of(state, task.id)),
            builder=self._agents.builder(task.id, claim.attempt),
            validator=self._agents.validators[task.id],
        )
        try:
            judged = await self._case_judge.judge(case, self._ask_validator, self._now)
            result: Result = JudgingResult(task.id, claim.nonce, judged)
        except Exception as error:
            order = find_order(error)
            failed = JudgingResult(task.id, claim.nonce, None, error_text(error))
            result = failed if order is None else Halt(task.id, order)
        self._hand_over(result)

    async def _ask_validator(self, validator: PipelineAgent, inspection: Inspection) -> object:
        """Return a validator's answer; an error it raises is an answer too, but not a contract."""
        answer: object = f"the validator was stopped: expected it to end within {self._limit_s:g} s"
        try:
            with trio.move_on_after(self._limit_s):
                answer = await self._ask(validator, inspection)
        except Exception as error:
            if find_order(error) is not None:
                raise
            return f"the validator raised {error_text(error)}"
        return answer
