"""The step writer: a draft becomes a step, without a harness."""

from __future__ import annotations

from pathlib import Path

import pytest

from harnesses.governance import Bound, Evidence, Grade
from harnesses.governor import Finding
from harnesses.pipeline import MoveKind, PipelineState
from harnesses.pipeline.judging.evidence_entries import entry, in_chunks, proof_of
from harnesses.pipeline.pipeline_state import StepDraft
from harnesses.pipeline.step_writer import MAX_ENTRIES, StepWriter

from .states import NOW, A, at_work, claim_of, plan_of, planned

SECRET = "ghp_0123456789abcdefghijklmnopqrstuvwxyz"


@pytest.fixture
def state(tmp_path: Path) -> PipelineState:
    return at_work(planned(plan_of(tmp_path, "a", "b")), A)


def seen(text: str = "fine", files: int = 0) -> Evidence:
    subject = tuple(Bound(path=f"f{number}", sha256="0" * 64) for number in range(files))
    return entry(claim_of(A), NOW, "files", True, text, subject=subject)


def test_a_step_is_about_its_task_and_a_step_without_one_about_the_whole(state: PipelineState) -> None:
    writer = StepWriter()

    of_task = writer.write(StepDraft(state=state, kind=MoveKind.CLAIM, task=A), 1).step
    of_all = writer.write(StepDraft(state=state, kind=MoveKind.ORDERS), 2).step

    assert (of_task.input.task, of_task.input.attempt, of_task.output.status) == ("a", 1, "IN_PROGRESS")
    assert (of_all.input.task, of_all.input.attempt, of_all.output.status) == ("", 0, "IN_PROGRESS")


def test_events_evidence_and_findings_are_attached_without_secrets(state: PipelineState) -> None:
    finding = Finding(limit_name="l", current_value="1", limit_value="0", reason="too many")
    draft = StepDraft(
        state=state,
        kind=MoveKind.JUDGE,
        task=A,
        note=f"used {SECRET}",
        events=[{"type": "x", "reason": f"token {SECRET}"}],
        evidence=[seen(f"token {SECRET}")],
        findings=[finding],
    )

    written = StepWriter().write(draft, 1)

    assert [kind for kind, _ in written.attachments] == ["task", "evidence", "guardrail"]
    assert written.attachments[2][1]["task_id"] == "a"
    assert SECRET not in repr(written)


def test_drafts_of_one_number_are_one_step_and_each_is_attached_once(state: PipelineState) -> None:
    writer = StepWriter()
    first = writer.write(StepDraft(state=state, kind=MoveKind.BUILD, task=A, note="one", events=[{"n": 1}]), 7)
    second = writer.write(StepDraft(state=state, kind=MoveKind.BUILD, task=A, note="two", events=[{"n": 2}]), 7)

    assert second.step.output.note == "one; two"
    assert second.step.output.events == ({"n": 1}, {"n": 2})
    assert [body for _, body in (*first.attachments, *second.attachments)] == [{"n": 1}, {"n": 2}]


def test_a_step_is_taken_up_once_and_only_when_it_is_recorded(state: PipelineState) -> None:
    writer = StepWriter()
    written = writer.write(StepDraft(state=state, kind=MoveKind.BUILD, task=A), 3)

    assert writer.take_recorded(2) is None
    assert writer.take_recorded(3) == written.step.output
    assert writer.take_recorded(3) is None


def test_evidence_of_one_step_has_a_bound(state: PipelineState) -> None:
    draft = StepDraft(state=state, kind=MoveKind.JUDGE, task=A, evidence=[seen()] * (MAX_ENTRIES + 1))

    assert len(StepWriter().write(draft, 1).step.output.evidence) == MAX_ENTRIES


def test_an_entry_that_speaks_of_many_files_is_several_that_speak_of_all_of_them() -> None:
    whole = seen(files=450)

    chunks = in_chunks(whole)

    assert len(chunks) > 1
    assert tuple(file for one in chunks for file in one.subject) == whole.subject


def test_a_proof_holds_nothing_that_was_only_reported() -> None:
    reported = entry(claim_of(A), NOW, "tests", True, "they ran", grade=Grade.REPORTED)

    assert proof_of([reported, seen()]) == (seen(),)


def test_an_entry_says_something_whatever_is_to_be_said() -> None:
    assert entry(claim_of(A), NOW, "files", False, "\0").evidence == "nothing"
