"""What is done beside the attempts, and the run folder: functions and values."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harnesses.governance import Guardrails, bind, to_json
from harnesses.pipeline import Asked, Finished, PipelineOutput, PipelineState, Recalled
from harnesses.pipeline.judging.evidence_entries import entry
from harnesses.pipeline.pipeline_state import Built
from harnesses.pipeline.run_folder.folder_files import FolderView
from harnesses.pipeline.transitions import pass_with_proof, record_submission
from harnesses.pipeline.upkeep import follow_messages, recall, remember, set_back_stale, stale_tasks, unremembered

from .states import NOW, A, B, at_work, claim_of, plan_of, planned, verdict_of


@pytest.fixture
def state(tmp_path: Path) -> PipelineState:
    """Return the state in which `a` and `b`, which waits for it, have passed, each by a file of its own."""
    state = planned(plan_of(tmp_path, "a", "b", chain=True))
    for step, id in enumerate((A, B), start=1):
        (tmp_path / str(id)).write_text("good")
        state = record_submission(at_work(state, id), id, Built(contract="{}"), NOW)
        evidence = entry(claim_of(id), NOW, "files", True, "fine", subject=bind(tmp_path, [str(id)]))
        state = pass_with_proof(state, id, [evidence], to_json(verdict_of(id)), NOW, step)
    return state


def test_nothing_is_stale_while_the_content_is_what_was_judged(state: PipelineState, tmp_path: Path) -> None:
    assert stale_tasks(state, tmp_path) == {}


def test_what_is_stale_takes_back_all_that_waits_for_it(state: PipelineState, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("other")

    stale = stale_tasks(state, tmp_path)
    draft = set_back_stale(state, stale, NOW)

    assert stale == {A: ["a"]}
    assert [str(task.status) for task in draft.state.tasks] == ["READY", "PENDING"]
    assert [event["task_id"] for event in draft.events] == ["a", "b"]


def test_every_message_has_an_answer_and_one_that_can_not_be_followed_changes_nothing(tmp_path: Path) -> None:
    state = planned(plan_of(tmp_path, "a", "b"))

    draft = follow_messages(state, [{"block": "a", "reason": "wait"}, {"dance": 1}], Guardrails(), NOW)

    assert [str(task.status) for task in draft.state.tasks] == ["BLOCKED", "READY"]
    assert [event["type"] for event in draft.events] == ["order_followed", "order_refused"]


class Memory:
    """Recalls and takes in; or raises."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.finished: list[Finished] = []

    async def recall(self, asked: Asked) -> Recalled:
        if self.error is not None:
            raise self.error
        return Recalled(text="long ago", episodes=("e1",))

    async def remember(self, finished: Finished) -> str:
        if self.error is not None:
            raise self.error
        self.finished.append(finished)
        return "written as e2"


async def test_what_is_recalled_is_an_event_and_a_memory_that_fails_too(state: PipelineState) -> None:
    recalled, events = await recall(Memory(), state, A, lambda: NOW)
    nothing, failed = await recall(Memory(OSError("locked")), state, A, lambda: NOW)

    assert (recalled.text, events[0]["episode_ids"]) == ("long ago", ["e1"])
    assert (nothing, failed[0]["type"], failed[0]["reason"]) == (Recalled(), "memory_recall_failed", "OSError: locked")
    assert await recall(None, state, A, lambda: NOW) == (Recalled(), [])


async def test_a_pass_is_remembered_once_even_if_the_memory_can_not_take_it_in(state: PipelineState) -> None:
    draft = await remember(Memory(OSError("locked")), state, unremembered(state), lambda: NOW)

    assert [event["type"] for event in draft.events] == ["episode_memory_write_failed"] * 2
    assert unremembered(draft.state) == []


def test_a_view_is_of_the_steps_that_it_was_given(state: PipelineState, tmp_path: Path) -> None:
    output = PipelineOutput(status="PASS", events=({"type": "x"},))
    before = FolderView("p", tmp_path, PipelineState(), ())

    before.write()
    assert not (tmp_path / "run").exists()

    before.after(state, output).after(state, output).write()
    assert json.loads((tmp_path / "run/manifest.json").read_text())["status"] == "DONE"
    assert len((tmp_path / "run/events.jsonl").read_text().splitlines()) == 2


def test_a_view_that_can_not_be_written_is_a_warning(
    state: PipelineState, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    place = tmp_path / "file"
    place.write_text("")

    FolderView("p", place, state, ()).write()

    assert "harness 'p' could not write its run folder run" in caplog.text
