"""The cases that any harness of this kind must pass: from the first start of a list to its completion over many runs."""

from __future__ import annotations

import threading

import pytest
import trio
from attrs import evolve

from harnesses import Agent, Ending, Waiting
from harnesses.features import (
    ChatFailed,
    FailFast,
    Feature,
    FeatureHarness,
    FeatureStatus,
    InvalidRequest,
    NotReady,
    RunPolicy,
    RunStatus,
    StreamingAgent,
    TurnEvent,
    TurnEventKind,
    TurnResult,
    ValidationFailed,
    accept_all,
)
from harnesses.features.planning.next_move import is_complete
from orchestrator.store.in_memory.memory_store import MemoryStore
from orchestrator.testing import run_to_end
from tests.harnesses.features.worked import PATIENT, Judge, Worker, features, harness, passing, told

STRICT = RunPolicy()
STRICT_PATIENT = RunPolicy(max_turns_per_feature=3, max_retries_per_feature=2, fail_fast=PATIENT)


async def again(make, count=1, store=None):
    """Run `make()` to its end `count` times over one store, and return the last one's ending and object."""
    store = store or MemoryStore()
    for _ in range(count):
        work = make()
        end = await run_to_end(work, store=store)
    return end, work, store


# the first start


async def test_the_first_start_leaves_manifest_features_and_progress_in_one_step(autojump_clock):
    work = harness(policy=STRICT, progress_summary="off we go", active_branch="trunk")

    await work.run()

    first = work.step_history[0]
    assert (first.input.kind, first.output.status) == ("initialize", "done")
    assert set(first.state_delta.modified) == {"manifest", "features", "standings", "progress"}
    assert work.state.manifest.active_branch == "trunk"
    assert work.state.progress[0].summary == "off we go"
    assert work.initialized.created
    assert work.initialized.feature_count == 3


async def test_a_second_start_keeps_what_is_stored(autojump_clock):
    _, first, store = await again(lambda: harness(policy=STRICT))

    second = harness(policy=STRICT, list=features("xyz"))
    await run_to_end(second, store=store)

    assert [feature.id for feature in second.state.features] == ["a", "b", "c"]
    assert not second.initialized.created
    assert second.initialized.feature_count == 3
    assert second.state.manifest == first.state.manifest


async def test_a_second_start_with_another_list_says_so(autojump_clock):
    _, _, store = await again(lambda: harness(policy=STRICT))

    end = await run_to_end(harness(policy=STRICT, list=features("abx")), store=store)

    said = [step.state_delta.summary for step in end.steps if step.state_delta.summary.startswith("! ")]
    assert len(said) == 1
    assert "new: x; gone: c" in said[0]


@pytest.mark.parametrize("objective", ["", "  \n"])
def test_a_blank_objective_is_refused(objective):
    with pytest.raises(InvalidRequest, match=r"InvalidRequest: .*objective"):
        FeatureHarness(Worker().agent, Judge(), objective=objective, features=features())


async def test_an_empty_list_stands_for_the_starter_skeleton(autojump_clock):
    work = harness(list=[], policy=STRICT)

    await work.run()

    assert len(work.state.features) == 6
    assert [feature.category for feature in work.state.features].count("quality") == 1


@pytest.mark.parametrize(
    "wrong",
    [
        [*features("ab"), *features("a")],
        [evolve(features("a")[0], passes=True)],
        [evolve(features("a")[0], id=" ")],
        [evolve(features("a")[0], description="")],
        [evolve(features("a")[0], steps=())],
    ],
)
def test_a_list_with_a_wrong_feature_is_refused_before_anything_is_written(wrong):
    with pytest.raises(InvalidRequest, match="feature"):
        harness(list=wrong)


# one iteration


async def test_bearings_are_got_one_feature_is_worked_and_marked(autojump_clock):
    worker, judge = Worker(), Judge()
    work = harness(worker, judge, policy=STRICT)

    ending = await work.run()

    assert ending is Ending.FINISHED
    assert told(work) == ["initialize done", "turn a1 passed"]
    assert work.step_history[1].output.health.passed
    assert passing(work.state) == "a"
    assert (worker.tries, judge.judged) == (["a1"], ["a1"])


async def test_a_run_ends_with_a_hand_off_and_a_progress_entry_of_the_same_words(autojump_clock):
    work = harness(policy=STRICT)

    await work.run()

    outcome = work.step_history[-1].output.ended
    assert outcome == work.state.runs[-1]
    assert (outcome.run, outcome.status) == (1, RunStatus.SUCCEEDED)
    assert outcome.note == work.state.progress[-1].summary
    assert outcome.note.startswith("validated 1 feature, 2 remaining pending")
    assert work.state.run is None


