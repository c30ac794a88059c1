"""The loop of a pipeline: claims before work, side by side, judged by code, retried by the table, set back when stale."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from harnesses import Agent, AgentRun, BudgetExhausted, Ending, LocalRuntime, Waiting
from harnesses.governance import EvidencePolicy, Grade, Guardrails
from harnesses.pipeline import PipelineHarness, PipelineInvalid, Task
from harnesses.pipeline.stage_work import StageWork
from orchestrator import MemoryStore, Orchestrator

from .scripted import (
    Builders,
    Work,
    contract,
    honest,
    judging,
    pipeline,
    stages,
    statuses,
    verdict,
    write,
    write_artifacts,
)


def prose(work: Work) -> str:
    return "All done. Everything works, I have tested it thoroughly."


def kinds(harness: PipelineHarness) -> list[str]:
    return [f"{step.input.kind} {step.input.task}".strip() for step in harness.step_history]


async def test_a_pipeline_is_complete_when_every_task_passes(tmp_path: Path, autojump_clock: MockClock) -> None:
    harness = pipeline(tmp_path / "w", "a", "b", chain=True)

    assert await harness.run() is Ending.COMPLETED
    assert statuses(harness) == {"a": "PASS", "b": "PASS"}
    assert kinds(harness) == ["plan", "claim a", "build a", "judge a", "claim b", "build b", "judge b"]


async def test_a_claim_is_on_record_before_its_work_begins(tmp_path: Path, autojump_clock: MockClock) -> None:
    seen: list[int] = []
    harness = pipeline(
        tmp_path / "w", "a", agents=Builders({"a": lambda work: (seen.append(harness.current_step), honest(work))[1]})
    )

    await harness.run()

    assert seen == [2]
    assert harness.step_history[1].input.kind == "claim"


async def test_stages_that_do_not_depend_on_each_other_are_worked_side_by_side(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    builders = Builders(pause_s=100.0)
    began = trio.current_time()

    await pipeline(tmp_path / "w", "a", "b", "c", agents=builders).run()

    assert builders.most_at_work == 3
    assert trio.current_time() - began < 110


async def test_no_more_are_worked_at_a_time_than_allowed(tmp_path: Path, autojump_clock: MockClock) -> None:
    builders = Builders()

    await pipeline(tmp_path / "w", "a", "b", "c", "d", "e", agents=builders, max_parallel=2).run()

    assert builders.most_at_work == 2


async def test_two_runs_of_one_pipeline_make_the_same_steps(tmp_path: Path, autojump_clock: MockClock) -> None:
    told: list[list[str]] = []
    for name in ("one", "two"):
        harness = pipeline(tmp_path / name, "a", "b", "c", "d", agents=Builders({"b": [prose, honest]}))
        await harness.run()
        told.append([*kinds(harness), *(step.output.note for step in harness.step_history)])

    assert told[0] == told[1]


async def test_prose_does_not_pass_and_the_next_attempt_is_told_why(tmp_path: Path, autojump_clock: MockClock) -> None:
    harness = pipeline(tmp_path / "w", "a", agents=Builders({"a": [prose, honest]}))

    await harness.run()

    assert kinds(harness) == ["plan", "claim a", "build a", "judge a", "claim a", "build a", "judge a"]
    assert harness.step_history[3].output.status == "FAIL"
    assert "nothing was submitted" in harness.state.tasks[0].prompt
    assert "This is attempt 2." in harness.state.tasks[0].prompt


async def test_a_task_has_two_attempts_and_is_then_blocked(tmp_path: Path, autojump_clock: MockClock) -> None:
    harness = pipeline(tmp_path / "w", "a", agents=Builders({"a": prose}))

    with pytest.raises(Waiting, match=r"BLOCKED: a \(.*send"):
        await harness.run()

    assert statuses(harness) == {"a": "BLOCKED"}
    assert harness.state.tasks[0].attempts == 2
    assert [event["type"] for event in harness.step_history[-1].output.events][-1] == "guardrail_triggered"


async def test_what_is_blocked_holds_up_what_waits_for_it_and_nothing_else(tmp_path: Path, autojump_clock: MockClock) -> None:
    given = (*stages("a", "b", chain=True), *stages("c", "d", chain=True))
    harness = pipeline(tmp_path / "w", stages=given, agents=Builders({"a": prose}))

    with pytest.raises(Waiting):
        await harness.run()

    assert statuses(harness) == {"a": "BLOCKED", "b": "PENDING", "c": "PASS", "d": "PASS"}


async def test_an_agent_that_raises_harms_no_other(tmp_path: Path, autojump_clock: MockClock) -> None:
    def fails(work: Work) -> object:
        raise RuntimeError("no answer")

    harness = pipeline(tmp_path / "w", "a", "b", agents=Builders({"a": [fails, honest]}))

    assert await harness.run() is Ending.COMPLETED
    assert "RuntimeError: no answer" in harness.state.tasks[0].prompt


async def test_an_agent_that_takes_too_long_is_cut_off(tmp_path: Path, autojump_clock: MockClock) -> None:
    async def for_ever(work: Work) -> object:
        await trio.sleep_forever()

    harness = pipeline(tmp_path / "w", "a", agents=Builders({"a": [for_ever, honest]}), agent_limit_s=60.0)

    assert await harness.run() is Ending.COMPLETED
    assert "expected it to end within 60 s" in harness.state.tasks[0].prompt


async def test_a_budget_that_is_spent_in_an_agent_ends_the_pipeline(tmp_path: Path, autojump_clock: MockClock) -> None:
    def spends(work: Work) -> object:
        raise BudgetExhausted("no money left")

    with pytest.raises(BudgetExhausted, match="no money left"):
        await pipeline(tmp_path / "w", "a", "b", agents=Builders({"a": spends})).run()


@pytest.mark.parametrize(
    ("recommendation", "status"),
    [("none", "FAIL"), ("retry_builder", "FAIL"), ("ask_user", "NEEDS_CONTEXT"), ("block", "BLOCKED")],
)
async def test_what_a_validator_recommends_is_what_happens(
    tmp_path: Path, autojump_clock: MockClock, recommendation: str, status: str
) -> None:
    said = {"status": "FAIL", "issues": ["not good"], "retry_recommendation": recommendation}
    harness = pipeline(tmp_path / "w", "a", validators=judging(lambda inspection: verdict(inspection, **said)))

    with pytest.raises(Waiting):
        await harness.run()

    judged = next(step for step in harness.step_history if step.input.kind == "judge")
    assert judged.output.status == status


async def test_failures_are_claimed_before_what_was_never_tried(tmp_path: Path, autojump_clock: MockClock) -> None:
    builders = Builders({"a": [prose, honest]})

    await pipeline(tmp_path / "w", "a", "b", "c", agents=builders, max_parallel=1).run()

    assert builders.begun == [("a", 1), ("a", 2), ("b", 1), ("c", 1)]


async def test_a_pass_and_its_proof_are_one_commit(tmp_path: Path, autojump_clock: MockClock) -> None:
    harness, runtime = pipeline(tmp_path / "w", "a"), LocalRuntime("p")

    await harness.run(runtime)

    passed = harness.state.tasks[0].passed_step
    attached = [(one.kind, json.loads(one.body)) for step, one in runtime.attached if step == passed]
    assert {"artifact", "files", "validator", "validation"} <= {body["kind"] for kind, body in attached if kind == "evidence"}
    assert "stage_completed" in {body["type"] for kind, body in attached if kind == "task"}


async def test_a_grade_of_evidence_that_is_asked_for_and_not_there_refuses(tmp_path: Path, autojump_clock: MockClock) -> None:
    harness = pipeline(tmp_path / "w", "a", evidence_policy=EvidencePolicy(Grade.RERUN))

    with pytest.raises(Waiting):
        await harness.run()

    assert "expected a PASS with rerun evidence or better" in harness.state.tasks[0].note


async def test_a_builder_that_needs_something_asks_a_person_and_goes_on_with_the_answer(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    blocked = lambda work: contract(work, write_artifacts(work), status="BLOCKED", summary="which database is meant?")  # noqa: E731
    harness, runtime = pipeline(tmp_path / "w", "a", agents=Builders({"a": [blocked, honest]})), LocalRuntime("p")
    with pytest.raises(Waiting, match="which database is meant"):
        await harness.run(runtime)

    await runtime.send("p", {"answer": {"task": "a", "text": "the second one"}})

    assert statuses(harness) == {"a": "NEEDS_CONTEXT"}
    assert await harness.run(runtime) is Ending.COMPLETED
    assert "the second one" in harness.state.tasks[0].prompt


async def test_a_person_can_let_a_blocked_task_have_one_more_attempt(tmp_path: Path, autojump_clock: MockClock) -> None:
    builders = Builders({"a": [prose, prose, honest]})
    harness, runtime = pipeline(tmp_path / "w", "a", agents=builders), LocalRuntime("p")
    with pytest.raises(Waiting):
        await harness.run(runtime)

    await runtime.send("p", {"unblock": "a"})

    assert await harness.run(runtime) is Ending.COMPLETED
    assert builders.begun == [("a", 1), ("a", 2), ("a", 3)]


@pytest.mark.parametrize(
    "order", [{"unblock": "z"}, {"unblock": "../a"}, "rubbish", {"answer": {"task": "a"}}, {"unblock": "a"}]
)
async def test_an_order_that_can_not_be_followed_changes_nothing_and_has_an_answer(
    tmp_path: Path, autojump_clock: MockClock, order: object
) -> None:
    harness, runtime = pipeline(tmp_path / "w", "a", "b", chain=True), LocalRuntime("p")
    await runtime.send("p", order)

    assert await harness.run(runtime) is Ending.COMPLETED
    said = next(step for step in harness.step_history if step.input.kind == "orders")
    assert "was not followed" in said.output.note


async def test_a_claim_that_was_cut_off_counts_as_an_attempt_and_is_given_back(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    builders = Builders(pause_s=50.0)
    harness = pipeline(tmp_path / "w", "a", agents=builders)
    with trio.move_on_after(10):
        await harness.run()

    await harness.run()

    assert kinds(harness) == ["plan", "claim a", "reclaim a", "claim a", "build a", "judge a"]
    assert harness.step_history[2].output.events[0]["type"] == "claim_reclaimed"
    assert builders.begun == [("a", 1), ("a", 2)]


@pytest.mark.parametrize("how", ["stop", "cancel", "wait"])
async def test_an_agent_that_records_its_calls_goes_on_with_its_claim_after_a_stop(
    how: str, tmp_path: Path, autojump_clock: MockClock
) -> None:
    acts, store = list[str](), MemoryStore()

    async def work(run: AgentRun[Any, Work]) -> object:
        await run.once("one", acts.append, "one")
        if life == 0 and how == "wait":
            raise Waiting("a person decides")
        await trio.sleep(1_000 if life == 0 else 1)
        await run.once("two", acts.append, "two", approval="pay")
        return honest(run.input)

    for life in range(3):
        harness = pipeline(tmp_path / "w", "a", agents=Agent(work, name="b" * 70))
        async with trio.open_nursery() as nursery, Orchestrator(store, handle_signals=False) as orchestrator:
            handle = orchestrator.start(harness, name="p")
            await trio.sleep(10)
            if life == 2:
                await orchestrator.approve(store.approvals()[0].id, by="ann")
                await handle.wait()
            elif how == "cancel":
                nursery.cancel_scope.cancel()
            await handle.stop()

    assert harness.is_complete()
    assert kinds(harness) == ["plan", "claim a", "build a", "judge a"]
    assert acts == ["one", "two"]
    assert len(store.approvals()) == 1


async def test_a_claim_that_is_cut_off_again_and_again_is_blocked(tmp_path: Path, autojump_clock: MockClock) -> None:
    harness = pipeline(tmp_path / "w", "a", agents=Builders(pause_s=50.0))
    for _ in range(2):
        with trio.move_on_after(10):
            await harness.run()

    with pytest.raises(Waiting, match="was interrupted"):
        await harness.run()

    assert statuses(harness) == {"a": "BLOCKED"}


async def test_what_was_handed_in_is_judged_after_a_stop_not_built_again(tmp_path: Path, autojump_clock: MockClock) -> None:
    async def slowly(inspection: Any) -> object:
        await trio.sleep(50)
        return verdict(inspection)

    builders = Builders()
    harness = pipeline(tmp_path / "w", "a", agents=builders, validators=judging(slowly))
    with trio.move_on_after(10):
        await harness.run()

    assert await harness.run() is Ending.COMPLETED
    assert builders.begun == [("a", 1)]


async def test_evidence_that_has_turned_stale_sets_back_the_task_and_what_waits_for_it(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    def meddles(work: Work) -> object:
        write(work, "run/artifacts/stages/a/a.json", '{"said": "something else"}')
        return honest(work)

    harness = pipeline(tmp_path / "w", "a", "b", "c", chain=True, agents=Builders({"c": [meddles, honest]}))

    assert await harness.run() is Ending.COMPLETED
    back = next(step for step in harness.step_history if step.input.kind == "set_back")
    assert [event["task_id"] for event in back.output.events] == ["a", "b", "c"]
    assert [task.attempts for task in harness.state.tasks] == [2, 2, 2]


async def test_a_complete_pipeline_whose_files_have_changed_is_opened_again(tmp_path: Path, autojump_clock: MockClock) -> None:
    harness = pipeline(tmp_path / "w", "a", "b")
    await harness.run()
    done = harness.current_step

    (tmp_path / "w/run/artifacts/stages/b/b.json").write_text('{"said": "forged"}')

    assert harness.reopens()
    await harness.run()
    assert kinds(harness)[done:] == ["set_back b", "claim b", "build b", "judge b"]


async def test_a_complete_pipeline_that_is_as_it_was_does_nothing(tmp_path: Path, autojump_clock: MockClock) -> None:
    harness = pipeline(tmp_path / "w", "a")
    await harness.run()

    assert not harness.reopens()


async def test_the_artifact_of_a_stage_of_two_tasks_is_spoken_for_by_the_later_one(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    def another(work: Work) -> object:
        return contract(work, write_artifacts(work, said=str(work.task.id)))

    tasks = (
        Task(id="t1", title="First", stages=("a", "b")),
        Task(id="t2", title="Second", stages=("b",), after=("t1",)),
    )
    harness = pipeline(tmp_path / "w", "a", "b", tasks=tasks, agents=Builders({"t1": another, "t2": another}))

    assert await harness.run() is Ending.COMPLETED
    assert [task.set_backs for task in harness.state.tasks] == [0, 0]


async def test_another_pipeline_under_the_same_name_is_refused(tmp_path: Path, autojump_clock: MockClock) -> None:
    harness = pipeline(tmp_path / "w", "a", agents=Builders({"a": prose}))
    with pytest.raises(Waiting):
        await harness.run()
    other = pipeline(tmp_path / "w", "a", "b")
    other.restore(harness.state, harness.current_step, lambda after, limit: harness.step_history[after : after + limit])

    with pytest.raises(PipelineInvalid, match="is not the one being worked"):
        await other.run()


def test_a_pipeline_needs_validators_unless_it_says_otherwise(tmp_path: Path) -> None:
    with pytest.raises(PipelineInvalid, match="has no validator"):
        pipeline(tmp_path / "w", "a", validators=None)

    pipeline(tmp_path / "w", "a", validators=None, guardrails=Guardrails(require_validator_contract=False))


def test_who_builds_can_not_judge(tmp_path: Path) -> None:
    one: Agent[Any, Any, Any] = judging(name="the one")

    with pytest.raises(PipelineInvalid, match="expected another validator"):
        pipeline(tmp_path / "w", "a", agents=one, validators=one)
    with pytest.raises(PipelineInvalid, match="are the same"):
        pipeline(tmp_path / "w", "a", agents=judging(name="One"), validators=judging(name="one "))


@pytest.mark.parametrize("folder", ["..", "../run", "/tmp/run", ".", "run/../.."])
def test_a_run_folder_outside_of_the_workspace_is_refused(tmp_path: Path, folder: str) -> None:
    with pytest.raises(PipelineInvalid, match="below the workspace"):
        PipelineHarness(
            stages("a"), agents=Builders(), validators=judging(), workspace=tmp_path / "w", goal="g", run_folder=folder
        )


async def test_what_comes_to_its_end_within_the_grace_of_a_stop_is_one_step(tmp_path: Path, autojump_clock: MockClock) -> None:
    harness, runtime = pipeline(tmp_path / "w", "a", "b", "c", agents=Builders(pause_s=3.0)), LocalRuntime("p")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(harness.run, runtime)
        await trio.sleep(1)
        runtime.control.stop(10.0)

    last = harness.step_history[-1]
    assert [event["task_id"] for event in last.output.events] == ["a", "b", "c"]
    assert all(task.built is not None for task in harness.state.tasks)
    assert await harness.run() is Ending.COMPLETED
    assert [task.attempts for task in harness.state.tasks] == [1, 1, 1]


async def test_agents_that_do_effects_work_side_by_side_while_steps_are_recorded(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    done: list[str] = []

    async def think(what: str, pause_s: float) -> str:
        await trio.sleep(pause_s)
        done.append(what)
        return what

    class Thinking(Builders):
        async def _work(self, run: AgentRun[Any, StageWork]) -> object:
            name = str(run.input.task.id)
            for number in range(5):
                what = f"{name} {number}"
                assert await run.once(str(number), think, what, 1.0 + ord(name) % 7, errors="keep") == what
            return await super()._work(run)

    harness = pipeline(tmp_path / "w", "a", "b", "c", agents=Thinking())

    assert await harness.run(LocalRuntime("p")) is Ending.COMPLETED
    assert sorted(done) == [f"{name} {number}" for name in "abc" for number in range(5)]


async def test_an_agent_that_takes_longer_than_the_grace_of_a_stop_is_cut_off(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    harness, runtime = pipeline(tmp_path / "w", "a", agents=Builders(pause_s=300.0)), LocalRuntime("p")
    began = trio.current_time()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(harness.run, runtime)
        await trio.sleep(1)
        runtime.control.stop(10.0)

    assert trio.current_time() - began < 11
    assert statuses(harness) == {"a": "IN_PROGRESS"}


async def test_when_the_money_is_spent_others_come_to_their_end_and_nothing_new_begins(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    def spends(work: Work) -> object:
        raise BudgetExhausted("no money left")

    async def slowly(work: Work) -> object:
        await trio.sleep(100)
        return honest(work)

    builders = Builders({"a": spends, "b": slowly})
    harness = pipeline(tmp_path / "w", "a", "b", "c", agents=builders, max_parallel=2)

    with pytest.raises(BudgetExhausted):
        await harness.run()

    assert [task.built is not None for task in harness.state.tasks] == [False, True, False]
    assert builders.begun == [("a", 1), ("b", 1)]


async def test_work_handed_in_for_another_claim_is_not_even_looked_at(tmp_path: Path, autojump_clock: MockClock) -> None:
    looked: list[str] = []

    def judges(inspection: Any) -> object:
        looked.append(str(inspection.task.id))
        return verdict(inspection)

    foreign = lambda work: {**honest(work), "nonce": "f" * 32}  # noqa: E731
    harness = pipeline(tmp_path / "w", "a", agents=Builders({"a": [foreign, honest]}), validators=judging(judges))

    await harness.run()

    assert looked == ["a"]
    assert "only the attempt in progress can be judged" in harness.state.tasks[0].prompt
