"""`PipelineHarness`: works through stages that build on each other: agents build, others validate, evidence decides.

    plan ─► claim ─► agent works ─► build ─► inspected, run, validated in a copy ─► judge ─► (deeds, approved) ─► PASS
             │ recorded before any work        │ recorded before validation      │ proof and pass are one commit
             └ killed: the attempt counts      └ killed: it is validated         └ FAIL: the next attempt is told why

Invariants:

    * the next move is decided from the state, and a claim is recorded before its work begins; so a program that was killed
      continues, and no attempt is lost or made twice
    * a task passes only by a verdict of code, on a contract of the open claim, with evidence of the required grade
    * independent tasks run in parallel, and the outcome of one does not harm the others
    * while something waits for a person's approval nothing else of the pipeline runs: everything that can run goes first

Ownership; none of these know the harness:

    PipelineHarness ──► PipelinePlan    stages, tasks and workspace, checked
        │               AgentTable      the builders and the validator of each task
        ├──► Workers    builders and validators in background tasks ──► CaseJudge   validates in a copy
        ├──► Actions    actions that need a person's approval, each done once
        ├──► StepWriter a draft ──► the step that is yielded
        └──► FolderView what was done, as files

Functions of the state (`scheduling`, `task_attempts`, `verdicts`, `upkeep`) decide the next step and return a `StepDraft`; the
loop awaits, and writes it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from pathlib import Path
from secrets import token_hex
from typing import cast

import trio

from harnesses.base import BaseHarness
from harnesses.budgets.usage import spent_up
from harnesses.effects.effect_scopes import scope_of
from harnesses.errors import BudgetExhausted, HarnessMisuse, Stopping, Waiting
from harnesses.features.agent_text import one_line
from harnesses.governance.evidence.attempt_verdict import Claim, TaskStatus
from harnesses.governance.evidence.evidence_policy import EvidencePolicy
from harnesses.governance.limits.guardrails import Guardrails
from harnesses.pipeline.actions import Actions, begun_action
from harnesses.pipeline.judging.case_judge import CaseJudge
from harnesses.pipeline.judging.copies import MAX_COPY_BYTES
from harnesses.pipeline.pipeline_memory import PipelineMemory
from harnesses.pipeline.pipeline_state import (
    Mode,
    MoveKind,
    PipelineInput,
    PipelineOutput,
    PipelineState,
    PipelineStep,
    StepDraft,
    record_of,
)
from harnesses.pipeline.plan.ids import PipelineInvalid, TaskId
from harnesses.pipeline.plan.pipeline_plan import make_plan
from harnesses.pipeline.plan.preset import SDLC_STAGES
from harnesses.pipeline.plan.stage import Stage
from harnesses.pipeline.plan.task import Task, each_stage
from harnesses.pipeline.run_folder.folder_files import FolderView, sweep_drafts
from harnesses.pipeline.scheduling import (
    Act,
    Done,
    Hold,
    Judge,
    Move,
    Reclaim,
    Rest,
    Start,
    Stuck,
    next_move,
    waits_for_person,
)
from harnesses.pipeline.stage_work import Inspection, PipelineAgent, StageWork
from harnesses.pipeline.step_writer import StepWriter
from harnesses.pipeline.task_attempts import claim_task, hold_task, plan_run, reclaim_task, take_submission
from harnesses.pipeline.upkeep import follow_messages, recall, remember, set_back_stale, stale_tasks, unremembered
from harnesses.pipeline.verdicts import not_judged, take_verdict
from harnesses.pipeline.workers import Agents, BuildResult, Halt, JudgingResult, Validators, Workers, assign_agents
from harnesses.processes.threads import aside
from harnesses.step import Constraints

_LOOK_S = 0.25
"""Seconds between two checks for messages while agents work."""
_GRACE = 0.8
"""Fraction of a stop's grace period in which running work may finish."""
_LEAVING_S = 2.0
"""Maximum seconds for writing the run folder when the attempt ends."""
_MAX_MESSAGES = 100
"""Maximum messages processed in one step."""


def new_nonce() -> str:
    """Return a unique id for an attempt."""
    return token_hex(16)


