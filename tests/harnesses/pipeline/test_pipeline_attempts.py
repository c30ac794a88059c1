"""How attempts begin and end: functions of the state."""

from __future__ import annotations

from pathlib import Path

import pytest
from attrs import evolve

from harnesses.governance import Guardrails
from harnesses.governor import Finding
from harnesses.pipeline import MoveKind, PipelineInvalid, PipelineState
from harnesses.pipeline.pipeline_state import Built, StepDraft, record_of
from harnesses.pipeline.scheduling import Hold
from harnesses.pipeline.task_attempts import claim_task, hold_task, reclaim_task, redact_prompt, take_submission
from harnesses.pipeline.verdicts import not_judged, take_verdict

from .states import NOW, A, B, at_work, claim_of, plan_of, planned, submitted, verdict_of

RAILS = Guardrails()


@pytest.fixture
def state(tmp_path: Path) -> PipelineState:
    return planned(plan_of(tmp_path, "a", "b", chain=True))


def types(draft: StepDraft) -> list[str]:
    return [event["type"] for event in draft.events]


def judged(state: PipelineState, status: str = "PASS", recommendation: str = "none", *, actions: int = 0) -> StepDraft:
    verdict = verdict_of(A, status, recommendation)
    return take_verdict(submitted(state, A), verdict, (), RAILS, actions=actions, now=NOW, step=9)


def test_a_plan_makes_ready_only_what_waits_for_nothing(state: PipelineState) -> None:
    assert [str(task.status) for task in state.tasks] == ["READY", "PENDING"]


def test_a_claim_counts_at_once_and_its_prompt_holds_its_nonce(state: PipelineState) -> None:
    draft = claim_task(state, claim_of(A), RAILS, NOW)
    record = record_of(draft.state, A)

    assert (record.attempts, record.claim) == (1, claim_of(A))
    assert claim_of(A).nonce in record.prompt
    assert types(draft) == ["task_started", "builder_task_prepared"]


def test_another_agent_and_what_memory_has_said_are_events_of_the_claim(state: PipelineState) -> None:
    draft = claim_task(state, claim_of(A), RAILS, NOW, agents=("small", "large"), events=[{"type": "memory_recalled"}])

    assert types(draft) == ["memory_recalled", "task_started", "builder_task_prepared", "agent_escalated"]
    assert (draft.events[-1]["from_agent"], draft.events[-1]["to_agent"]) == ("small", "large")


def test_a_nonce_that_looks_like_a_key_stays_in_the_prompt() -> None:
    claim = evolve(claim_of(A), nonce="ghp_0123456789abcdefghijklmnopqrstuvwxyz")

    prompt = redact_prompt(f"nonce: {claim.nonce}, password: hunter2hunter2", claim)

    assert claim.nonce in prompt
    assert "hunter2" not in prompt


def test_a_task_that_is_held_is_blocked_with_the_finding(state: PipelineState) -> None:
    finding = Finding(limit_name="max", current_value="3", limit_value="3", reason="no attempt left")

    draft = hold_task(state, Hold(A, finding), NOW)

    assert str(record_of(draft.state, A).status) == "BLOCKED"
    assert draft.findings == [finding]


@pytest.mark.parametrize(
    ("built", "said"), [(Built(contract=""), "agent_completed"), (Built(contract="", failure="x"), "agent_failed")]
)
def test_a_submission_is_taken_in_and_not_judged(state: PipelineState, built: Built, said: str) -> None:
    draft = take_submission(at_work(state, A), A, built, NOW)

    assert (draft.kind, types(draft), str(record_of(draft.state, A).status)) == (MoveKind.BUILD, [said], "IN_PROGRESS")


def test_a_claim_that_was_cut_off_counts_until_none_is_left(state: PipelineState) -> None:
    most = RAILS.attempts_for(destructive=False)

    first = reclaim_task(at_work(state, A), A, RAILS, NOW)
    last = reclaim_task(at_work(state, A, most), A, RAILS, NOW)

    assert str(record_of(first.state, A).status) == "FAIL"
    assert str(record_of(last.state, A).status) == "BLOCKED"
    assert [finding.limit_name for finding in last.findings] == ["max_task_attempts"]


def test_a_pass_and_its_proof_are_one_step_and_let_others_begin(state: PipelineState) -> None:
    draft = judged(at_work(state, A))
    record = record_of(draft.state, A)

    assert (str(record.status), record.passed_step) == ("PASS", 9)
    assert [one.kind for one in record.proof] == ["validation"]
    assert str(record_of(draft.state, B).status) == "READY"
    assert types(draft)[-1] == "stage_completed"


def test_work_that_is_found_good_waits_for_its_actions(state: PipelineState) -> None:
    record = record_of(judged(at_work(state, A), actions=2).state, A)

    assert (str(record.status), record.proven, record.done) == ("IN_PROGRESS", True, 0)


@pytest.mark.parametrize(
    ("recommendation", "status"), [("retry_builder", "FAIL"), ("ask_user", "NEEDS_CONTEXT"), ("block", "BLOCKED")]
)
def test_what_was_wrong_is_kept_for_the_next_attempt(state: PipelineState, recommendation: str, status: str) -> None:
    record = record_of(judged(at_work(state, A), "FAIL", recommendation).state, A)

    assert (str(record.status), record.claim, record.proof) == (status, None, ())
    assert record.failed == ("looked: it is wrong",)
    assert bool(record.note) is (status != "FAIL")


def test_what_could_not_be_judged_does_not_pass(state: PipelineState) -> None:
    state = submitted(at_work(state, A), A)

    draft = take_verdict(state, not_judged(claim_of(A), "disk full"), (), RAILS, actions=0, now=NOW, step=2)

    assert str(record_of(draft.state, A).status) == "FAIL"
    assert "disk full" in record_of(draft.state, A).failed[0]


def test_a_run_goes_on_only_with_the_plan_and_at_the_place_it_began_with(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, "a", "b")

    plan.check_same(planned(plan))
    for other in (plan_of(tmp_path, "a"), plan_of(tmp_path / "elsewhere", "a", "b")):
        with pytest.raises(PipelineInvalid, match="under a name of its own"):
            other.check_same(planned(plan))
