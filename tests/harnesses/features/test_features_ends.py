"""By whatever way a run ends, it is handed off: in its last step, or at the next start. No try is left in progress."""

from __future__ import annotations

import json
from decimal import Decimal

import pytest
import trio
from attrs import evolve

from harnesses import Agent, Budget, Control, DeadlineExceeded, Ending, LocalRuntime, StepTimeout, Waiting
from harnesses.errors import HarnessMisuse
from harnesses.features import (
    ChatFailed,
    FailFast,
    FeatureHarness,
    HealthCheckFailed,
    InvalidRequest,
    MemoryFailed,
    RunPolicy,
    TurnResult,
    ValidationFailed,
    Verdict,
)
from harnesses.features.loop.feature_attempts import retry_delay
from harnesses.features.loop.feature_workplace import Workplace
from orchestrator import Orchestrator
from orchestrator.errors import HarnessFailed
from orchestrator.kill_switch import Latch
from orchestrator.store.in_memory.memory_store import MemoryStore
from tests.harnesses.features.worked import Judge, Raising, Worker, harness, passing, told

STRICT = RunPolicy()


class Unwell:
    async def check(self, plan, directory):
        await trio.lowlevel.checkpoint()
        return Verdict(passed=False, evidence="exit code 3")


class Broken:
    async def check(self, plan, directory):
        raise OSError("no such place")


def runs(work) -> list[tuple[int, str]]:
    return [(run.run, str(run.status)) for run in work.state.runs]


async def started(work, runtime=None, *, after_s: float, then) -> Ending | None:
    """Run `work`, and do something with its runtime after a while."""
    runtime = runtime or LocalRuntime("work")
    ending = None

    async def run():
        nonlocal ending
        ending = await work.run(runtime)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(run)
        await trio.sleep(after_s)
        then(runtime.control)
    return ending


# errors


async def test_after_a_validator_that_fails(autojump_clock):
    cause = OSError("disk on fire")
    work = harness(validator=Raising(cause))

    with pytest.raises(
        ValidationFailed, match=r"^Validation: feature 'a': the validator failed: OSError: disk on fire"
    ) as caught:
        await work.run()

    assert caught.value.__cause__ is cause
    assert told(work) == ["initialize done", "turn a1 failed"]
    assert runs(work) == [(1, "failed")]
    assert work.state.standings[0].tries == 0


async def test_after_a_validator_that_fails_when_a_feature_is_judged_anew(autojump_clock):
    class Second(Judge):
        async def validate(self, feature, work):
            if feature.passes:
                raise OSError("disk on fire")
            return await super().validate(feature, work)

    work = harness(validator=Second())

    with pytest.raises(ValidationFailed, match="feature 'a'"):
        await work.run()

    assert told(work)[1:] == ["turn a1 passed", "turn b1 passed", "recheck a failed"]
    assert runs(work) == [(1, "failed")]


@pytest.mark.parametrize(("check", "says"), [(Unwell(), "exit code 3"), (Broken(), "no such place")])
async def test_after_a_health_check_that_fails(autojump_clock, check, says):
    work = harness(health_check=check)

    with pytest.raises(HealthCheckFailed, match=r"^HealthCheck: ") as caught:
        await work.run()

    assert says in str(caught.value)
    assert told(work) == ["initialize done", "bearings failed"]
    assert says in work.step_history[-1].output.health.evidence
    assert runs(work) == [(1, "failed")]


async def test_a_health_check_that_may_fail_is_kept_as_evidence_and_told_to_the_agent(autojump_clock):
    worker = Worker()
    policy = RunPolicy(fail_fast=FailFast(on_health_check_error=False))
    work = harness(worker, health_check=Unwell(), policy=policy)

    await work.run()

    assert work.step_history[1].output.health == Verdict(passed=False, evidence="exit code 3")
    assert "exit code 3" in worker.asked[0].prompt


async def test_after_a_list_that_was_tampered_with(autojump_clock):
    first = harness(policy=STRICT)
    await first.run()
    a, b, c = first.state.features
    tampered = evolve(first.state, features=(a, evolve(b, description="do nothing"), c))

    work = harness(policy=STRICT, initial_state=tampered)
    with pytest.raises(MemoryFailed, match="feature 'b'"):
        await work.run()

    assert passing(work.state) == "a"


