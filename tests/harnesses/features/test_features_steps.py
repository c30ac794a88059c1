"""A step is written from values alone: a draft, the state before, and what was noted since."""

from __future__ import annotations

from datetime import timedelta

from harnesses.features.feature import Verdict
from harnesses.features.feature_record import IterationKind, IterationStatus, RunStatus
from harnesses.features.loop.feature_steps import Notes, StepDraft, progress_note, write_step
from harnesses.features.planning.state_changes import close_run, open_run
from tests.harnesses.features.collaborators import Bench
from tests.harnesses.features.played import NOW, begun


def draft_of(state, **more):
    return StepDraft(kind=IterationKind.CLOSE, status=IterationStatus.DONE, state=state, **more)


def test_a_hand_off_is_in_the_step_that_ends_the_run_and_matters_at_once():
    before = open_run(begun("a"), NOW)

    written = write_step(draft_of(close_run(before, RunStatus.FAILED, "over", NOW)), before, Notes(), (), streamed=False)

    assert written.matters
    assert written.step.output.ended == written.ended == written.state.runs[-1]
    assert written.step.input.run == 1


def test_notes_and_answers_stand_beside_what_was_done():
    state, seen = begun("a"), Verdict(passed=True, evidence="well")
    notes = Notes(remark="! look", health=seen, rechecked=("a", "b"))

    written = write_step(draft_of(state, note="done"), state, notes, ["a is blocked"], streamed=True)

    assert written.summary == "! look; done; rechecked and still passing: a, b; a is blocked"
    assert (written.step.output.health, written.step.output.rechecked) == (seen, ("a", "b"))
    assert not written.step.input.streamed


async def test_what_was_noted_is_told_once():
    bench = Bench()
    writer = bench.writer()
    writer.note(rechecked=["a"])
    writer.note(rechecked=["b"], remark="! one")

    first, second = (
        writer.write(draft_of(bench.state), bench.state, number=number, now=NOW, stopping=False) for number in (1, 2)
    )

    assert first.step.output.rechecked == ("a", "b")
    assert (second.step.output.rechecked, second.summary) == ((), "")


async def test_an_open_run_is_handed_off_with_the_last_step_of_a_harness_that_stops():
    bench = Bench()
    state = open_run(bench.state, NOW)

    written = bench.writer().write(draft_of(state), bench.state, number=1, now=NOW, stopping=True)

    assert written.ended is not None
    assert written.ended.status is RunStatus.INTERRUPTED


async def test_a_step_is_settled_once_it_is_recorded():
    bench, writer = Bench(), Bench().writer()
    writer.write(draft_of(bench.state), bench.state, number=3, now=NOW, stopping=False)

    assert [writer.settle(2), writer.settle(3), writer.settle(3)] == [False, True, False]


def test_only_progress_that_is_new_is_told():
    before = begun("a")
    after = close_run(open_run(before, NOW), RunStatus.FAILED, "over", NOW + timedelta(seconds=1))

    assert (progress_note(before, after), progress_note(after, after)) == ("over", "")
