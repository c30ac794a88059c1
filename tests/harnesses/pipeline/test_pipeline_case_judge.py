"""Judging in a copy, with a validator that is a function of the test."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from harnesses.governance import EvidencePolicy, Grade, Guardrails
from harnesses.pipeline import Inspection
from harnesses.pipeline.judging.case_judge import Case, CaseJudge
from harnesses.pipeline.pipeline_state import note_of, record_of
from harnesses.pipeline.stage_work import read_submission, stage_work
from harnesses.pipeline.transitions import built_of, record_submission

from .scripted import Builders, honest, judging, verdict
from .states import NOW, A, at_work, claim_of, plan_of, planned


def case_and_judge(workspace: Path, **changes: object) -> tuple[Case, CaseJudge]:
    """Return a case of which an honest builder has handed in its work, with changes to its contract."""
    plan = plan_of(workspace, "a", guardrails=Guardrails(require_validator_contract=False))
    state = at_work(planned(plan), A)
    answer = {**honest(stage_work(workspace, state, note_of(state, A), claim_of(A))), **changes}
    state = record_submission(state, A, read_submission(workspace, state, note_of(state, A), answer), NOW)
    case = Case(
        state=state,
        task=note_of(state, A),
        claim=claim_of(A),
        built=built_of(record_of(state, A)),
        builder=Builders(),
        validator=judging(),
    )
    rails, policy = plan.guardrails, EvidencePolicy()
    return case, CaseJudge(workspace=workspace, stages=plan.stages, guardrails=rails, policy=policy, limit_s=30.0)


async def heard(case: Case, judge: CaseJudge, answer: Any = verdict) -> tuple[str, list[str], list[str], int]:
    """Return the status, the failed checks, the kinds of evidence, and how often the validator was asked."""
    asked: list[Inspection] = []

    async def ask(validator: Any, inspection: Inspection) -> object:
        asked.append(inspection)
        return answer(inspection)

    judged = await judge.judge(case, ask, lambda: NOW)
    wrong = [check.name for check in judged.verdict.checks if not check.ok]
    return str(judged.verdict.status), wrong, [one.kind for one in judged.evidence if one.grade >= Grade.OBSERVED], len(asked)


async def test_honest_work_passes_with_evidence_of_artifact_files_and_validator(tmp_path: Path) -> None:
    found = await heard(*case_and_judge(tmp_path))

    assert found == ("PASS", [], ["artifact", "files", "validator"], 1)


async def test_a_validator_is_not_asked_about_what_is_wrong_already(tmp_path: Path) -> None:
    status, wrong, _, asked = await heard(*case_and_judge(tmp_path, files_modified=["not-there.py"]))

    assert (status, asked) == ("FAIL", 0)
    assert wrong


async def test_work_of_another_claim_is_not_even_inspected(tmp_path: Path) -> None:
    status, wrong, kinds, asked = await heard(*case_and_judge(tmp_path, nonce="another"))

    assert (status, kinds, asked) == ("FAIL", [], 0)
    assert "contract_claimed" in wrong


async def test_content_that_changed_since_it_was_handed_in_fails(tmp_path: Path) -> None:
    case, judge = case_and_judge(tmp_path)
    (tmp_path / "run/artifacts/stages/a/a.json").write_text(json.dumps({"said": "other"}))

    status, wrong, _, _ = await heard(case, judge)

    assert (status, wrong[0]) == ("FAIL", "content_as_handed_in")


@pytest.mark.parametrize(
    ("answer", "check"),
    [
        (lambda inspection: "looks good to me", "validator_contract"),
        (lambda inspection: "{not json", "validator_contract"),
        (lambda inspection: verdict(inspection, nonce="another"), "validator_claimed"),
        (lambda inspection: verdict(inspection, status="FAIL", retry_recommendation="retry_builder"), "validator_passed"),
    ],
)
async def test_a_validator_that_does_not_say_pass_passes_nothing(tmp_path: Path, answer: Any, check: str) -> None:
    status, wrong, _, _ = await heard(*case_and_judge(tmp_path), answer)

    assert status == "FAIL"
    assert check in wrong


async def test_a_builder_judges_no_work_of_its_own(tmp_path: Path) -> None:
    case, judge = case_and_judge(tmp_path)

    status, _, _, asked = await heard(evolve(case, validator=case.builder), judge)

    assert (status, asked) == ("FAIL", 0)


async def test_where_nobody_is_asked_the_rules_judge(tmp_path: Path) -> None:
    case, judge = case_and_judge(tmp_path)

    assert await heard(evolve(case, validator=None), judge) == ("PASS", [], ["artifact", "files"], 0)
