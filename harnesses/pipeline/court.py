"""Judges what was built under a claim: our own eyes first, then a validator in a copy; the verdict is code's.

    contract ── complete? files there? of this claim? ──► artifacts ── checks of their stages ──► commands, run in a copy
        any of these failed: the validator is not asked            all passed: the validator reads, runs, and says
                                                            └─► evidence by grade, bound to content ─► verdict

The laws: only what is in the copy is judged, and the evidence is bound to that content; a validator that has changed its copy,
is the builder, or speaks of another claim has said nothing; nothing passes because it could not be looked at.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path

import trio
from attrs import evolve, frozen

from harnesses.agents.command import CommandAgent
from harnesses.features.feature import Feature
from harnesses.features.texts import one_line, storable
from harnesses.governance.claiming import Claim
from harnesses.governance.completeness import completeness, file_checks, independent
from harnesses.governance.contract_nouns import BuilderContract, Check, ValidatorContract, failed, passed
from harnesses.governance.contracts import read_builder, read_validator
from harnesses.governance.errors import ContractError, EvidenceError, NotClaimed
from harnesses.governance.evidence import MAX_EVIDENCE, Bound, Evidence, EvidenceStatus, bind, reported
from harnesses.governance.grades import Grade
from harnesses.governance.guardrails import Guardrails
from harnesses.governance.judging import judge, unreadable
from harnesses.governance.policy import EvidencePolicy
from harnesses.governance.tally import Tally, telemetry_checks
from harnesses.pipeline.assignments import Inspection, PipelineAgent, contract_in
from harnesses.pipeline.ids import StageId
from harnesses.pipeline.material import MAX_ARTIFACT_BYTES, MAX_FILE_BYTES, MAX_FILES, Material, read_artifact
from harnesses.pipeline.prompts import artifact_path, own_artifact_path, validator_prompt
from harnesses.pipeline.readonly import Copy, ReadOnly, Seen, begin_copy, differences, digests, remove_copy, run_seen
from harnesses.pipeline.record import Built, PipelineState, TaskNote
from harnesses.pipeline.requests import requested
from harnesses.pipeline.stage import Stage
from harnesses.pipeline.stage_checks import looked_at
from harnesses.pipeline.threads import aside
from harnesses.secrets import redact, redact_text

ACTION = "action"
"""The kind of evidence of a deed."""
MAX_REPORTED = 100
"""Entries of what a builder reports; the rest is in its contract."""
BY_RULES = "rules"
"""Who judges where no validator was asked."""
AskValidator = Callable[[Inspection], Awaitable[object]]


@frozen(kw_only=True)
class Case:
    """What is judged."""

    state: PipelineState
    task: TaskNote
    claim: Claim
    built: Built
    builder: PipelineAgent
    agent: str
    """What the builder is known by."""


@frozen(kw_only=True)
class Judged:
    """What came of it."""

    verdict: ValidatorContract
    evidence: tuple[Evidence, ...]
    seen: tuple[Seen, ...] = ()


@frozen(kw_only=True)
class Court:
    """Judges cases of one pipeline."""

    workspace: Path
    stages: Mapping[StageId, Stage]
    guardrails: Guardrails
    policy: EvidencePolicy
    limit_s: float
    """Of a command."""
    unseen: tuple[str, ...] = ()
    """Paths below the workspace that are not copied."""

    async def hear(
        self, case: Case, validator: PipelineAgent | None, ask: AskValidator | None, now: Callable[[], datetime]
    ) -> Judged:
        """Return the verdict on a case.

        Args:
            ask: has the validator asked; what it raises is a failed check.
        """
        folder = Path(await aside(tempfile.mkdtemp, prefix="pipeline-"))
        try:
            copy = await aside(begin_copy, self.workspace, folder, self._unseen(case))
            return await self._hear(case, validator, ask, now, copy)
        finally:
            with trio.CancelScope(shield=True):
                await aside(remove_copy, folder)

    def _unseen(self, case: Case) -> tuple[str, ...]:
        """Return what is not copied: the views of the run folder, which change while others work."""
        folder = case.state.run_folder
        return (*self.unseen, *(f"{folder}/{name}" for name in ("tasks", "events.jsonl", "evidence.jsonl", "manifest.json")))

    async def _hear(
        self,
        case: Case,
        validator: PipelineAgent | None,
        ask: AskValidator | None,
        now: Callable[[], datetime],
        copy: Copy,
    ) -> Judged:
        contract, checks = contract_of(case)
        ledger = (
            list[Evidence]()
            if contract is None
            else list(reported(contract, attempt=case.claim.attempt, ts=now()))[:MAX_REPORTED]
        )
        seen: list[Seen] = []
        said: ValidatorContract | None = None
        if contract is not None:
            mine = partial(_entry, case, now)
            looked, subject, made = await aside(self._look, case, contract, copy.root)
            checks += looked
            ledger += _observed(mine, case.task, made, subject, good=all(check.ok for check in looked))
            seen += await self._commands(case, copy)
            if all(check.ok for check in checks) and all(one.good for one in seen):
                said, trouble = await self._validator(case, contract, validator, ask, copy, seen)
                checks += trouble
            checks += await self._untouched(copy, subject)
            checks += [_of_command(one) for one in seen]
            ledger += _rerun(mine, case.task, seen, subject)
            if said is not None:
                ledger.append(_of_validator(mine, said, subject))
        evidence = self._evidence(case, contract, ledger) if self.guardrails.require_evidence_for_pass else None
        verdict = self._verdict(case, contract, checks, evidence, said)
        return Judged(verdict=verdict, evidence=tuple(ledger), seen=tuple(seen))

    def _verdict(
        self,
        case: Case,
        contract: BuilderContract | None,
        checks: Sequence[Check],
        evidence: Sequence[Check] | None,
        said: ValidatorContract | None,
    ) -> ValidatorContract:
        """Return the verdict; one that has to be refused as of another claim is a failed check."""
        needed = self.guardrails.require_validator_contract
        rules = partial(judge, contract_needed=self.guardrails.require_builder_contract, validator_needed=needed)
        try:
            return rules(case.claim, contract, checks, evidence, validator=said or BY_RULES)
        except NotClaimed as error:
            refused = failed("contract_claimed", one_line(str(error), 300))
            return rules(case.claim, None, [*checks, refused], evidence, validator=BY_RULES)

    # our own eyes

    def _look(
        self, case: Case, contract: BuilderContract, root: Path
    ) -> tuple[list[Check], tuple[Bound, ...], list[tuple[StageId, str, list[Check]]]]:
        """Look at what a contract speaks of, in the copy; return the checks, the content, and the checks of each stage."""
        task = case.task
        checks = [*completeness(contract, stages=[str(id) for id in task.stages]), *file_checks(contract, root)]
        checks += telemetry_checks(contract, self.guardrails, _tally(case.built, self.guardrails))
        checks += [failed("actions", problem) for problem in requested(contract)[1]]
        files = _read_files(root, contract.files_modified)
        made: list[tuple[StageId, str, list[Check]]] = []
        for id in task.stages:
            path = artifact_path(case.state, id)
            material = _material(root, path, id, contract, files)
            found = [evolve(one, name=f"{id}:{one.name}") for one in looked_at(material, self.stages[id].checks)]
            made.append((id, path, found))
            checks += found
        if task.artifact:
            material = _material(root, own_artifact_path(case.state, task), task.stages[0], contract, files)
            checks += [evolve(one, name=f"task:{one.name}") for one in looked_at(material, None)]
        subject, problem = _bound(root, _spoken_of(case, contract))
        checks += problem
        checks.append(_as_handed_in(case.built, subject))
        return checks, subject, made

    async def _commands(self, case: Case, copy: Copy) -> list[Seen]:
        """Run the commands of the stages in the copy."""
        seen: list[Seen] = []
        for id in case.task.stages:
            if command := self.stages[id].command:
                name = f"stage-{id}"
                seen.append(await run_seen(copy, command, limit_s=self.limit_s, name=name, stage=str(id)))
        return seen

    async def _untouched(self, copy: Copy, subject: Sequence[Bound]) -> list[Check]:
        """Look whether the copy is what it was, and the files that were judged are what the workspace has."""
        changed = await aside(copy.changed)
        if changed:
            return [
                failed("copy_unchanged", f"the copy that was judged has been changed: {', '.join(changed[:5])}; it is void")
            ]
        return [passed("copy_unchanged", f"{len(subject)} files are what they were")]

    # the validator

    async def _validator(
        self,
        case: Case,
        contract: BuilderContract,
        validator: PipelineAgent | None,
        ask: AskValidator | None,
        copy: Copy,
        seen: list[Seen],
    ) -> tuple[ValidatorContract | None, list[Check]]:
        """Ask the validator; return what it says, if that counts, and what was seen of it."""
        if validator is None or ask is None:
            return None, []
        apart = independent(case.builder, validator)
        if not apart.ok:
            return None, [apart]
        own = await aside(copy.another, "own") if isinstance(validator, CommandAgent) else None
        try:
            answer = await ask(self._inspection(case, contract, validator, copy, seen, own))
            said = _read_verdict(answer, case, validator)
        except ContractError as error:
            return None, [evolve(one, name="validator_contract") for one in unreadable(error)]
        if own is not None and (changed := await aside(_changed_since, copy, own)):
            return None, [
                failed("validator_read_only", f"the validator has changed {', '.join(changed[:5])}: its word is void")
            ]
        return said, [independent(contract, said)]

    def _inspection(
        self,
        case: Case,
        contract: BuilderContract,
        validator: PipelineAgent,
        copy: Copy,
        seen: list[Seen],
        own: Copy | None,
    ) -> Inspection:
        state, task = case.state, case.task
        return Inspection(
            feature=Feature(str(task.id), task.title),
            turn=case.claim.attempt,
            prompt=validator_prompt(state, task, case.claim, case.built.contract, validator.name),
            objective=state.goal,
            directory=None if own is None else str(own.root),
            task=task,
            claim=case.claim,
            validator=validator.name,
            contract=contract,
            artifacts={str(id): artifact_path(state, id) for id in task.stages},
            project=ReadOnly(copy, seen.append, limit_s=self.limit_s),
        )

    def _evidence(self, case: Case, contract: BuilderContract | None, ledger: Sequence[Evidence]) -> tuple[Check, ...]:
        """Return whether the evidence suffices; what deeds will show is not asked for yet."""
        covering = () if contract is None else tuple(dict.fromkeys(_spoken_of(case, contract)))
        policy = evolve(self.policy, by_kind={kind: one for kind, one in self.policy.by_kind.items() if kind != ACTION})
        return policy.met_by(
            ledger,
            self.workspace,
            stages=[str(id) for id in case.task.stages],
            attempt=case.claim.attempt,
            covering=covering,
        )


def contract_of(case: Case) -> tuple[BuilderContract | None, list[Check]]:
    """Return the contract that was handed in, and why it is none."""
    built = case.built
    if built.failure:
        return None, [failed("builder_finished", built.failure)]
    if built.problems:
        return None, [failed("builder_contract_json", problem) for problem in built.problems]
    if not built.contract:
        return None, []
    try:
        contract = read_builder(built.contract, task_id=str(case.task.id), agent=case.agent)
    except ContractError as error:
        return None, list(unreadable(error))
    folder = f"{case.state.run_folder}/tasks/"
    # A view of ours, which is written anew: it is handed in, and not part of the work.
    files = tuple(path for path in contract.files_modified if not path.removeprefix("./").startswith(folder))
    return evolve(contract, files_modified=files), []


def _spoken_of(case: Case, contract: BuilderContract) -> tuple[str, ...]:
    """Return the files that a contract speaks of, by their plain names."""
    own = (own_artifact_path(case.state, case.task),) if case.task.artifact else ()
    return tuple(
        dict.fromkeys(
            _plain_name(path)
            for path in (*(artifact_path(case.state, id) for id in case.task.stages), *own, *contract.files_modified)
        )
    )


def _plain_name(path: str) -> str:
    return os.path.normpath(path)


def _tally(built: Built, guardrails: Guardrails) -> Tally:
    """Return what was counted while it was built."""
    tally = Tally(guardrails)
    tally.tool_calls, tally.messages = built.tool_calls or 0, built.messages or 0
    tally.is_counting = built.tool_calls is not None
    return tally


def _bound(root: Path, paths: Sequence[str]) -> tuple[tuple[Bound, ...], list[Check]]:
    try:
        return bind(root, paths), []
    except EvidenceError as error:
        return (), [failed("content_bound", one_line(str(error), 300))]


def _as_handed_in(built: Built, subject: Sequence[Bound]) -> Check:
    """Return whether the files are still what they were when they were handed in."""
    then = {one.path: one.sha256 for one in built.subject}
    other = [one.path for one in subject if then.get(one.path, one.sha256) != one.sha256]
    if other:
        return failed("content_as_handed_in", f"changed since it was handed in: {', '.join(other[:5])}; hand in what is there")
    return passed("content_as_handed_in", f"{len(subject)} files")


def _read_files(root: Path, paths: Sequence[str]) -> dict[str, str]:
    """Return the text of the first files, the first part of each; one that is not there, or leads out, is left out."""
    within = root.resolve()
    found: dict[str, str] = {}
    for path in paths[:MAX_FILES]:
        try:
            place = (root / path).resolve()
            if place.is_relative_to(within) and place.is_file():
                with place.open("rb") as file:
                    found[path] = file.read(MAX_FILE_BYTES).decode("utf-8", errors="replace")
        except (OSError, ValueError):
            continue
    return found


def _material(root: Path, path: str, id: StageId, contract: BuilderContract, files: Mapping[str, str]) -> Material:
    content = read_below(root, path, MAX_ARTIFACT_BYTES + 1)
    artifact, problem = read_artifact(path, content)
    return Material(
        stage=str(id),
        path=path,
        artifact=artifact,
        problem=problem,
        tests_run=contract.tests_run,
        files_modified=contract.files_modified,
        files=files,
    )


def read_below(root: Path, path: str, most: int) -> bytes | None:
    """Return the first bytes of a file below a directory; None if it is none, or a link."""
    try:
        place = root / path
        if place.resolve() != root.resolve() / path or not place.is_file():
            return None
        with place.open("rb") as file:
            return file.read(most)
    except (OSError, ValueError):
        return None


def _read_verdict(answer: object, case: Case, validator: PipelineAgent) -> ValidatorContract:
    found = contract_in(answer, None)
    if found is None:
        raise ContractError(f"validator: expected a contract in JSON, was {one_line(repr(answer), 120)}; answer in that form")
    data = redact(json.loads(found) if isinstance(found, str) else dict(found)) if _is_json(found) else found
    return read_validator(data, task_id=str(case.task.id))


def _is_json(found: Mapping[str, object] | str) -> bool:
    try:
        return not isinstance(found, str) or isinstance(json.loads(found), dict)
    except (ValueError, RecursionError):
        return False


def _changed_since(copy: Copy, own: Copy) -> tuple[str, ...]:
    return differences(digests(copy.root), digests(own.root))


# evidence


def _entry(
    case: Case,
    now: Callable[[], datetime],
    kind: str,
    good: bool,
    said: str,
    grade: Grade,
    subject: Sequence[Bound],
    stage: str = "",
) -> Evidence:
    return Evidence(
        ts=now().isoformat(),
        task_id=str(case.task.id),
        kind=kind,
        status=EvidenceStatus.PASS if good else EvidenceStatus.FAIL,
        evidence=redact_text(storable(said).replace("\0", ""))[:MAX_EVIDENCE] or "nothing",
        grade=grade,
        attempt=case.claim.attempt,
        stage_id=stage,
        subject=tuple(subject),
    )


def _observed(
    mine: Callable[..., Evidence],
    task: TaskNote,
    made: Sequence[tuple[StageId, str, list[Check]]],
    subject: Sequence[Bound],
    *,
    good: bool,
) -> list[Evidence]:
    """Return what we have seen ourselves: each artifact, and all that was looked at."""
    entries: list[Evidence] = []
    for id, path, checks in made:
        wrong = [f"{check.name}: {check.evidence}" for check in checks if not check.ok]
        said = f"{path}: {'; '.join(wrong)[:1000]}" if wrong else f"{path}: {len(checks)} of {len(checks)} checks passed"
        own = [one for one in subject if one.path == path]
        entries.append(mine("artifact", not wrong and bool(own), said, Grade.OBSERVED, own, str(id)))
    entries.append(mine("files", good, f"{len(subject)} files looked at in a copy", Grade.OBSERVED, subject))
    return entries


def _rerun(mine: Callable[..., Evidence], task: TaskNote, seen: Sequence[Seen], subject: Sequence[Bound]) -> list[Evidence]:
    """Return what was run by us: for the stage that it belongs to, else for all of the task."""
    return [
        mine("command", one.good, f"{one.words()}\n{one.tail}".strip(), Grade.RERUN, subject, stage)
        for one in seen
        for stage in ([one.stage] if one.stage else [str(id) for id in task.stages])
    ]


def _of_command(one: Seen) -> Check:
    return passed("command", one.words()) if one.good else failed("command", f"{one.words()}: {one_line(one.tail[-200:])}")


def _of_validator(mine: Callable[..., Evidence], said: ValidatorContract, subject: Sequence[Bound]) -> Evidence:
    good = said.status.value == "PASS"
    words = f"{said.validator[:100]} says {said.status.value}; tasks/{said.task_id}/validation.json"
    return mine("validator", good, redact_text(words), Grade.OBSERVED, subject)