async def test_what_is_not_validated_stays_false_and_the_run_is_recorded_as_failed(autojump_clock):
    work = harness(validator=Judge(a=9), policy=STRICT)

    await work.run()

    assert passing(work.state) == ""
    assert told(work) == ["initialize done", "turn a1 not_validated"]
    assert work.state.runs[-1].status is RunStatus.FAILED
    assert work.state.runs[-1].note == "feature a not validated"


async def test_the_agent_gets_objective_feature_and_steps_in_words(autojump_clock):
    worker = Worker()

    await harness(worker, policy=STRICT).run()

    prompt = worker.asked[0].prompt
    for words in ("Bring it all about.", "Feature: a", "Category: functional", "Bring about a.", "- it is there"):
        assert words in prompt


async def test_a_validator_has_to_be_chosen():
    with pytest.raises(TypeError, match="validator"):
        FeatureHarness(Worker().agent, objective="x")
    with pytest.raises(InvalidRequest, match="no validator was given"):
        FeatureHarness(Worker().agent, None, objective="x")


def test_without_an_agent_it_is_not_ready():
    with pytest.raises(NotReady, match="NotReady: no agent"):
        FeatureHarness(None, Judge(), objective="x")


async def test_accept_all_accepts_when_it_is_asked_for(autojump_clock):
    work = harness(validator=accept_all())

    assert await work.run() is Ending.COMPLETED


async def test_a_selector_of_ones_own_says_which_feature_is_next(autojump_clock):
    class Last:
        def select(self, features, standings):
            return features[-1]

    work = harness(policy=STRICT, selector=Last())

    await work.run()

    assert passing(work.state) == "c"


async def test_a_selector_that_names_nothing_while_work_remains_is_a_validation_error(autojump_clock):
    class Nothing:
        def select(self, features, standings):
            return None

    work = harness(policy=STRICT, selector=Nothing())

    with pytest.raises(ValidationFailed, match=r"Validation: .*selector"):
        await work.run()

    assert work.state.runs[-1].status is RunStatus.FAILED


async def test_a_selector_that_names_what_passes_already_does_not_loop_for_ever(autojump_clock):
    class First:
        def select(self, features, standings):
            return features[0]

    work = harness(selector=First())

    with pytest.raises(ValidationFailed, match="a feature that cannot be worked"):
        await work.run()

    assert passing(work.state) == "a"


async def test_a_selector_that_names_what_is_no_feature_is_a_validation_error(autojump_clock):
    class Naming:
        def select(self, features, standings):
            return "a"

    work = harness(selector=Naming())

    with pytest.raises(ValidationFailed, match=r"selector Naming chose a feature that cannot be worked.*was 'a'"):
        await work.run()

    assert work.state.runs[-1].status is RunStatus.FAILED


# streams


def streaming(*texts):
    async def stream(run):
        for text in texts:
            await trio.sleep(0.1)
            yield TurnEvent(kind=TurnEventKind.TEXT_DELTA, text=text)
        yield TurnEvent.complete(TurnResult(message="".join(texts), artifact="1"))

    return StreamingAgent(stream)


async def test_a_streamed_turn_is_observed_and_handed_off_like_any_other(autojump_clock):
    seen, complete = [], threading.Event()

    def observe(assignment, event):
        seen.append((assignment.feature.id, event.kind, event.text))
        if event.kind is TurnEventKind.TURN_COMPLETE:
            complete.set()

    work = harness(streaming("he", "llo"), policy=STRICT, stream=True, observer=observe)
    await work.run()

    assert complete.wait(10)
    assert seen == [("a", "text_delta", "he"), ("a", "text_delta", "llo"), ("a", "turn_complete", "")]
    assert work.step_history[-1].input.streamed
    assert work.step_history[-1].output.result.message == "hello"
    assert work.state.runs[-1].status is RunStatus.SUCCEEDED


async def test_a_stream_that_ends_before_its_turn_is_complete_is_a_chat_error(autojump_clock):
    async def stream(run):
        yield TurnEvent(kind=TurnEventKind.TEXT_DELTA, text="he")

    policy = RunPolicy(fail_fast=FailFast(on_chat_error=True))
    work = harness(StreamingAgent(stream), policy=policy, stream=True)

    with pytest.raises(ChatFailed, match="stream ended before its turn was complete"):
        await work.run()

    assert work.state.runs[-1].status is RunStatus.FAILED


async def test_a_stream_may_be_any_async_iterator(autojump_clock):
    class Events:
        def __init__(self):
            self._left = [TurnEvent.complete(TurnResult(artifact="1"))]

        def __aiter__(self):
            return self

        async def __anext__(self):
            await trio.lowlevel.checkpoint()
            if not self._left:
                raise StopAsyncIteration
            return self._left.pop()

    work = harness(StreamingAgent(lambda run: Events()), list=features("a"), policy=STRICT)

    assert await work.run() is Ending.COMPLETED