async def test_errors_in_a_group_of_one_are_unwrapped(autojump_clock):
    cause = ConnectionError("no route")

    async def run(run):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep, 5)
            raise cause

    policy = RunPolicy(fail_fast=FailFast(on_chat_error=True))
    with pytest.raises(ChatFailed, match="ConnectionError: no route") as caught:
        await harness(Agent(run), policy=policy).run()

    assert caught.value.__cause__ is cause


async def test_an_error_with_text_that_can_not_be_stored_is_kept_as_it_can(autojump_clock):
    work = harness(Worker({"a1": ValueError("\ud800")}), policy=STRICT)

    await work.run()

    assert work.state.standings[0].last_failure == "ValueError: \\ud800"


# stops


async def test_a_stop_cuts_the_agent_off_and_the_try_does_not_count(autojump_clock):
    work = harness()

    ending = await started(work, after_s=0.5, then=lambda control: control.stop())

    assert ending is Ending.STOPPED
    assert told(work) == ["initialize done", "turn a1 interrupted"]
    assert runs(work) == [(1, "interrupted")]
    assert (work.state.standings[0].tries, work.state.standings[0].interruptions) == (0, 1)


async def test_after_a_stop_the_same_try_is_made_again_in_the_next_run(autojump_clock):
    work = harness()
    await started(work, after_s=0.5, then=lambda control: control.stop())

    await work.run()

    assert told(work)[2:4] == ["turn a1 passed", "turn b1 passed"]
    assert runs(work) == [(1, "interrupted"), (2, "succeeded")]


async def test_a_stop_lets_a_validator_come_to_its_end(autojump_clock):
    work = harness()

    ending = await started(work, after_s=1.5, then=lambda control: control.stop())

    assert ending is Ending.STOPPED
    assert told(work) == ["initialize done", "turn a1 passed"]


async def test_a_run_that_is_stopped_while_a_validator_is_asked_is_handed_off_with_its_verdict(autojump_clock):
    work = harness()

    await started(work, after_s=1.5, then=lambda control: control.stop())

    assert work.state.run is None
    assert runs(work) == [(1, "interrupted")]
    assert work.state.runs[-1].validated_feature_ids == ("a",)


async def test_a_run_that_is_stopped_while_a_feature_is_judged_anew_is_handed_off(autojump_clock):
    work = harness()

    await started(work, after_s=4.5, then=lambda control: control.stop())

    assert told(work)[1:] == ["turn a1 passed", "turn b1 passed", "recheck a passed"]
    assert runs(work) == [(1, "interrupted")]


async def test_a_validator_that_takes_longer_than_the_grace_is_asked_again_about_the_same_work(autojump_clock):
    worker = Worker()
    work = harness(worker, Judge(seconds=60))
    runtime = LocalRuntime("work", Control(grace_s=2))
    await started(work, runtime, after_s=1.5, then=lambda control: control.stop())
    assert told(work) == ["initialize done"]

    second = LocalRuntime("work", after=runtime)
    with trio.move_on_after(100):
        await work.run(second)

    assert told(work)[1] == "turn a1 passed"
    assert worker.tries[:2] == ["a1", "b1"]


async def test_an_agent_that_raises_when_it_is_stopped_was_interrupted(autojump_clock):
    async def run(run):
        try:
            await trio.sleep(10)
        finally:
            raise OSError("the line is cut")

    work = harness(Agent(run))
    await started(work, after_s=0.5, then=lambda control: control.stop())

    assert told(work)[-1] == "turn a1 interrupted"


async def test_an_agent_that_is_done_although_it_is_stopped_is_judged(autojump_clock):
    async def run(run):
        with trio.CancelScope(shield=True):
            await trio.sleep(1)
        return TurnResult(artifact="1")

    work = harness(Agent(run))
    await started(work, after_s=0.5, then=lambda control: control.stop())

    assert told(work)[-1] == "turn a1 passed"


async def test_a_stop_between_two_turns_of_a_failing_agent_hands_off(autojump_clock):
    work = harness(Worker({"a1": ConnectionError("no route")}), chat_delay_s=30)

    await started(work, after_s=5, then=lambda control: control.stop())

    assert told(work)[1:] == ["turn a1 chat_failed", "close interrupted"]
    assert runs(work) == [(1, "interrupted")]