class PipelineHarness(BaseHarness[PipelineState, PipelineInput, PipelineOutput]):
    """Works through stages, grouped in tasks, until each is proven; see the module.

    It is complete when every task passes and no proven content has changed. If everything left needs a person, it
    waits: `orchestrator send NAME '{"unblock": "task"}'`, see `upkeep`.

    Args:
        stages: the artifacts to produce; the default is the 15 stages of software development.
        tasks: the units of work, each covering one stage or more; the default is one for each stage, and `PLAN_TASKS` is an
            alternative.
        agents: the builders: one for all, or by task id, by a stage's agent name, by "domain:" and one of the task's domains,
            or by "*". A builder is given a `StageWork`, and answers with its contract, or leaves it in `builder.json`; a
            `CommandAgent` can do this.
        validators: the validators, in the same forms; each is given an `Inspection`, which only reads a copy. None requires
            `Guardrails(require_validator_contract=False)`.
        workspace: the project's root. Agents that work in parallel share it.
        goal: the goal of the pipeline.
        run_folder: directory of the run folder, below the workspace; the default is `.pipeline/runs/<run id>`.
        guardrails: limits, which agents are also told.
        evidence_policy: the evidence that a pass needs; the default requires evidence observed by the pipeline.
        memory: recalls earlier work, and stores work that has passed.
        mode: "express" skips the approval of tasks that have a gate; dangerous actions need an approval in any case.
        max_parallel: maximum tasks that are worked or validated at the same time.
        agent_limit_s: maximum seconds for one attempt of an agent, and for a validator.
        command_limit_s: maximum seconds for a command that is run for validation.
        unseen: paths below the workspace that are not copied for validators, because they are large and not needed.
        max_copy_bytes: maximum size of a copy, by the files' stated sizes; a larger workspace is a failed check.
        nonce: returns a unique id for each attempt.

    Raises:
        PipelineInvalid: stages, tasks or agents are invalid.
    """

    _workers: Workers
    _actions: Actions
    _writer: StepWriter
    _view: FolderView
    _halted: Exception | None

    def __init__(
        self,
        stages: Sequence[Stage] = SDLC_STAGES,
        tasks: Sequence[Task] | None = None,
        *,
        agents: Agents,
        validators: Validators = None,
        workspace: Path | str,
        goal: str,
        run_folder: Path | str | None = None,
        guardrails: Guardrails | None = None,
        evidence_policy: EvidencePolicy | None = None,
        memory: PipelineMemory | None = None,
        mode: Mode | str = Mode.INTERACTIVE,
        max_parallel: int = 3,
        agent_limit_s: float = 1_800.0,
        command_limit_s: float = 600.0,
        unseen: Iterable[str] = (),
        max_copy_bytes: int = MAX_COPY_BYTES,
        nonce: Callable[[], str] = new_nonce,
        max_context_steps: int = 10,
        constraints: Constraints | None = None,
    ) -> None:
        super().__init__(PipelineState(), max_context_steps=max_context_steps, constraints=constraints)
        self._plan = make_plan(
            stages,
            each_stage(stages) if tasks is None else tasks,
            workspace=workspace,
            run_folder=run_folder,
            goal=goal,
            mode=mode,
            guardrails=guardrails or Guardrails(),
        )
        _check_counts(max_parallel=max_parallel, max_copy_bytes=max_copy_bytes)
        _check_limits(agent_limit_s=agent_limit_s, command_limit_s=command_limit_s)
        self._agents = assign_agents(self._plan, agents, validators)
        self._memory, self._nonce = memory, nonce
        self._most, self._agent_limit_s = max_parallel, agent_limit_s
        self._judge = CaseJudge(
            workspace=self._plan.workspace,
            stages=self._plan.stages,
            guardrails=self._plan.guardrails,
            policy=evidence_policy or EvidencePolicy(),
            limit_s=command_limit_s,
            unseen=tuple(unseen),
            max_bytes=max_copy_bytes,
        )

    def asked_agents(self) -> Sequence[PipelineAgent]:
        return self._agents.every()

    def is_complete(self) -> bool:
        state = self.state
        if not state.tasks or any(task.status is not TaskStatus.PASS for task in state.tasks):
            return False
        if (self._memory is not None and unremembered(state)) or stale_tasks(state, self._plan.workspace):
            return False
        # Checked here, because a program that is killed after its last step does not run the harness again.
        self._read_view().write()
        return True

    def reopens(self) -> bool:
        """Return whether any proven content has changed."""
        return not self.is_complete()

    async def execute(self) -> AsyncIterator[PipelineStep]:
        self._check_begun()
        self._halted, self._writer = None, StepWriter()
        self._actions = Actions(self._plan, self._judge.policy, self.once, self.approval, self.now)
        self._view = await aside(self._read_view)
        if self.state.run_id:
            await aside(sweep_drafts, self._plan.workspace / self.state.run_folder)
            await aside(self._view.write)
        ended: Exception | Stopping | None = None
        try:
            async with trio.open_nursery() as nursery:
                ask, limit_s = self._ask, self._agent_limit_s
                self._workers = Workers(nursery, self._plan, self._agents, self._judge, ask=ask, now=self.now, limit_s=limit_s)
                self._workers.claims.update(self._resumed_claim())
                while True:
                    try:
                        draft = await self._next()
                        made = None if draft is None else self._write(draft)
                    except (Exception, Stopping) as error:
                        # Raised outside of the nursery, which would wrap it in a group.
                        ended = error
                        made = await self._drain() if isinstance(error, Stopping) else None
                    if made is None:
                        break
                    yield made
                    self._update_view()
                    await aside(self._view.write)
                    if ended is not None:
                        break
                nursery.cancel_scope.cancel()
        finally:
            self._update_view()
            with trio.move_on_after(_LEAVING_S, shield=True):
                await aside(self._view.write)
        if ended is not None:
            raise ended

    async def _ask(self, agent: PipelineAgent, work: StageWork | Inspection) -> object:
        """Ask an agent about one claim. Its effects are recorded under that claim, since several agents work at once."""
        return await self.run_agent(agent, work, key=_call_key(work.claim))

    def _resumed_claim(self) -> Iterable[str]:
        """Return the nonce of the claim made with the last step, if its agent has recorded calls or asked for an approval: the
        agent continues after them. Calls before the last step are not at hand, so another interrupted claim is given back."""
        last = self.step_history[-1].input if self.step_history else None
        if last is None or last.kind is not MoveKind.CLAIM:
            return ()
        claim = record_of(self.state, TaskId(last.task)).claim
        assert claim is not None
        scope = scope_of(self._agents.builder(TaskId(last.task), claim.attempt).name, _call_key(claim))
        has_calls = any(effect.key.startswith(scope) for effect in self.effects) or self._surroundings("resume").has_asked()
        return (claim.nonce,) if has_calls else ()

    async def _next(self) -> StepDraft | None:
        """Return the next step, after starting all work that can start; None at the end."""
        if not self.state.run_id:
            return plan_run(self._plan, self.now())
        self._plan.check_same(self.state)
        while True:
            state, workers = self.state, self._workers
            if (begun := begun_action(state, self.effects)) is not None:
                return await self._actions.act(state, begun, self.current_step + 1)
            workers.start_building(state)
            if (result := await workers.arrived([task.id for task in state.tasks])) is not None:
                if not isinstance(result, Halt):
                    return self._take(result)
                # Its claim is given back; the others finish, and nothing new starts.
                workers.finish(result)
                self._halted = self._halted or result.error
            if self._halted is not None and not workers.working:
                raise self._halted
            most = self._most if self._halted is None else 0
            rails, own = self._plan.guardrails, workers.claims
            move = next_move(state, rails, working=workers.working.keys(), own=own, most=most)
            if (draft := await self._upkeep(state, move)) is not None:
                return draft
            if isinstance(move, Start) and (spent := self._spent(move.task)) is not None:
                self._halted = spent
                continue
            match move:
                case Rest():
                    await self._surroundings("rest").control.wait(self._look_out)
                case Done():
                    return None
                case Stuck(reason=reason):
                    raise Waiting(one_line(reason, 2_000))
                case Judge(task=id):
                    workers.start_judging(state, id)
                case _:
                    return await self._move(state, move)

    async def _upkeep(self, state: PipelineState, move: Move) -> StepDraft | None:
        """Return the maintenance step that is due before a move; None if there is none."""
        # A move that may wait for a person goes before messages, because after them its approval would be requested again.
        if not isinstance(move, Act) and not waits_for_person(move) and (messages := self._messages()):
            return follow_messages(state, messages, self._plan.guardrails, self.now())
        if isinstance(move, Start | Act | Done) and (stale := await aside(stale_tasks, state, self._plan.workspace)):
            return set_back_stale(state, stale, self.now())
        if self._memory is not None and (pending := unremembered(state)):
            return await remember(self._memory, state, pending, self.now)
        return None

    async def _move(self, state: PipelineState, move: Reclaim | Hold | Start | Act) -> StepDraft:
        """Return the step for a move."""
        match move:
            case Reclaim(task=id):
                return reclaim_task(state, id, self._plan.guardrails, self.now())
            case Hold():
                return hold_task(state, move, self.now())
            case Start(task=id, gated=gated):
                grant = await self._actions.ask_to_start(state, id) if gated else None
                if isinstance(grant, StepDraft):
                    return grant
                draft = await self._claim(state, id)
                if grant is not None:
                    self.log(f"{id}: approved by {grant.by}")
                return draft
            case Act(task=id):
                return await self._actions.act(state, id, self.current_step + 1)

    async def _claim(self, state: PipelineState, id: TaskId) -> StepDraft:
        """Begin an attempt."""
        attempt = record_of(state, id).attempts + 1
        claim = Claim(task_id=str(id), attempt=attempt, nonce=self._nonce())
        recalled, events = await recall(self._memory, state, id, self.now)
        before, agent = (self._agents.builder(id, max(1, number)) for number in (attempt - 1, attempt))
        agents, rails = None if agent is before else (before.name, agent.name), self._plan.guardrails
        draft = claim_task(state, claim, rails, self.now(), memory=recalled.text, agents=agents, events=events)
        self._workers.claims.add(claim.nonce)
        return draft

    def _take(self, result: BuildResult | JudgingResult) -> StepDraft:
        """Return the step for the result of an agent or a validator."""
        state, id, now = self.state, result.task, self.now()
        nonce, record = self._workers.finish(result), record_of(self.state, id)
        if record.claim is None or not record.claim.nonce == result.nonce == nonce:
            raise HarnessMisuse(f"{self._where()}: task {id}: a result arrived for a claim that is not open")
        if isinstance(result, BuildResult):
            return take_submission(state, id, result.built, now)
        judged = result.judged
        verdict = not_judged(record.claim, result.problem) if judged is None else judged.verdict
        evidence, step = () if judged is None else judged.evidence, self.current_step + 1
        actions = len(self._actions.of_task(state, id, record.builder))
        return take_verdict(state, verdict, evidence, self._plan.guardrails, actions=actions, now=now, step=step)

    async def _drain(self) -> PipelineStep | None:
        """Return one step with all results that arrive within a stop's grace period; None if there are none."""
        made: PipelineStep | None = None
        workers, order = self._workers, [task.id for task in self.state.tasks]
        with trio.move_on_after(self._surroundings("stop").control.grace_s * _GRACE):
            while workers.working:
                result = await workers.arrived(order)
                if result is None:
                    await workers.wait()
                elif isinstance(result, Halt):
                    workers.finish(result)
                else:
                    made = self._write(self._take(result))
        return made

    def _write(self, draft: StepDraft) -> PipelineStep:
        """Return the step for a draft, with the records attached to it."""
        written = self._writer.write(draft, self.current_step + 1)
        for kind, value in written.attachments:
            self.attach(kind, value)
        self.update_state(lambda _: draft.state, summary=written.step.output.note or None)
        return written.step

    def _read_view(self) -> FolderView:
        outputs = tuple(step.output for step in self.step_history)
        return FolderView(self.name, self._plan.workspace, self.state, outputs)

    def _update_view(self) -> None:
        """Add the last step to the run folder, if it is recorded."""
        if (output := self._writer.take_recorded(self.current_step)) is not None:
            self._view = self._view.after(self.state, output)

    def _spent(self, id: TaskId) -> BudgetExhausted | None:
        """Return the error of the agent's budget if it is spent, so that no attempt is begun and counted; otherwise None."""
        till = self._surroundings("claim").till
        agent: object = self._agents.builder(id, record_of(self.state, id).attempts + 1)
        wanted = {"turns", *getattr(agent, "reports", ())}
        why = "" if till is None else spent_up(till.accounts(), wanted)
        return BudgetExhausted(why) if why else None

    def _messages(self) -> list[object]:
        """Receive the new messages."""
        messages: list[object] = []
        while len(messages) < _MAX_MESSAGES:
            try:
                messages.append(self.receive_nowait())
            except trio.WouldBlock:
                break
        return messages

    async def _look_out(self) -> None:
        """Wait until a result arrives, or it is time to check for messages."""
        with trio.move_on_after(_LOOK_S):
            await self._workers.wait()

    def _check_begun(self) -> None:
        if not self._plan.workspace.is_dir():
            raise PipelineInvalid(
                f"workspace {str(self._plan.workspace)!r} is not a directory: expected the project's root; create it"
            )
        if any(task.status is TaskStatus.IN_PROGRESS and task.claim is None for task in self.state.tasks):
            raise PipelineInvalid("a task is in progress without a claim: the record was changed from outside")


def _call_key(claim: Claim) -> str:
    """Return the key of the call of an agent for a claim."""
    return f"{claim.task_id} {claim.nonce}"


def _check_counts(**counts: int) -> None:
    for name, count in counts.items():
        if isinstance(count, bool) or not isinstance(cast(object, count), int) or count < 1:
            raise PipelineInvalid(f"{name}: expected a whole number from 1 up, was {count!r}; correct it")


def _check_limits(**limits: float) -> None:
    for name, limit_s in limits.items():
        if isinstance(limit_s, bool) or not limit_s > 0:
            raise PipelineInvalid(f"{name}: expected seconds above 0, was {limit_s!r}; correct it")
