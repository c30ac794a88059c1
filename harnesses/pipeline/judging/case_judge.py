"""Validates what was built under a claim: first an inspection, then a validator in a copy; code decides the verdict.

    contract ── complete? files exist? of this claim? ──► artifacts ── checks of their stages ──► commands, run in a copy
        any of these failed: the validator is not asked            all passed: the validator reads, runs and answers
                                                            └─► evidence by grade, bound to content ─► verdict

Invariants: only the contents of the copy are validated, and the evidence is bound to them; the answer of a validator that has
changed its copy, is the builder, or names another claim does not count; what could not be inspected never passes.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TypeAlias, cast

import trio
from attrs import evolve, frozen

from harnesses.agents.command.command_agent import CommandAgent
from harnesses.features.agent_text import one_line
from harnesses.features.feature import Feature
from harnesses.governance.contracts.completeness import completeness, file_checks, independent
from harnesses.governance.contracts.contract import BuilderContract, Check, ValidatorContract, failed, passed
from harnesses.governance.contracts.contract_json import read_validator
from harnesses.governance.errors import ContractError, NotClaimed
from harnesses.governance.evidence.attempt_verdict import Claim, check_claimed, judge, unreadable
from harnesses.governance.evidence.evidence_ledger import Evidence, reported
from harnesses.governance.evidence.evidence_policy import EvidencePolicy
from harnesses.governance.evidence.file_binding import Bound
from harnesses.governance.limits.counted_agent import telemetry_checks
from harnesses.governance.limits.guardrails import Guardrails
from harnesses.pipeline.judging.copies import MAX_COPY_BYTES, Copy, begin_copy, remove_copy
from harnesses.pipeline.judging.evidence_entries import (
    ACTION,
    command_check,
    inspection_entries,
    rerun_entries,
    validator_entry,
)
from harnesses.pipeline.judging.inspection import (
    bind_files,
    contract_of,
    files_named,
    read_artifact_below,
    read_files,
    tally_of,
    unchanged_check,
    written_since,
)
from harnesses.pipeline.judging.read_only_copy import CheckRun, ReadOnly, run_check
from harnesses.pipeline.pipeline_state import Built, PipelineState, TaskNote, artifact_path, own_artifact_path
from harnesses.pipeline.plan.ids import StageId
from harnesses.pipeline.plan.stage import Stage
from harnesses.pipeline.plan.stage_checks import run_stage_checks
from harnesses.pipeline.plan.task import read_requests
from harnesses.pipeline.prompts import validator_prompt
from harnesses.pipeline.stage_work import Inspection, PipelineAgent, contract_in
from harnesses.processes.threads import aside
from harnesses.redaction.redactor import redact

MAX_REPORTED = 100
"""Maximum evidence entries of a builder's report; the rest is in its contract."""
BY_RULES = "rules"
"""Name of the validator if none was asked."""
_VIEWS = ("tasks", "events.jsonl", "evidence.jsonl", "manifest.json", "pipeline-state.json")
"""Files of the run folder that are written during validation, so that they are not copied."""
AskValidator: TypeAlias = Callable[[PipelineAgent, Inspection], Awaitable[object]]
Now: TypeAlias = Callable[[], datetime]


@frozen(kw_only=True)
class Case:
    """A submission to validate."""

    state: PipelineState
    task: TaskNote
    claim: Claim
    built: Built
    builder: PipelineAgent
    validator: PipelineAgent | None
    """The validator; None if the rules alone decide."""


@frozen(kw_only=True)
class Judged:
    """The verdict on a case, and its evidence."""

    verdict: ValidatorContract
    evidence: tuple[Evidence, ...]