async def test_an_agent_that_fails_is_asked_again_after_a_delay_that_doubles(autojump_clock):
    worker = Worker({"a1": ConnectionError("no route"), "a2": ConnectionError("no route")}, seconds=0)
    began = trio.current_time()

    work = harness(worker, Judge(seconds=0), policy=STRICT_OF_THREE, chat_delay_s=10)
    await work.run()

    assert worker.tries == ["a1", "a2", "a3"]
    assert trio.current_time() - began == pytest.approx(30)


STRICT_OF_THREE = RunPolicy(max_turns_per_feature=3, max_retries_per_feature=2)


def test_an_agent_that_fails_a_thousand_times_is_asked_again_after_the_longest_delay():
    assert retry_delay(0.2, 2000) == 30.0


@pytest.mark.parametrize("seconds", [-1, float("nan"), float("inf"), "1", None, True])
def test_a_delay_that_is_none_is_refused(seconds):
    with pytest.raises(InvalidRequest, match="chat_delay_s"):
        harness(chat_delay_s=seconds)


async def test_what_is_cancelled_is_handed_off_at_the_next_start(autojump_clock):
    work = harness()
    with trio.move_on_after(0.5):
        await work.run()
    assert told(work) == ["initialize done"]

    await work.run()

    assert told(work)[1:3] == ["recover a interrupted", "turn a1 passed"]
    assert runs(work) == [(1, "interrupted"), (2, "succeeded")]


# limits on time and on what may be spent


async def ended(work, store=None, **options):
    """Run `work` in an orchestrator of its own until it ends, and return the outcome."""
    outcome = None
    try:
        async with Orchestrator(MemoryStore() if store is None else store, handle_signals=False) as orchestrator:
            handle = orchestrator.start(work, name="work", restart="temporary", **options)
            async for _ in handle.steps():
                pass
            outcome = handle.outcome
    except* HarnessFailed:
        outcome = handle.outcome
    return outcome


@pytest.mark.parametrize(("limit", "error"), [({"step_timeout_s": 10}, StepTimeout), ({"deadline_s": 70}, DeadlineExceeded)])
async def test_a_try_that_is_out_of_time_is_handed_off_at_the_next_start(autojump_clock, limit, error):
    store, work = MemoryStore(), harness()
    outcome = await ended(harness(Worker(seconds=60)), store, **limit)

    again = await ended(work, store)

    assert isinstance(outcome.error, error)
    assert again.kind == "completed"
    assert runs(work) == [(1, "interrupted"), (2, "succeeded")]
    assert work.state.standings[0].interruptions == (error is StepTimeout)


async def test_a_budget_that_is_spent_ends_the_run_as_interrupted(autojump_clock):
    store, first, second = MemoryStore(), harness(), harness()

    outcome = await ended(first, store, budget=Budget(turns=1))
    again = await ended(second, store, budget=Budget(turns=10))

    assert outcome.kind == "budget_spent"
    assert runs(first) == [(1, "interrupted")]
    assert "BudgetExhausted" in first.state.runs[0].note
    assert again.kind == "completed"
    assert second.state.runs[-1].turns == 3


async def test_a_budget_of_an_agents_own_ends_the_run_likewise(autojump_clock):
    store, asked = MemoryStore(), []

    class Paying(Workplace):
        asks_agent = False

        async def work(self, ask, assignment):
            asked.append(assignment.feature.id)
            async with trio.open_nursery():
                async with first.spending(money=Decimal(1)):
                    return TurnResult(artifact="1")

    first = harness(workplace=Paying(Judge()))
    outcome = await ended(first, store, budget=Budget(money=Decimal(2)))

    assert outcome.kind == "budget_spent"
    assert asked == ["a", "b", "c"]
    assert runs(first) == [(1, "interrupted")]
    assert first.state.standings[2].interruptions == 1


