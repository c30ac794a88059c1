"""What people order by message is followed between two steps, and every order has an answer."""

from __future__ import annotations

import pytest
from attrs import evolve

from harnesses import LocalRuntime, Waiting
from harnesses.features import FeatureStatus, RunPolicy
from harnesses.features.loop.feature_workplace import Workplace
from orchestrator.store.in_memory.memory_store import MemoryStore
from orchestrator.testing import run_to_end
from tests.harnesses.features.collaborators import Bench
from tests.harnesses.features.played import NOW
from tests.harnesses.features.worked import Judge, Worker, harness, passing, told


async def ordered(work, *orders):
    """Run `work` alone with orders in its mailbox."""
    runtime = LocalRuntime("work")
    for order in orders:
        await runtime.send("work", order)
    await work.run(runtime)
    return work


async def test_a_blocked_feature_is_not_tried_and_says_why(autojump_clock):
    worker, work = Worker(), harness()
    work = harness(worker)

    with pytest.raises(Waiting, match=r"blocked: b"):
        await ordered(work, {"block": "b", "reason": "not before spring"})

    assert worker.tries == ["a1", "c1"]
    assert told(work)[:2] == ["initialize done", "orders done"]
    assert work.state.standings[1].last_failure == "not before spring"


async def test_an_unblocked_feature_has_all_its_tries_again(autojump_clock):
    store = MemoryStore()
    first = await run_to_end(harness(validator=Judge(b=4)), store=store)

    second = harness(validator=Judge(b=4))
    end = await run_to_end(second, store=store, messages=[{"unblock": "b"}])

    assert (first.outcome.kind, end.outcome.kind) == ("blocked", "completed")
    assert passing(second.state) == "abc"
    assert second.state.standings[1].tries == 4


async def test_a_star_unblocks_every_blocked_feature(autojump_clock):
    store = MemoryStore()
    first = harness(validator=Judge(a=4, b=4))
    await run_to_end(first, store=store)
    blocked = [one.feature_id for one in first.state.standings if one.status is FeatureStatus.BLOCKED]

    second = harness(validator=Judge(a=4, b=4))
    end = await run_to_end(second, store=store, messages=[{"unblock": "*"}, {"unblock": "*"}])

    assert (blocked, end.outcome.kind) == (["a", "b"], "completed")
    notes = [step.output.note for step in second.step_history]
    assert any("2 features are unblocked" in note and "no feature is blocked" in note for note in notes)


async def test_a_prompt_by_order_is_of_that_feature_alone_and_lasts_over_a_restart(autojump_clock):
    store, worker = MemoryStore(), Worker()
    order = {"prompt": {"feature": "b", "text": "only this"}}
    await run_to_end(harness(policy=RunPolicy()), store=store, messages=[order])

    await run_to_end(harness(worker, policy=RunPolicy()), store=store)

    assert [(asked.feature.id, asked.prompt) for asked in worker.asked] == [("b", "only this")]


@pytest.mark.parametrize("nothing", [{}, {"text": None}, {"text": " \n"}])
async def test_a_prompt_by_order_is_taken_back_by_one_without_text(autojump_clock, nothing):
    worker = Worker()
    work = harness(worker, policy=RunPolicy())

    await ordered(work, {"prompt": {"feature": "a", "text": "only this"}}, {"prompt": {"feature": "a", **nothing}})

    assert work.step_history[1].output.note.endswith("feature a has the default prompt again")
    assert "Bring about a." in worker.asked[0].prompt


@pytest.mark.parametrize(
    ("order", "says"),
    [
        ({"unblock": "zebra"}, "'zebra' does not exist"),
        ({"unblock": "a"}, "is not blocked"),
        ({"block": "zebra"}, "'zebra' does not exist"),
        ({"block": "a", "because": "x"}, "unknown message"),
        ({"prompt": {"feature": "zebra", "text": "x"}}, "'zebra' does not exist"),
        ({"prompt": {"feature": "a", "text": 7}}, "unknown message"),
        ({"prompt": {"feature": "a", "text": False}}, "unknown message"),
        ({"prompt": {"feature": "a", "text": "p" * 20_001}}, "expected at most 20000 characters, was 20001"),
        ({"prompt": {"feature": "z" * 9_000, "text": "x"}}, "does not exist"),
        ({"unblock": "z" * 9_000}, "does not exist"),
        ({"block": "z" * 9_000}, "does not exist"),
        ({"dance": True}, "unknown message"),
        ("dance", "unknown message"),
        (None, "unknown message"),
    ],
)
async def test_an_order_that_can_not_be_followed_is_answered_and_changes_nothing(autojump_clock, order, says):
    work = await ordered(harness(), order)

    answer = work.step_history[1]
    assert (answer.input.kind, answer.state_delta.modified) == ("orders", ())
    assert "was not followed" in answer.output.note
    assert says in answer.output.note
    assert len(answer.output.note) < 600
    assert passing(work.state) == "abc"


async def test_orders_that_come_together_are_followed_in_one_step_in_order(autojump_clock):
    work = await ordered(harness(), {"block": "b"}, {"unblock": "b"}, "dance")

    assert told(work)[1] == "orders done"
    assert work.step_history[1].output.note.startswith("feature b is blocked; feature b is unblocked; order")
    assert work.state.standings[1].status is FeatureStatus.PASSED


async def test_a_kind_of_its_own_knows_orders_of_its_own(autojump_clock):
    class Dancing(Workplace):
        async def follow(self, state, message):
            return (state, "danced") if message == "dance" else None

    work = harness(workplace=Dancing(Judge()))
    await ordered(work, "dance", {"block": "zebra"})

    assert work.step_history[1].output.note.startswith("danced; order")


async def test_messages_wait_for_the_next_step_and_those_of_the_workplace_do_not():
    class Counting(Workplace):
        async def follow(self, state, message):
            return (evolve(state, version=state.version + 1), "counted") if message == "count" else None

    bench = Bench(workplace=Counting(Judge()), inbox=[{"block": "a"}, "count", "what?"])
    messages = bench.messages()

    heard = await messages.hear(bench.state)
    state, answers = messages.follow(heard, NOW)

    assert (heard.version, heard.standings[0].status) == (1, FeatureStatus.PENDING)
    assert state.standings[0].status is FeatureStatus.BLOCKED
    assert [answer.partition(" ")[0] for answer in answers] == ["counted", "feature", "order"]
    assert not messages.has_news()


async def test_of_many_messages_a_hundred_are_followed_in_one_step():
    bench = Bench(inbox=["what?"] * 250)
    messages, answered = bench.messages(), []

    while messages.has_news() or bench.inbox:
        await messages.hear(bench.state)
        answered.append(len(messages.follow(bench.state, NOW)[1]))

    assert answered == [100, 100, 50]
