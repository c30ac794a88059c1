"""What goes on beside the loop of a pipeline: builders build and are judged, several at a time.

The laws: whoever works here changes no state: what comes of it is handed to the loop; and whatever an agent raises is a result
like any other, unless it is an order to the whole harness (a budget that is spent, a person who has to decide).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias, cast

import trio
from attrs import evolve, frozen

from harnesses.features.feature import Feature
from harnesses.features.texts import storable
from harnesses.features.turn import order_in, words_of
from harnesses.governance.binding import Bound, bind
from harnesses.governance.claiming import Claim
from harnesses.governance.contract_fields import MAX_DOCUMENT
from harnesses.governance.contracts import read_builder
from harnesses.governance.counting import limited
from harnesses.governance.errors import ContractError, EvidenceError
from harnesses.governance.tally import AgentStopped, Tally, tallying
from harnesses.pipeline.assignments import Inspection, StageWork, as_text, contract_in
from harnesses.pipeline.court import Judged
from harnesses.pipeline.folder_files import remove_file
from harnesses.pipeline.ids import TaskId
from harnesses.pipeline.looking import Case, read_below
from harnesses.pipeline.material import MAX_ARTIFACT_BYTES
from harnesses.pipeline.parts import PipelineParts
from harnesses.pipeline.prompts import artifact_path, own_artifact_path
from harnesses.pipeline.record import MAX_CONTRACT, MAX_KEPT, Built, Kept, PipelineState, TaskNote
from harnesses.secrets import redact, redact_text
from harnesses.threads import aside

MAX_NONCE = 200
_WORDS = 1_000
"""Characters of what an agent has raised that are kept."""


@frozen
class Handed:
    """An agent has handed in its work, or failed."""

    task: TaskId
    nonce: str
    built: Built


@frozen
class Heard:
    """It was judged."""

    task: TaskId
    nonce: str
    judged: Judged | None
    problem: str = ""
    """Why it could not be."""


@frozen
class Halted:
    """Something that the whole harness has to obey."""

    task: TaskId
    error: Exception


Result: TypeAlias = Handed | Heard | Halted


class PipelineWork(PipelineParts):
    """The tasks beside the loop."""

    _results: trio.MemorySendChannel[Result]
    _bell: trio.Event

    def _hand(self, result: Result) -> None:
        """Hand something to the loop: each task beside it does so once, so there is room."""
        self._results.send_nowait(result)
        self._bell.set()

    async def _build(self, id: TaskId, claim: Claim) -> None:
        """Have an agent work under a claim, and hand in what comes of it."""
        state, note = self.state, self._note(id)
        try:
            built = await self._built(state, note, claim)
        except Exception as error:
            if (order := order_in(error)) is not None:
                self._hand(Halted(id, order))
                return
            built = Built(contract="", failure=_said(error))
        self._hand(Handed(id, claim.nonce, built))

    async def _built(self, state: PipelineState, note: TaskNote, claim: Claim) -> Built:
        agent = self._builder(note.id, claim.attempt)
        # An older contract is none of this attempt's.
        await aside(remove_file, self._workspace, f"{state.run_folder}/tasks/{note.id}/builder.json")
        answer: object = None
        with tallying(self._guardrails) as tally:
            try:
                with trio.move_on_after(self._agent_limit_s) as limit:
                    answer = await self.run_agent(limited(agent, self._guardrails), self._assignment(state, note, claim))
            except AgentStopped as stopped:
                return _counted(Built(contract="", failure=_said(stopped), finding=stopped.finding), tally)
        if limit.cancelled_caught:
            cut = f"the agent was cut off: expected an end within {self._agent_limit_s:g} s"
            return _counted(Built(contract="", failure=cut), tally)
        return _counted(await aside(hand_in, self._workspace, state, note, self._agent_name(note), answer), tally)

    def _assignment(self, state: PipelineState, note: TaskNote, claim: Claim) -> StageWork:
        record, folder = self._record(note.id), self._workspace / state.run_folder
        return StageWork(
            feature=Feature(str(note.id), note.title, steps=note.acceptance_criteria),
            turn=claim.attempt,
            prompt=record.prompt,
            objective=state.goal,
            last_failure="\n".join(record.failed) or None,
            directory=str(self._workspace),
            readable=(str(folder),),
            writable=(str(folder / "artifacts"), str(folder / "tasks" / str(note.id))),
            task=note,
            claim=claim,
            agent=self._agent_name(note),
            artifacts={str(id): artifact_path(state, id) for id in note.stages},
            own_artifact=own_artifact_path(state, note) if note.artifact else "",
            builder_json=f"{state.run_folder}/tasks/{note.id}/builder.json",
        )

    async def _judge(self, id: TaskId, claim: Claim, built: Built) -> None:
        """Have what was handed in judged."""
        state, note = self.state, self._note(id)
        builder = self._builder(id, claim.attempt)
        case = Case(state=state, task=note, claim=claim, built=built, builder=builder, agent=self._agent_name(note))
        validator = self._judges[id]

        async def ask(inspection: Inspection) -> object:
            assert validator is not None
            return await self._asked(validator, inspection)

        try:
            judged = await self._court.hear(case, validator, ask if validator is not None else None, self.now)
        except Exception as error:
            order = order_in(error)
            result: Result = Halted(id, order) if order is not None else Heard(id, claim.nonce, None, _said(error))
            self._hand(result)
            return
        self._hand(Heard(id, claim.nonce, judged))

    async def _asked(self, validator: Any, inspection: Inspection) -> object:
        """Return what a validator answers; what it raises is its answer too, and no contract."""
        answer: object = f"the validator was cut off: expected an end within {self._agent_limit_s:g} s"
        try:
            with trio.move_on_after(self._agent_limit_s):
                answer = await self.run_agent(validator, inspection)
        except Exception as error:
            if order_in(error) is not None:
                raise
            return f"the validator raised {_said(error)}"
        return answer


def hand_in(workspace: Path, state: PipelineState, note: TaskNote, agent: str, answer: object) -> Built:
    """Return what an agent has handed in: its contract as it is kept, and the content that it speaks of."""
    left = read_below(workspace, f"{state.run_folder}/tasks/{note.id}/builder.json", MAX_DOCUMENT + 1)
    found = contract_in(answer, left)
    if found is None:
        return Built(contract="", problems=("nothing was handed in: expected a contract, as the answer or in builder.json",))
    kept = tuple(one for path in _artifacts(state, note) if (one := _kept(workspace, state.run_folder, path)) is not None)
    try:
        read_builder(found, task_id=str(note.id), agent=agent)
    except ContractError as error:
        return Built(contract="", problems=tuple(redact_text(one) for one in error.problems[:20]), kept=kept)
    data = _object(found)
    text = as_text(data)
    if len(text) > MAX_CONTRACT:
        return Built(
            contract="", problems=(f"builder: expected at most {MAX_CONTRACT} characters, was {len(text)}",), kept=kept
        )
    return Built(contract=text + "\n", subject=_subject(workspace, state, note, data), kept=kept)


def _object(found: Mapping[str, object] | str) -> dict[str, object]:
    """Return a contract that can be read as plain data without secrets."""
    data: dict[str, object] = json.loads(found if isinstance(found, str) else json.dumps(dict(found)))
    nonce = data.get("nonce")
    # It may look like a key, and is none: it is ours.
    return redact(data) | ({"nonce": nonce} if isinstance(nonce, str) and len(nonce) <= MAX_NONCE else {})


def _artifacts(state: PipelineState, note: TaskNote) -> tuple[str, ...]:
    own = (own_artifact_path(state, note),) if note.artifact else ()
    return (*(artifact_path(state, id) for id in note.stages), *own)


def _kept(workspace: Path, folder: str, path: str) -> Kept | None:
    content = read_below(workspace, path, MAX_ARTIFACT_BYTES + 1)
    if content is None:
        return None
    bound = _bound(workspace, (path,))
    try:
        text: str | None = redact_text(content.decode("utf-8"))
    except UnicodeDecodeError:
        text = None
    if text is not None and (len(text) > MAX_KEPT or "\0" in text):
        text = None
    return Kept(path=path.removeprefix(f"{folder}/"), sha256=bound[0].sha256, text=text) if bound else None


def _subject(workspace: Path, state: PipelineState, note: TaskNote, data: Mapping[str, object]) -> tuple[Bound, ...]:
    """Return the files that a contract speaks of, as they are; those that can not be looked at are left to the judge."""
    named: Any = data.get("files_modified")
    paths = [path for path in cast("list[object]", named) if isinstance(path, str)] if isinstance(named, list) else []
    return tuple(one for path in (*_artifacts(state, note), *paths[:10_000]) for one in _bound(workspace, (path,)))


def _bound(workspace: Path, paths: tuple[str, ...]) -> tuple[Bound, ...]:
    try:
        return bind(workspace, paths)
    except EvidenceError:
        return ()


def _counted(built: Built, tally: Tally) -> Built:
    """Return what was handed in with what was counted."""
    return evolve(built, tool_calls=tally.tool_calls, messages=tally.messages) if tally.is_counting else built


def _said(error: Exception) -> str:
    return redact_text(storable(words_of(error)).replace("\0", ""))[:_WORDS]