async def test_an_override_is_the_prompt_to_the_letter_and_of_that_feature_alone(autojump_clock):
    worker = Worker()

    await harness(worker, prompt_overrides={"b": "only this"}).run()

    assert [asked.prompt == "only this" for asked in worker.asked] == [False, True, False]


# policies


@pytest.mark.parametrize(
    ("limits", "what"),
    [
        ({"max_turns_per_feature": 0}, "max_turns_per_feature"),
        ({"mode": "strict_incremental", "max_features_per_run": 2}, "max_features_per_run"),
        ({"mode": "bounded_batch", "max_features_per_run": 0}, "max_features_per_run"),
        ({"mode": "endless"}, "mode"),
    ],
)
def test_a_policy_that_contradicts_itself_is_refused(limits, what):
    with pytest.raises(InvalidRequest, match=what):
        RunPolicy(**limits)


def test_unlimited_mode_does_not_look_at_the_number_of_features():
    assert RunPolicy(mode="unlimited_batch", max_features_per_run=0).features_per_run is None


async def test_a_refusal_is_tried_again_within_its_turns_and_retries_and_told_why(autojump_clock):
    worker = Worker()
    work = harness(worker, Judge(a=3), policy=STRICT_PATIENT)

    await work.run()

    assert told(work)[1:] == ["turn a1 not_validated", "turn a2 not_validated", "turn a3 passed"]
    assert [asked.last_failure for asked in worker.asked] == [None, "a is 1", "a is 2"]
    assert "a is 2" in worker.asked[2].prompt


async def test_one_turn_with_three_retries_stops_after_one(autojump_clock):
    worker = Worker()
    policy = RunPolicy(max_turns_per_feature=1, max_retries_per_feature=3, fail_fast=PATIENT)

    await harness(worker, Judge(a=9), policy=policy).run()

    assert worker.tries == ["a1"]


async def test_three_turns_with_one_retry_stop_after_two(autojump_clock):
    worker = Worker()
    policy = RunPolicy(max_turns_per_feature=3, max_retries_per_feature=1, fail_fast=PATIENT)

    await harness(worker, Judge(a=9), policy=policy).run()

    assert worker.tries == ["a1", "a2"]


async def test_a_chat_that_fails_once_is_tried_again(autojump_clock):
    worker = Worker({"a1": ConnectionError("no route")})
    policy = RunPolicy(max_turns_per_feature=2, max_retries_per_feature=1)

    work = harness(worker, policy=policy)
    await work.run()

    assert told(work)[1:] == ["turn a1 chat_failed", "turn a2 passed"]
    assert worker.asked[1].last_failure == "ConnectionError: no route"


async def test_a_chat_error_ends_the_run_at_once_if_that_is_wanted(autojump_clock):
    cause = ConnectionError("no route")
    policy = RunPolicy(max_turns_per_feature=2, max_retries_per_feature=1, fail_fast=FailFast(on_chat_error=True))
    work = harness(Worker({"a1": cause}), policy=policy)

    with pytest.raises(ChatFailed, match=r"Chat: .*no route") as caught:
        await work.run()

    assert caught.value.__cause__ is cause
    assert work.state.runs[-1].note.startswith("Run failed: Chat")


async def test_a_bounded_batch_of_two_works_two_of_three(autojump_clock):
    work = harness(policy=RunPolicy(mode="bounded_batch", max_features_per_run=2))

    await work.run()

    assert passing(work.state) == "ab"
    assert work.state.runs[-1].processed_feature_ids == ("a", "b")


async def test_unlimited_works_all_and_completes(autojump_clock):
    work = harness(policy=RunPolicy(mode="unlimited_batch"))

    ending = await work.run()

    assert ending is Ending.COMPLETED
    assert work.state.runs[-1].no_pending_features
    assert work.state.runs[-1].note == "completion gate satisfied"


async def test_a_feature_that_uses_up_its_tries_does_not_starve_the_rest(autojump_clock):
    work = harness(validator=Judge(a=9))

    with pytest.raises(Waiting, match=r"blocked: a: .*unblock"):
        await work.run()

    assert passing(work.state) == "bc"
    assert work.state.standings[0].status is FeatureStatus.BLOCKED


# completion


async def test_it_is_not_complete_while_one_required_feature_remains(autojump_clock):
    work = harness(policy=RunPolicy(mode="bounded_batch", max_features_per_run=2))

    ending = await work.run()

    assert ending is Ending.FINISHED
    assert not work.is_complete()


