"""`PipelineHarness`: stages that build on each other, worked by agents, judged by others, passed by evidence.

    plan ─► claim ─► agent works ─► build ─► looked at, run, judged in a copy ─► judge ─► (deeds, approved) ─► PASS
             │ on record before any work       │ on record before it is judged    │ proof and pass are one commit
             └ killed: the attempt counts      └ killed: it is judged             └ FAIL: what was wrong is told to the next

The laws:

    what is next is decided from the state, and a claim is on record before its work begins; so a program that was killed goes
    on, and no attempt is lost or had twice
    a task passes by a verdict of code, on a contract of the claim that is open, with evidence of the grade that is asked for
    what does not depend on each other goes on side by side, and what becomes of one harms no other
    while something waits for a person's approval nothing else of the pipeline is going on: what can go on without goes first
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial

import trio

from harnesses.charging import spent_up
from harnesses.errors import BudgetExhausted, HarnessMisuse, Stopping, Waiting
from harnesses.features.texts import one_line
from harnesses.governance.retry import TaskStatus
from harnesses.pipeline.changes import built_of
from harnesses.pipeline.errors import PipelineInvalid
from harnesses.pipeline.ids import TaskId
from harnesses.pipeline.planning import Act, Done, Hold, Judge, Move, Reclaim, Rest, Start, Stuck, next_move
from harnesses.pipeline.record import MoveKind
from harnesses.pipeline.steps import PipelineSteps, stale_tasks
from harnesses.pipeline.telling import PipelineStep
from harnesses.pipeline.work import Halted, Handed, Heard, Result

_LOOK_S = 0.25
"""While agents work, messages are looked for so often."""
_PASSES = 4
"""Passes of the scheduler in which those who end at one moment may say so."""
_GRACE = 0.8
"""The part of the grace period of a stop in which what is under way may come to its end."""


class PipelineHarness(PipelineSteps):
    """Works stages, in tasks, until each is proven; see the module.

    It is complete when every task passes and all that its proofs speak of is what it was. If what is left needs a person, it
    waits: `orchestrator send NAME '{"unblock": "task"}'`, see `orders`.

    Args:
        stages: what has to come to be; the default are the 15 of software development.
        tasks: what is claimed as one; the default is a task for each stage, and `PLAN_TASKS` are another way.
        agents: who builds: one for all, or by task id, by what a stage's agent is known by, by "domain:" and one of the
            task's domains, or by "*". An agent is handed a `StageWork`, and answers with its contract, or leaves it in
            `builder.json`; a `CommandAgent` will do.
        validators: who judges, likewise; handed an `Inspection`, which can read a copy, and nothing else. None needs
            `Guardrails(require_validator_contract=False)`.
        workspace: the project's root. Agents that work at a time share it.
        goal: what the whole is for.
        run_folder: where the run folder is, below the workspace; the default is `.pipeline/runs/<run id>`.
        guardrails: limits; what agents are told of them too.
        evidence_policy: which evidence a pass needs; the default is that we have seen it.
        memory: recalls earlier work, and is told of what has passed.
        mode: "express" asks nobody before tasks that have a gate; what is dangerous needs an approval in any case.
        max_parallel: how many tasks are worked or judged at a time.
        agent_limit_s: seconds that an agent may take for one attempt; a validator too.
        command_limit_s: seconds that a command may take that is run to judge.
        unseen: paths below the workspace that are not copied for validators: large, and not needed.
        max_copy_bytes: how large a copy may be, by what its files say that they are; a larger workspace is a failed check.
        nonce: gives what tells an attempt from every other.

    Raises:
        PipelineInvalid: stages, tasks or agents are such that they can not be worked.
    """

    def is_complete(self) -> bool:
        state = self.state
        if not state.tasks or self._unpassed() or self._unremembered():
            return False
        if stale_tasks(state, self._workspace):
            return False
        # Here and now: a program that is killed after its last step does not run the harness again.
        self._show_all()
        return True

    def reopens(self) -> bool:
        """Return whether something that was proven is another now."""
        return not self.is_complete()

    async def execute(self) -> AsyncIterator[PipelineStep]:
        self._working: dict[TaskId, str] = {}
        self._own: set[str] = set()
        self._results, self._news = trio.open_memory_channel[Result](self._most)
        self._bell = trio.Event()
        self._waiting: list[Result] = []
        self._halted: Exception | None = None
        self._check_workspace()
        await self._open_folder()
        ended: Exception | Stopping | None = None
        try:
            async with trio.open_nursery() as nursery:
                while True:
                    try:
                        made = await self._next(nursery)
                    except (Exception, Stopping) as error:
                        # Raised outside of the nursery, which would wrap it.
                        ended = error
                        made = await self._last_words() if isinstance(error, Stopping) else None
                    if made is None:
                        break
                    yield made
                    self._settle()
                    await self._show()
                    if ended is not None:
                        break
                nursery.cancel_scope.cancel()
        finally:
            await self._leave()
        if ended is not None:
            raise ended

    async def _next(self, nursery: trio.Nursery) -> PipelineStep | None:
        """Make the next step, having put to work what can be; None at the end."""
        if not self.state.run_id:
            return self._planned()
        self._same_plan()
        while True:
            if (begun := self._begun_deed()) is not None:
                return await self._acted(begun)
            self._put_to_work(nursery)
            if (result := await self._arrived()) is not None:
                if not isinstance(result, Halted):
                    return self._taken(result)
                # Its claim is given back; the others come to their end, and nothing new begins.
                self._own.discard(self._working.pop(result.task, ""))
                self._halted = self._halted or result.error
            if self._halted is not None and not self._working:
                raise self._halted
            most = self._most if self._halted is None else 0
            move = next_move(self.state, self._guardrails, working=self._working.keys(), own=self._own, most=most)
            if not _parks(move) and (orders := self._orders()):
                return self._followed(orders)
            if isinstance(move, Start | Act | Done) and (made := await self._set_back()) is not None:
                return made
            if pending := self._unremembered():
                return await self._remember(pending)
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
                case _:
                    if (made := await self._step(nursery, move)) is not None:
                        return made

    async def _step(self, nursery: trio.Nursery, move: Move) -> PipelineStep | None:
        """Make the step that a move is; None if it is none, but something begins."""
        match move:
            case Reclaim(task=id):
                return self._reclaimed(id)
            case Judge(task=id):
                record = self._record(id)
                assert record.claim is not None
                self._begin(id, record.claim.nonce)
                nursery.start_soon(self._judge, id, record.claim, built_of(record))
                return None
            case Hold():
                return self._held(move)
            case Start(task=id, gated=gated):
                made = await (self._agreed(id) if gated else self._claimed(id))
                if made.input.kind is MoveKind.CLAIM and (claim := self._record(id).claim) is not None:
                    self._own.add(claim.nonce)
                return made
            case Act(task=id):
                return await self._acted(id)
            case _:
                raise HarnessMisuse(f"{self._where()}: {move!r} is no step")

    def _spent(self, id: TaskId) -> BudgetExhausted | None:
        """Return why no attempt at a task is begun: nothing is left for its agent, and the attempt would count."""
        till = self._surroundings("claim").till
        agent: object = self._builder(id, self._record(id).attempts + 1)
        wanted = {"turns", *getattr(agent, "reports", ())}
        why = "" if till is None else spent_up(till.accounts(), wanted)
        return BudgetExhausted(why) if why else None

    # what goes on beside

    def _put_to_work(self, nursery: trio.Nursery) -> None:
        """Have the agents begin whose claims are on record."""
        for record in self.state.tasks:
            claim = record.claim
            if claim is None or record.built is not None or record.id in self._working or claim.nonce not in self._own:
                continue
            self._begin(record.id, claim.nonce)
            nursery.start_soon(partial(self._build, record.id, claim))

    def _begin(self, id: TaskId, nonce: str) -> None:
        self._working[id] = nonce

    async def _arrived(self) -> Result | None:
        """Return what has come of somebody's work, if anything has; of several, that of the task that the plan has first."""
        self._bell = trio.Event()
        for _ in range(_PASSES):
            while self._news.statistics().current_buffer_used:
                self._waiting.append(self._news.receive_nowait())
            if not self._waiting:
                return None
            # Those that end at the same moment get to say so: then who is first is no matter of chance.
            await trio.lowlevel.checkpoint()
        order = [task.id for task in self.state.tasks]
        self._waiting.sort(key=lambda result: order.index(result.task))
        return self._waiting.pop(0)

    async def _look_out(self) -> None:
        """Wait until something comes of somebody's work, or it is time to look for messages."""
        with trio.move_on_after(_LOOK_S):
            await self._bell.wait()

    async def _last_words(self) -> PipelineStep | None:
        """Take in what comes to its end within the grace period of a stop, all of it in one step; None if nothing does."""
        made: PipelineStep | None = None
        with trio.move_on_after(self._surroundings("stop").control.grace_s * _GRACE):
            while self._working:
                result = await self._arrived()
                if result is None:
                    await self._bell.wait()
                elif isinstance(result, Halted):
                    self._working.pop(result.task, "")
                else:
                    made = self._taken(result)
        return made

    def _taken(self, result: Handed | Heard) -> PipelineStep:
        """Return the step of what has come of somebody's work."""
        nonce = self._working.pop(result.task, "")
        claim = self._record(result.task).claim
        if claim is None or claim.nonce != result.nonce or nonce != result.nonce:
            raise HarnessMisuse(f"{self._where()}: task {result.task}: what came is of a claim that is not open")
        match result:
            case Handed(task=id, built=built):
                return self._built_by(id, built)
            case Heard(task=id, judged=judged, problem=problem):
                return self._heard(id, judged, problem)

    def _begun_deed(self) -> TaskId | None:
        """Return the task that a deed on record of the step being made is for: it is taken up before anything else."""
        for record in self.state.tasks:
            key = f"act {record.id} {record.attempts} {record.done + 1}"
            if record.proven and any(effect.key == key for effect in self.effects):
                return record.id
        return None

    def _check_workspace(self) -> None:
        if not self._workspace.is_dir():
            raise PipelineInvalid(f"workspace {str(self._workspace)!r} is no directory: expected the project's root; make it")
        if any(task.status is TaskStatus.IN_PROGRESS and task.claim is None for task in self.state.tasks):
            raise PipelineInvalid("a task is in progress without a claim: the record was changed from outside")


def _parks(move: Move) -> bool:
    """Return whether a move may wait for a person. Orders are followed after it: before it, it would have to be asked anew."""
    return isinstance(move, Act) or (isinstance(move, Start) and move.gated)
