"""What is next, decided from the state: every pipeline comes to an end, within its attempts, whatever its agents do."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from random import Random

import pytest
from attrs import evolve

from harnesses.governance import Claim, Guardrails, Recommendation, TaskStatus, ValidatorStatus, decide
from harnesses.pipeline import PipelineState, TaskId
from harnesses.pipeline.pipeline_state import Built, RunStatus, TaskNote, TaskRecord, run_status
from harnesses.pipeline.scheduling import Done, Hold, Judge, Move, Reclaim, Rest, Start, Stuck, most_attempts, next_move
from harnesses.pipeline.transitions import (
    begin_attempt,
    end_attempt,
    pass_with_proof,
    record_of,
    record_submission,
    set_back,
    unblock_task,
    update_readiness,
)
from harnesses.pipeline.upkeep import follow_message

NOW = datetime(2026, 1, 1, tzinfo=UTC)
RAILS = Guardrails()


def state_of(**after: str) -> PipelineState:
    notes = tuple(TaskNote(id=TaskId(id), title=id, stages=(), after=tuple(map(TaskId, ids))) for id, ids in after.items())
    return update_readiness(PipelineState(run_id="r", plan=notes, tasks=tuple(TaskRecord(id=note.id) for note in notes)))


def with_status(state: PipelineState, id: str, status: TaskStatus, **more: object) -> PipelineState:
    tasks = tuple(evolve(task, status=status, **more) if task.id == TaskId(id) else task for task in state.tasks)
    return update_readiness(evolve(state, tasks=tasks))


def planned(state: PipelineState, *working: str, most: int = 3) -> Move:
    return next_move(state, RAILS, working={TaskId(id) for id in working}, own=(), most=most)


def claim(state: PipelineState, id: str) -> PipelineState:
    attempt = record_of(state, TaskId(id)).attempts + 1
    return begin_attempt(state, Claim(task_id=id, attempt=attempt, nonce=f"{id}{attempt}"), "prompt", NOW)


def test_those_that_wait_for_nothing_are_ready() -> None:
    state = state_of(a="", b="a", c="ab")

    assert [task.status for task in state.tasks] == [TaskStatus.READY, TaskStatus.PENDING, TaskStatus.PENDING]
    assert [task.status for task in with_status(state, "a", TaskStatus.PASS).tasks][1:] == ["READY", "PENDING"]


def test_a_failure_comes_first_then_what_was_released_then_what_was_never_tried() -> None:
    state = state_of(a="", b="", c="")
    released = with_status(state, "b", TaskStatus.BLOCKED, attempts=2, granted=1, released=True)
    failing = with_status(released, "c", TaskStatus.FAIL, attempts=1)

    assert planned(state) == Start(TaskId("a"))
    assert planned(released) == Start(TaskId("b"))
    assert planned(failing) == Start(TaskId("c"))


def test_a_claim_that_nobody_works_on_is_given_back_before_anything_else() -> None:
    state = claim(state_of(a="", b=""), "b")

    assert planned(state) == Reclaim(TaskId("b"))
    assert planned(state, "b") == Start(TaskId("a"))


def test_what_was_handed_in_is_judged_before_anything_is_claimed() -> None:
    state = record_submission(claim(state_of(a="", b=""), "b"), TaskId("b"), Built(contract="{}"), NOW)

    assert planned(state) == Judge(TaskId("b"))


def test_there_is_no_claim_without_room() -> None:
    state = claim(state_of(a="", b=""), "a")

    assert planned(state, "a", most=1) == Rest()


def test_what_is_blocked_is_not_claimed_until_somebody_releases_it() -> None:
    state = with_status(state_of(a=""), "a", TaskStatus.BLOCKED, attempts=2, note="two tries failed")

    assert isinstance(planned(state), Stuck)
    assert planned(unblock_task(state, TaskId("a"), 2, NOW)) == Start(TaskId("a"))
    assert most_attempts(unblock_task(state, TaskId("a"), 2, NOW).tasks[0], state.plan[0], RAILS) == 3


def test_a_record_that_contradicts_itself_is_held() -> None:
    state = with_status(claim(state_of(a=""), "a"), "a", TaskStatus.FAIL)

    move = planned(state)

    assert isinstance(move, Hold)
    assert move.finding.limit_name == "audit"


@pytest.mark.parametrize("attempts", [2, 3, 99])
def test_attempts_are_counted_from_the_record_before_a_claim(attempts: int) -> None:
    move = planned(with_status(state_of(a=""), "a", TaskStatus.FAIL, attempts=attempts))

    assert isinstance(move, Hold)
    assert move.finding.limit_name == "max_task_attempts"


def test_a_pass_that_is_taken_back_takes_back_all_that_wait_for_it() -> None:
    state = state_of(a="", b="a", c="b", d="")
    for id in "abcd":
        state = with_status(state, id, TaskStatus.PASS)

    state, back = set_back(state, TaskId("a"), "its file has changed", NOW)

    assert [str(id) for id in back] == ["a", "b", "c"]
    assert [task.status for task in state.tasks] == ["READY", "PENDING", "PENDING", "PASS"]


def test_an_order_is_followed_or_answered() -> None:
    state = with_status(state_of(a="", b="a"), "a", TaskStatus.NEEDS_CONTEXT, attempts=1, note="which?")

    after, id, _ = follow_message(state, RAILS, {"answer": {"task": "a", "text": "this one"}}, NOW)

    assert (id, after.tasks[0].status, after.tasks[0].answers) == ("a", TaskStatus.READY, ("this one",))
    assert follow_message(state, RAILS, {"block": "a", "reason": "later"}, NOW)[0].tasks[0].status is TaskStatus.BLOCKED
    assert follow_message(state, RAILS, {"unblock": "b"}, NOW)[0] == state


def test_the_whole_says_where_it_stands() -> None:
    state = state_of(a="", b="")
    begun = claim(state, "a")
    asking = with_status(with_status(state, "a", TaskStatus.NEEDS_CONTEXT, attempts=1), "b", TaskStatus.PASS)

    assert run_status(PipelineState()) is RunStatus.STARTED
    assert run_status(state) is RunStatus.PLANNED
    assert run_status(begun) is RunStatus.IN_PROGRESS
    assert run_status(asking) is RunStatus.CLARIFYING
    assert run_status(with_status(asking, "a", TaskStatus.BLOCKED, attempts=2)) is RunStatus.BLOCKED
    assert run_status(with_status(asking, "a", TaskStatus.PASS)) is RunStatus.DONE


def lives(chance: Random) -> Iterator[tuple[PipelineState, Move]]:
    """Yield the states and moves of a pipeline of any shape, whose agents and validators do anything."""
    names = "abcdef"[: chance.randint(1, 6)]
    state = state_of(
        **{id: "".join(other for other in names[:place] if chance.random() < 0.4) for place, id in enumerate(names)}
    )
    working: set[TaskId] = set()
    for _ in range(500):
        if chance.random() < 0.1:
            working.clear()  # a kill
        move = next_move(state, RAILS, working=working, own=(), most=chance.randint(1, 3))
        yield state, move
        match move:
            case Reclaim(task=id):
                most = most_attempts(record_of(state, id), state.plan[0], RAILS)
                what = decide(ValidatorStatus.FAIL, Recommendation.NONE, attempts=record_of(state, id).attempts, most=most)
                state = end_attempt(state, id, what.status, ["cut off"], "", "", NOW)
            case Start(task=id):
                state = claim(state, str(id))
                working.add(id)
            case Judge(task=id):
                status, said = chance.choice(list(ValidatorStatus)), chance.choice(list(Recommendation))
                record = record_of(state, id)
                what = decide(status, said, attempts=record.attempts, most=most_attempts(record, state.plan[0], RAILS))
                if what.status is TaskStatus.PASS:
                    state = pass_with_proof(state, id, (), "", NOW, 1)
                else:
                    state = end_attempt(state, id, what.status, ["no"], "", "no", NOW)
            case Rest():
                id = chance.choice(sorted(working))
                working.discard(id)
                state = record_submission(state, id, Built(contract="{}"), NOW)
            case _:
                return


@pytest.mark.parametrize("seed", range(300))
def test_whatever_agents_do_a_pipeline_comes_to_an_end_within_its_attempts(seed: int) -> None:
    moves = list(lives(Random(seed)))

    assert isinstance(moves[-1][1], Done | Stuck)
    for state, move in moves:
        passing = {task.id for task in state.tasks if task.status is TaskStatus.PASS}
        assert all(task.attempts <= 2 for task in state.tasks)
        if isinstance(move, Start):
            assert passing.issuperset(next(note for note in state.plan if note.id == move.task).after)
        assert all(passing.issuperset(note.after) for note in state.plan if note.id in passing)