async def test_steps_that_are_spent_leave_the_run_to_the_next_start(autojump_clock):
    store, second = MemoryStore(), harness()

    outcome = await ended(harness(), store, budget=Budget(steps=3))
    again = await ended(second, store, budget=Budget(steps=100))

    assert (outcome.kind, again.kind) == ("budget_spent", "completed")
    assert runs(second) == [(1, "interrupted"), (2, "succeeded")]


async def test_under_the_latch_no_agent_is_asked_and_the_run_is_handed_off(tmp_path):
    store = str(tmp_path / "run.db")
    worker, second = Worker(seconds=0), harness(Worker(seconds=0), Judge(seconds=0))

    async def latching(run):
        Latch(tmp_path / "run.db").put_on()
        return await worker._run(run)

    outcome = await ended(harness(Agent(latching), Judge(seconds=0)), store)
    Latch(tmp_path / "run.db").take_off()
    again = await ended(second, store)

    # It came on while the first agent was at work: that is judged, for a verdict is no act.
    assert (outcome.kind, worker.tries) == ("blocked", ["a1"])
    assert again.kind == "completed"
    assert [(str(run.status), run.turns) for run in second.state.runs] == [("interrupted", 1), ("succeeded", 3)]


async def test_under_the_latch_from_the_beginning_nothing_but_the_list_is_recorded(tmp_path):
    Latch(tmp_path / "run.db").put_on()
    worker = Worker(seconds=0)
    work = harness(worker, Judge(seconds=0))

    outcome = await ended(work, str(tmp_path / "run.db"))

    assert (outcome.kind, worker.tries) == ("blocked", [])
    assert told(work) == ["initialize done"]


# the hand-off that people read


async def test_hand_off_files_say_where_the_work_stands(tmp_path):
    work = harness(Worker(seconds=0), Judge(seconds=0, b=9), handoff=tmp_path / "deep" / "down")

    with pytest.raises(Waiting):
        await work.run()

    handoff = json.loads((tmp_path / "deep" / "down" / "HANDOFF.json").read_text())
    assert [(one["id"], one["status"]) for one in handoff["features"]] == [("a", "passed"), ("b", "blocked"), ("c", "passed")]
    assert handoff["runs"][-1]["status"] == "failed"
    assert "Waiting" in handoff["ended"]
    assert "unblock" in (tmp_path / "deep" / "down" / "HANDOFF.md").read_text()


async def test_hand_off_files_are_written_when_the_run_is_cancelled_and_say_what_was_cut_off(tmp_path):
    work = harness(Worker(seconds=1000), Judge(seconds=0), handoff=tmp_path)

    with trio.move_on_after(0.3):
        await work.run()

    handoff = json.loads((tmp_path / "HANDOFF.json").read_text())
    assert (handoff["cut_off"], handoff["ended"]) == ("a", "cancelled")


async def test_hand_off_files_of_a_list_that_is_complete_say_no_more_than_that(tmp_path):
    work = harness(Worker(seconds=0), Judge(seconds=0), handoff=tmp_path)

    await work.run()

    handoff = json.loads((tmp_path / "HANDOFF.json").read_text())
    assert (handoff["cut_off"], handoff["ended"], handoff["runs"][-1]["status"]) == (None, None, "succeeded")


async def test_hand_off_files_that_can_not_be_written_hide_no_error(tmp_path, caplog):
    (tmp_path / "file").write_text("in the way")
    work = harness(Worker(seconds=0), Raising(OSError("disk on fire")), handoff=tmp_path / "file")

    with pytest.raises(ValidationFailed, match="disk on fire"):
        await work.run()

    assert "could not write its hand-off" in caplog.text


async def test_a_directory_of_another_harness_is_left_as_it_is(tmp_path):
    (tmp_path / "HANDOFF.json").write_text('{"session": "other"}')
    work = harness(Worker(seconds=0), Judge(seconds=0), handoff=tmp_path)

    with pytest.raises(InvalidRequest, match="that of 'other'"):
        await work.run()

    assert told(work) == []
    assert (tmp_path / "HANDOFF.json").read_text() == '{"session": "other"}'


def test_a_subclass_that_overrides_what_is_not_called_any_more_is_refused():
    with pytest.raises(HarnessMisuse, match=r"_accept is no longer called: .* `workplace`"):

        class Earlier(FeatureHarness):
            async def _accept(self, *args):
                return None