def test_an_empty_list_is_never_complete():
    assert not is_complete(harness().state, STRICT)


async def test_a_fresh_harness_goes_on_with_what_is_stored(autojump_clock):
    _, _, store = await again(lambda: harness(policy=STRICT))

    worker = Worker()
    second = harness(worker, policy=STRICT)
    await run_to_end(second, store=store)

    assert worker.tries == ["b1"]
    assert passing(second.state) == "ab"
    assert [run.run for run in second.state.runs] == [1, 2]


async def test_run_after_run_it_comes_to_completion(autojump_clock):
    store, ends = MemoryStore(), []

    for _ in range(4):
        end = await run_to_end(harness(policy=STRICT), store=store)
        ends.append(str(end.outcome.kind))

    assert ends == ["finished", "finished", "completed", "completed"]
    assert passing(end.state) == "abc"
    assert len(end.state.runs) == 3


# phases


class Noting:
    """Hooks that note what they are told."""

    def __init__(self, count):
        self.told, self._count, self.all = [], count, threading.Event()

    def on_phase_start(self, phase, harness, run):
        self._note("start", phase, run)

    def on_phase_success(self, phase, harness, run, elapsed_s):
        self._note("success", phase, run)

    def on_phase_failure(self, phase, harness, run, error, elapsed_s):
        self._note("failure", phase, run)

    def _note(self, *what):
        self.told.append(what)
        if len(self.told) == self._count:
            self.all.set()


async def test_hooks_are_told_of_success_in_order(autojump_clock):
    hooks = Noting(4)

    await harness(policy=STRICT, hooks=hooks).run()

    assert hooks.all.wait(10)
    assert hooks.told == [
        ("start", "initializer", 0),
        ("success", "initializer", 0),
        ("start", "task_iteration", 1),
        ("success", "task_iteration", 1),
    ]


async def test_hooks_are_told_of_failure_once(autojump_clock):
    hooks = Noting(4)

    await harness(validator=Judge(a=9), policy=STRICT, hooks=hooks).run()

    assert hooks.all.wait(10)
    assert hooks.told[2:] == [("start", "task_iteration", 1), ("failure", "task_iteration", 1)]


async def test_hooks_that_lack_a_method_do_not_break_a_run(autojump_clock):
    class Started:
        def __init__(self):
            self.told, self.twice = [], threading.Event()

        def on_phase_start(self, phase, harness, run):
            self.told.append(phase)
            if len(self.told) == 2:
                self.twice.set()

    hooks = Started()

    ending = await harness(policy=STRICT, list=features("a"), hooks=hooks).run()

    assert ending is Ending.COMPLETED
    assert hooks.twice.wait(10)


# what an agent's stream yields


@pytest.mark.parametrize("kind", TurnEventKind)
async def test_an_event_of_each_kind_reaches_the_observer_unchanged_and_in_its_order(autojump_clock, kind):
    seen, complete = [], threading.Event()
    end = TurnEvent.complete(TurnResult(message="done", artifact="1"))
    told = TurnEvent(kind=kind, text="some", tool="read", call_id="7", error="no such file", rounds=3)
    before, after = (TurnEvent(kind=TurnEventKind.TEXT_DELTA, text=text) for text in ("before", "after"))
    events = [before, end] if kind is TurnEventKind.TURN_COMPLETE else [before, told, after, end]

    def observe(assignment, event):
        seen.append(event)
        if event == end:
            complete.set()

    async def stream(run):
        for event in events:
            yield event

    await harness(StreamingAgent(stream), policy=STRICT, list=features("a"), stream=True, observer=observe).run()

    assert complete.wait(10)
    assert seen == events


async def test_a_plain_agent_can_be_streamed_and_gives_the_last_event_alone(autojump_clock):
    seen, complete = [], threading.Event()

    def observe(assignment, event):
        seen.append(event.kind)
        complete.set()

    await harness(policy=STRICT, stream=True, observer=observe).run()

    assert complete.wait(10)
    assert seen == [TurnEventKind.TURN_COMPLETE]


async def test_an_agent_that_hands_in_something_else_has_failed(autojump_clock):
    async def run(run):
        return "done"

    work = harness(Agent(run), policy=STRICT)

    await work.run()

    assert told(work)[-1] == "turn a1 chat_failed"
    assert "expected a TurnResult" in work.state.standings[0].last_failure


def test_a_feature_takes_one_step_as_a_text():
    assert Feature("a", "Do a.", steps="it is done").steps == ("it is done",)


def test_a_prompt_for_a_feature_that_is_not_there_is_refused():
    with pytest.raises(InvalidRequest, match=r"prompt_overrides.*'z'"):
        harness(prompt_overrides={"a": "Do.", "z": "Do."})