@frozen(kw_only=True)
class CaseJudge:
    """Validates the cases of one pipeline."""

    workspace: Path
    stages: Mapping[StageId, Stage]
    guardrails: Guardrails
    policy: EvidencePolicy
    limit_s: float
    """Maximum seconds for a command."""
    unseen: tuple[str, ...] = ()
    """Paths below the workspace that are not copied."""
    max_bytes: int = MAX_COPY_BYTES
    """Maximum size of a copy."""

    async def judge(self, case: Case, ask: AskValidator, now: Now) -> Judged:
        """Return the verdict on a case. `ask` asks the validator and returns its answer, which may be anything."""
        folder = Path(await aside(tempfile.mkdtemp, prefix="pipeline-"))
        unseen = (*self.unseen, *(f"{case.state.run_folder}/{name}" for name in _VIEWS))
        try:
            copy = await aside(begin_copy, self.workspace, folder, unseen, self.max_bytes)
            return await self._judge_copy(case, ask, now, copy)
        finally:
            with trio.CancelScope(shield=True):
                await aside(remove_copy, folder)

    async def _judge_copy(self, case: Case, ask: AskValidator, now: Now, copy: Copy) -> Judged:
        claim = case.claim
        contract, checks = contract_of(case.state, case.task, case.built)
        if contract is not None and (other := _of_another_claim(claim, contract)) is not None:
            contract, checks = None, [*checks, other]
        ledger: list[Evidence] = []
        verdict: ValidatorContract | None = None
        if contract is not None:
            ledger += reported(contract, attempt=claim.attempt, ts=now())[:MAX_REPORTED]
            found, subject, stage_checks = await aside(self._inspect, case, contract, copy.root)
            checks += found
            ledger += inspection_entries(claim, now(), stage_checks, subject, good=all(check.ok for check in found))
            runs = await self._run_commands(case, copy)
            if contract.status.passing and all(check.ok for check in checks) and all(run.good for run in runs):
                verdict, trouble = await self._ask(case, contract, ask, copy, runs)
                checks += trouble
            checks += [await aside(_untouched_check, copy, len(subject)), *map(command_check, runs)]
            if runs:
                # A command may read any of these files, including those that nobody names.
                more = await aside(written_since, self.workspace, copy.root, case.state)
                paths = tuple(dict.fromkeys((*(one.path for one in subject), *more)))
                whole, problem = await aside(bind_files, copy.root, paths)
                checks += problem
                ledger += rerun_entries(claim, now(), case.task.stages, runs, whole)
            if verdict is not None:
                ledger.append(validator_entry(claim, now(), verdict, subject))
        needed = self.guardrails.require_evidence_for_pass
        evidence = await aside(self._evidence_checks, case, contract, ledger) if needed else None
        return Judged(verdict=self._verdict(claim, contract, checks, evidence, verdict), evidence=tuple(ledger))

    def _verdict(
        self,
        claim: Claim,
        contract: BuilderContract | None,
        checks: Sequence[Check],
        evidence: Sequence[Check] | None,
        said: ValidatorContract | None,
    ) -> ValidatorContract:
        """Return the verdict; an answer about another claim becomes a failed check."""
        needed = self.guardrails.require_validator_contract
        rules = partial(judge, contract_needed=self.guardrails.require_builder_contract, validator_needed=needed)
        try:
            return rules(claim, contract, checks, evidence, validator=said or BY_RULES)
        except NotClaimed as error:
            refused = failed("validator_claimed", one_line(str(error), 300))
            return rules(claim, contract, [*checks, refused], evidence, validator=BY_RULES)

    def _inspect(
        self, case: Case, contract: BuilderContract, root: Path
    ) -> tuple[list[Check], tuple[Bound, ...], list[tuple[StageId, str, list[Check]]]]:
        """Inspect the files of a contract in the copy; return the checks, the hashed files, and each stage's checks."""
        task, rails = case.task, self.guardrails
        checks = [*completeness(contract, stages=[str(id) for id in task.stages]), *file_checks(contract, root)]
        checks += telemetry_checks(contract, rails, tally_of(case.built, rails))
        checks += [failed("actions", problem) for problem in read_requests(contract)[1]]
        files = read_files(root, contract.files_modified)
        stage_checks: list[tuple[StageId, str, list[Check]]] = []
        for id in task.stages:
            path = artifact_path(case.state, id)
            artifact = read_artifact_below(root, path, id, contract, files)
            found = [evolve(one, name=f"{id}:{one.name}") for one in run_stage_checks(artifact, self.stages[id].checks)]
            stage_checks.append((id, path, found))
            checks += found
        if own := own_artifact_path(case.state, task):
            artifact = read_artifact_below(root, own, task.stages[0], contract, files)
            checks += [evolve(one, name=f"task:{one.name}") for one in run_stage_checks(artifact, None)]
        subject, problem = bind_files(root, files_named(case.state, task, contract))
        return [*checks, *problem, unchanged_check(case.built, subject)], subject, stage_checks

    async def _run_commands(self, case: Case, copy: Copy) -> list[CheckRun]:
        """Run the commands of the stages in the copy."""
        stages = [self.stages[id] for id in case.task.stages if self.stages[id].command]
        return [
            await run_check(
                copy, one.command, limit_s=self.limit_s, name=f"stage-{one.id}", stage=str(one.id), expects=one.expects
            )
            for one in stages
        ]

    async def _ask(
        self, case: Case, contract: BuilderContract, ask: AskValidator, copy: Copy, runs: list[CheckRun]
    ) -> tuple[ValidatorContract | None, list[Check]]:
        """Ask the validator; return its contract, if it counts, and checks of it. Its commands are added to `runs`."""
        validator = case.validator
        if validator is None:
            return None, []
        apart = independent(case.builder, validator)
        if not apart.ok:
            return None, [apart]
        own = await aside(copy.another, "own") if isinstance(validator, CommandAgent) else None
        inspection = Inspection(
            feature=Feature(str(case.task.id), case.task.title),
            turn=case.claim.attempt,
            prompt=validator_prompt(case.state, case.task, case.claim, case.built.contract, validator.name),
            objective=case.state.goal,
            directory=None if own is None else str(own.root),
            task=case.task,
            claim=case.claim,
            validator=validator.name,
            contract=contract,
            artifacts={str(id): artifact_path(case.state, id) for id in case.task.stages},
            project=ReadOnly(copy, runs.append, limit_s=self.limit_s),
        )
        try:
            verdict = _read_verdict(await ask(validator, inspection), str(case.task.id))
        except ContractError as error:
            return None, [evolve(one, name="validator_contract") for one in unreadable(error)]
        if own is not None and (changed := await aside(copy.differences, own)):
            return None, [
                failed("validator_read_only", f"the validator has changed {', '.join(changed[:5])}: its answer does not count")
            ]
        return verdict, [independent(contract, verdict)]

    def _evidence_checks(self, case: Case, contract: BuilderContract | None, ledger: Sequence[Evidence]) -> tuple[Check, ...]:
        """Return checks on whether the evidence suffices, without that of actions, which run after the verdict."""
        policy = evolve(self.policy, by_kind={kind: one for kind, one in self.policy.by_kind.items() if kind != ACTION})
        return policy.met_by(
            ledger,
            self.workspace,
            stages=[str(id) for id in case.task.stages],
            attempt=case.claim.attempt,
            covering=() if contract is None else files_named(case.state, case.task, contract),
        )


def _of_another_claim(claim: Claim, contract: BuilderContract) -> Check | None:
    """Return a failed check if the contract was submitted under another claim; it is then not inspected."""
    try:
        check_claimed(claim, contract)
    except NotClaimed as error:
        return failed("contract_claimed", one_line(str(error), 300))
    return None


def _untouched_check(copy: Copy, files: int) -> Check:
    """Return a check on whether the copy is unchanged."""
    if changed := copy.changed():
        return failed(
            "copy_unchanged", f"the validated copy has been changed: {', '.join(changed[:5])}; the result does not count"
        )
    return passed("copy_unchanged", f"{files} files are unchanged")


def _read_verdict(answer: object, task_id: str) -> ValidatorContract:
    found = contract_in(answer, None)
    if found is None:
        raise ContractError(f"validator: expected a contract in JSON, was {one_line(repr(answer), 120)}; answer in that form")
    try:
        data: object = json.loads(found) if isinstance(found, str) else dict(found)
    except (ValueError, RecursionError):
        data = None
    clean = redact(cast(dict[str, object], data)) if isinstance(data, dict) else found
    return read_validator(clean, task_id=task_id)
