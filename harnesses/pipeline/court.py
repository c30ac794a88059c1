"""Judges what was built under a claim: our own eyes first, then a validator in a copy; the verdict is code's.

    contract ── complete? files there? of this claim? ──► artifacts ── checks of their stages ──► commands, run in a copy
        any of these failed: the validator is not asked            all passed: the validator reads, runs, and says
                                                            └─► evidence by grade, bound to content ─► verdict

The laws: only what is in the copy is judged, and the evidence is bound to that content; a validator that has changed its copy,
is the builder, or speaks of another claim has said nothing; nothing passes because it could not be looked at.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path

import trio
from attrs import evolve, frozen

from harnesses.agents.command import CommandAgent
from harnesses.features.feature import Feature
from harnesses.features.texts import one_line
from harnesses.governance.claiming import check_claimed
from harnesses.governance.completeness import completeness, file_checks, independent
from harnesses.governance.contract_nouns import BuilderContract, Check, ValidatorContract, failed, passed
from harnesses.governance.contracts import read_validator
from harnesses.governance.errors import ContractError, NotClaimed
from harnesses.governance.evidence import Bound, Evidence, reported
from harnesses.governance.guardrails import Guardrails
from harnesses.governance.judging import judge, unreadable
from harnesses.governance.policy import EvidencePolicy
from harnesses.governance.tally import telemetry_checks
from harnesses.pipeline.assignments import Inspection, PipelineAgent, contract_in
from harnesses.pipeline.copies import MAX_COPY_BYTES, Copy, begin_copy, differences, digests, remove_copy
from harnesses.pipeline.entries import entry, observed, of_command, of_validator, rerun
from harnesses.pipeline.ids import StageId
from harnesses.pipeline.looking import (
    Case,
    as_handed_in,
    bound,
    contract_of,
    material,
    read_files,
    spoken_of,
    tally,
    written_since,
)
from harnesses.pipeline.prompts import artifact_path, own_artifact_path, validator_prompt
from harnesses.pipeline.readonly import ReadOnly
from harnesses.pipeline.requests import requested
from harnesses.pipeline.seen import Seen, run_seen
from harnesses.pipeline.stage import Stage
from harnesses.pipeline.stage_checks import looked_at
from harnesses.secrets import redact
from harnesses.threads import aside

ACTION = "action"
"""The kind of evidence of a deed."""
MAX_REPORTED = 100
"""Entries of what a builder reports; the rest is in its contract."""
BY_RULES = "rules"
"""Who judges where no validator was asked."""
AskValidator = Callable[[Inspection], Awaitable[object]]


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
    most_bytes: int = MAX_COPY_BYTES
    """Of a copy."""

    async def hear(
        self, case: Case, validator: PipelineAgent | None, ask: AskValidator | None, now: Callable[[], datetime]
    ) -> Judged:
        """Return the verdict on a case.

        Args:
            ask: has the validator asked; what it raises is a failed check.
        """
        folder = Path(await aside(tempfile.mkdtemp, prefix="pipeline-"))
        try:
            copy = await aside(begin_copy, self.workspace, folder, self._unseen(case), self.most_bytes)
            return await self._hear(case, validator, ask, now, copy)
        finally:
            with trio.CancelScope(shield=True):
                await aside(remove_copy, folder)

    def _unseen(self, case: Case) -> tuple[str, ...]:
        """Return what is not copied: the views of the run folder, which change while others work."""
        folder = case.state.run_folder
        return (
            *self.unseen,
            *(
                f"{folder}/{name}"
                for name in ("tasks", "events.jsonl", "evidence.jsonl", "manifest.json", "pipeline-state.json")
            ),
        )

    async def _hear(
        self,
        case: Case,
        validator: PipelineAgent | None,
        ask: AskValidator | None,
        now: Callable[[], datetime],
        copy: Copy,
    ) -> Judged:
        contract, checks = contract_of(case)
        contract, refused = _claimed(case, contract)
        checks += refused
        ledger: list[Evidence] = []
        seen: list[Seen] = []
        said: ValidatorContract | None = None
        if contract is not None:
            ledger += reported(contract, attempt=case.claim.attempt, ts=now())[:MAX_REPORTED]
            mine = partial(entry, case, now)
            looked, subject, made = await aside(self._look, case, contract, copy.root)
            checks += looked
            ledger += observed(mine, case.task, made, subject, good=all(check.ok for check in looked))
            seen += await self._commands(case, copy)
            if contract.status.passing and all(check.ok for check in checks) and all(one.good for one in seen):
                said, trouble = await self._validator(case, contract, validator, ask, copy, seen)
                checks += trouble
            checks += await self._untouched(copy, subject)
            checks += [of_command(one) for one in seen]
            if seen:
                # What is run may read any of them, also those that nobody names.
                more = await aside(written_since, self.workspace, copy.root, case.state)
                whole, problem = await aside(bound, copy.root, tuple(dict.fromkeys((*(one.path for one in subject), *more))))
                checks += problem
                ledger += rerun(mine, case.task, seen, whole)
            if said is not None:
                ledger.append(of_validator(mine, said, subject))
        needed = self.guardrails.require_evidence_for_pass
        evidence = await aside(self._evidence, case, contract, ledger) if needed else None
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
            refused = failed("validator_claimed", one_line(str(error), 300))
            return rules(case.claim, contract, [*checks, refused], evidence, validator=BY_RULES)

    # our own eyes

    def _look(
        self, case: Case, contract: BuilderContract, root: Path
    ) -> tuple[list[Check], tuple[Bound, ...], list[tuple[StageId, str, list[Check]]]]:
        """Look at what a contract speaks of, in the copy; return the checks, the content, and the checks of each stage."""
        task = case.task
        checks = [*completeness(contract, stages=[str(id) for id in task.stages]), *file_checks(contract, root)]
        checks += telemetry_checks(contract, self.guardrails, tally(case.built, self.guardrails))
        checks += [failed("actions", problem) for problem in requested(contract)[1]]
        files = read_files(root, contract.files_modified)
        made: list[tuple[StageId, str, list[Check]]] = []
        for id in task.stages:
            path = artifact_path(case.state, id)
            given = material(root, path, id, contract, files)
            found = [evolve(one, name=f"{id}:{one.name}") for one in looked_at(given, self.stages[id].checks)]
            made.append((id, path, found))
            checks += found
        if task.artifact:
            given = material(root, own_artifact_path(case.state, task), task.stages[0], contract, files)
            checks += [evolve(one, name=f"task:{one.name}") for one in looked_at(given, None)]
        subject, problem = bound(root, spoken_of(case, contract))
        checks += problem
        checks.append(as_handed_in(case.built, subject))
        return checks, subject, made

    async def _commands(self, case: Case, copy: Copy) -> list[Seen]:
        """Run the commands of the stages in the copy."""
        seen: list[Seen] = []
        for id in case.task.stages:
            stage = self.stages[id]
            if stage.command:
                seen.append(
                    await run_seen(
                        copy,
                        stage.command,
                        limit_s=self.limit_s,
                        name=f"stage-{id}",
                        stage=str(id),
                        expects=stage.expects,
                    )
                )
        return seen

    async def _untouched(self, copy: Copy, subject: Sequence[Bound]) -> list[Check]:
        """Look whether the copy is what it was."""
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
        covering = () if contract is None else tuple(dict.fromkeys(spoken_of(case, contract)))
        policy = evolve(self.policy, by_kind={kind: one for kind, one in self.policy.by_kind.items() if kind != ACTION})
        return policy.met_by(
            ledger,
            self.workspace,
            stages=[str(id) for id in case.task.stages],
            attempt=case.claim.attempt,
            covering=covering,
        )


def _claimed(case: Case, contract: BuilderContract | None) -> tuple[BuilderContract | None, list[Check]]:
    """Return a contract if it was handed in under the claim that is open; what was not is not even looked at."""
    if contract is None:
        return None, []
    try:
        check_claimed(case.claim, contract)
    except NotClaimed as error:
        return None, [failed("contract_claimed", one_line(str(error), 300))]
    return contract, []


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
