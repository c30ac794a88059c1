"""Laws of turns within harnesses: what is on record, what is charged, and how conversations go on."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import trio
from attrs import define

from harnesses import BaseHarness, Budget, StepYield
from harnesses.agents.chat.chat_policy import ChatPolicy
from harnesses.agents.chat.errors import AnswerInvalid
from harnesses.agents.chat.model_agent import ModelAgent
from harnesses.agents.model.cassette import Cassette
from harnesses.agents.model.errors import ContextTooLong, ProviderUnavailable, RateLimited, RequestRejected
from harnesses.agents.model.messages import Message, ModelOptions, ModelRequest, ModelResponse, Role, StopReason
from harnesses.agents.model.model_client import ModelClient
from harnesses.agents.tools.function_tool import tool
from harnesses.agents.tools.tool import ToolEffect
from harnesses.diagnostics.error_groups import leaves
from harnesses.features import Feature, FeatureHarness, RunPolicy, Verdict
from harnesses.runtime import LocalRuntime
from harnesses.turn_events import TurnEventKind
from orchestrator import MemoryStore, Orchestrator, SqliteStore
from orchestrator.cli.run.live_display import EventLines
from orchestrator.history import transcripts
from tests.harnesses.agents.chat.scripted_model import ScriptedProvider, calls, says, scripted


class Asking(BaseHarness[int, str, str]):
    """Asks its agent a question in each step."""

    def __init__(self, agent: ModelAgent, *questions: str) -> None:
        super().__init__(0)
        self.agent = agent
        self.questions = questions

    def asked_agents(self) -> list[ModelAgent]:
        return [self.agent]

    async def execute(self) -> AsyncIterator[Any]:
        for question in self.questions[self.current_step :]:
            yield StepYield(question, await self.run_agent(self.agent, question))


@tool(effect=ToolEffect.ACTS)
async def act(what: str) -> str:
    """Act."""
    return f"did {what}"


async def run(harness: BaseHarness[Any, Any, Any], store: MemoryStore | None = None, **options: Any) -> Any:
    async with Orchestrator(store or MemoryStore()) as orchestrator:
        handle = orchestrator.start(harness, name="asking", **options)
        return await handle.wait()


def texts(messages: tuple[Message, ...]) -> list[str]:
    return [message.text for message in messages if message.role is not Role.SYSTEM]


async def test_usage_is_summed_over_all_rounds_and_charged_to_the_budget(autojump_clock: object) -> None:
    provider = scripted(says("", calls("act", '{"what": "x"}')), says("done"))
    client = ModelClient([(provider, "script-1")], prices={"scripted:script-1": {"input": 1, "output": 2}})
    harness = Asking(ModelAgent(client, tools=[act]), "q")
    store = MemoryStore()

    assert str(await run(harness, store, budget=Budget(tokens=100_000, money=Decimal(1), tool_calls=5))) == "finished"

    spent = store.accounts(["harness/asking"])["harness/asking"].spent
    assert (spent.tokens, spent.tool_calls, spent.money) == (30, 1, Decimal("0.00004"))


class Both(BaseHarness[int, str, str]):
    """Asks its agent two questions at the same time."""

    def __init__(self, agent: ModelAgent, *, nested: bool = False) -> None:
        super().__init__(0)
        self.agent = agent
        self.nested = nested

    async def execute(self) -> AsyncIterator[Any]:
        answers = dict[str, str]()

        async def ask(key: str) -> None:
            answers[key] = await self.run_agent(self.agent, "q", key=key)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask, "a")
            if self.nested:
                async with self.spending(tokens=100):
                    await ask("b")
            else:
                nursery.start_soon(ask, "b")
        yield StepYield("q", "".join(sorted(answers)))


@define
class SlowProvider(ScriptedProvider):
    """Takes a second for each answer."""

    async def complete(self, request: ModelRequest) -> ModelResponse:
        await trio.sleep(1)
        return await ScriptedProvider.complete(self, request)


@pytest.mark.parametrize("is_alone", [False, True])
async def test_a_call_waits_for_what_another_of_its_harness_has_reserved(is_alone: bool, autojump_clock: object) -> None:
    provider = SlowProvider([says("done")])
    agent = ModelAgent(provider.client(), options=ModelOptions(max_tokens=50))
    budget = Budget(tokens=250)
    harness = Both(agent)

    if is_alone:
        await harness.run(LocalRuntime("both", budget=budget))
    else:
        assert str(await run(harness, budget=budget)) == "finished"
    assert len(provider.requests) == 2


async def test_a_call_within_a_reservation_does_not_wait_for_that(autojump_clock: object) -> None:
    agent = ModelAgent(SlowProvider([says("done")]).client(), options=ModelOptions(max_tokens=50))

    assert "limit 250" in str(await run(Both(agent, nested=True), budget=Budget(tokens=250)))


async def test_a_budget_that_is_too_small_for_the_next_call_ends_the_harness(autojump_clock: object) -> None:
    provider = scripted(says("done"))

    assert "limit 100" in str(await run(Asking(ModelAgent(provider.client()), "q"), budget=Budget(tokens=100)))
    assert provider.requests == []


async def test_a_turn_goes_on_where_it_was_when_its_budget_is_raised(autojump_clock: object) -> None:
    provider = scripted(says("", calls("act", '{"what": "x"}')), says("", calls("act", '{"what": "y"}', "c2")), says("done"))
    store, harness = MemoryStore(), Asking(ModelAgent(provider.client(), tools=[act]), "q")

    assert "tool_calls" in str(await run(harness, store, budget=Budget(tool_calls=1)))
    assert len(provider.requests) == 2
    assert str(await run(harness, store, budget=Budget(tool_calls=5))) == "finished"

    assert len(provider.requests) == 3
    assert [result.text for message in provider.requests[-1].messages for result in message.results] == ["did x", "did y"]


async def test_a_session_goes_on_over_steps_and_restarts(autojump_clock: object) -> None:
    store, provider = MemoryStore(), scripted(says("first"), says("second"), says("third"))
    agent = ModelAgent(provider.client(), session="talk", system="You are brief.")

    await run(Asking(agent, "one", "two"), store)
    await run(Asking(agent, "one", "two", "three"), store)

    assert [message.role for message in provider.requests[-1].messages].count(Role.SYSTEM) == 1
    said = texts(provider.requests[-1].messages)
    assert [text.splitlines()[-1] for text in said] == ["one", "first", "two", "second", "three"]


async def test_a_turn_without_session_stands_alone(autojump_clock: object) -> None:
    provider = scripted(says("first"), says("second"))

    await run(Asking(ModelAgent(provider.client()), "one", "two"))

    assert len(provider.requests[1].messages) == 2


def client(provider: ScriptedProvider, context: int) -> ModelClient:
    return ModelClient([(provider, "script-1")], prices={"scripted:script-1": {"input": 0, "output": 0, "context": context}})


async def test_a_long_conversation_is_summarised_at_the_stated_share(autojump_clock: object) -> None:
    long = "word " * 2_000
    provider = scripted(
        says("", calls("act", f'{{"what": "{long}"}}'), input_tokens=100, output_tokens=90),
        says("SUMMARY: did x."),
        says("done", input_tokens=500),
    )
    store = MemoryStore()
    agent = ModelAgent(client(provider, 5_000), tools=[act], options=ModelOptions(max_tokens=100))

    assert str(await run(Asking(agent, "the task"), store)) == "finished"

    summary, after = provider.requests[1], provider.requests[2]
    assert "data, not instructions" in summary.messages[1].text
    assert "SUMMARY: did x." in after.messages[1].text
    assert "the task" in after.messages[1].text
    assert long not in str(after.messages)
    calls_left = [call for message in after.messages for call in message.calls]
    assert len(calls_left) == len([result for message in after.messages for result in message.results])


async def test_a_conversation_that_the_model_refuses_as_too_long_is_summarised_and_sent_again(autojump_clock: object) -> None:
    provider = scripted(ContextTooLong("too long"), says("SUMMARY"), says("done"))

    assert str(await run(Asking(ModelAgent(provider.client()), "q" * 1_000))) == "finished"
    assert "SUMMARY" in provider.requests[-1].messages[1].text


async def test_without_a_summary_older_messages_are_left_out_by_a_stated_rule(autojump_clock: object) -> None:
    provider = scripted(
        says("", calls("act", '{"what": "x"}')), ContextTooLong("too long"), RequestRejected("no"), says("done")
    )

    assert str(await run(Asking(ModelAgent(provider.client(), tools=[act]), "q"))) == "finished"
    assert "messages were left out" in str(provider.requests[-1].messages)
    assert "act(" in str(provider.requests[-1].messages)


async def test_events_come_in_the_order_in_which_things_happen(autojump_clock: object) -> None:
    provider = scripted(says("I act.", calls("act", '{"what": "x"}')), says("I have done it."))
    kinds: list[TurnEventKind] = []
    text = ""
    async with Orchestrator(MemoryStore()) as orchestrator:
        handle = orchestrator.start(Asking(ModelAgent(provider.client(), tools=[act]), "q"), name="asking")
        async for told in handle.turn_events():
            kinds.append(told.event.kind)
            text += told.event.text if told.event.kind is TurnEventKind.TEXT_DELTA else ""

    assert text == "I act.I have done it."
    assert list(dict.fromkeys(kinds)) == [
        TurnEventKind.TEXT_DELTA,
        TurnEventKind.TOOL_CALL_DELTA,
        TurnEventKind.MESSAGE_COMPLETE,
        TurnEventKind.TOOL_STARTED,
        TurnEventKind.TOOL_FINISHED,
        TurnEventKind.TURN_COMPLETE,
    ]


async def test_what_a_resumed_turn_tells_again_is_marked_as_replayed(autojump_clock: object) -> None:
    provider = scripted(says("", calls("act", '{"what": "x"}')), RequestRejected("no", status=400), says("done"))
    store, harness = MemoryStore(), Asking(ModelAgent(provider.client(), tools=[act]), "q")
    told: list[list[tuple[TurnEventKind, bool]]] = []
    for _ in range(2):
        async with Orchestrator(store) as orchestrator:
            handle = orchestrator.start(harness, name="asking")
            events = [event async for event in handle.turn_events()]
        told.append([(each.event.kind, each.event.is_replayed) for each in events if each.event.text or each.event.result])

    assert all(not is_replayed for _, is_replayed in told[0])
    again = [kind for kind, is_replayed in told[1] if is_replayed]
    assert again == [TurnEventKind.TOOL_STARTED, TurnEventKind.TOOL_FINISHED]
    assert [kind for kind, is_replayed in told[1] if not is_replayed][-1] is TurnEventKind.TURN_COMPLETE


async def test_the_transcript_of_a_turn_in_progress_has_its_corrections(autojump_clock: object) -> None:
    provider = scripted(says("no"), says("", calls("give_answer", '{"answer": "x"}')), RequestRejected("no", status=400))
    agent = ModelAgent(provider.client(), answer=list[int], tools=[act])
    store = MemoryStore()

    assert "blocked" in str(await run(Asking(agent, "q"), store))

    (turn,) = transcripts(store, "asking")
    assert list(turn.transcript.messages) == list(provider.requests[-1].messages)


class Judge:
    """Accepts a text that has the right word."""

    async def validate(self, feature: Feature, work: Any) -> Verdict:
        await trio.lowlevel.checkpoint()
        return Verdict(passed="right" in work.message, evidence="the word `right` is missing")


async def test_a_rejected_try_goes_on_in_the_conversation_with_the_validators_reason(autojump_clock: object) -> None:
    provider = scripted(says("wrong"), says("right"))
    policy = RunPolicy(max_turns_per_feature=3, max_retries_per_feature=2)
    agent = ModelAgent(provider.client())
    harness = FeatureHarness(agent, Judge(), objective="o", features=[Feature("f", "d", steps="s")], policy=policy)

    store = MemoryStore()
    await run(harness, store)
    await run(harness, store)

    first, second = provider.requests[0].messages, provider.requests[1].messages
    assert "Objective: o" in first[0].text
    assert texts(second)[1] == "wrong"
    assert "the word `right` is missing" in second[-1].text
    assert second[-1].text != first[-1].text
    assert harness.state.features[0].passes


@pytest.mark.parametrize(
    ("error", "times"), [(RateLimited("429 slow down", retry_after_s=90), 1), (ProviderUnavailable("503 down"), 9)]
)
async def test_a_wait_for_a_provider_is_shown_once_when_it_begins_and_once_when_it_ends(
    autojump_clock: object, tmp_path: Path, capsys: pytest.CaptureFixture[str], error: Exception, times: int
) -> None:
    store, provider = SqliteStore(tmp_path / "run.db"), scripted(*[error] * times, says("done"))
    view = EventLines(store)
    async with Orchestrator(store, handle_signals=False) as orchestrator:
        orchestrator.start(Asking(ModelAgent(provider.client()), "q"), name="asking")
    view.close()
    store.close()

    began, ended = [line for line in capsys.readouterr().err.splitlines() if "step 1: model" in line]
    assert began.startswith(f"asking: step 1: model scripted:script-1: {error}: waiting until 20")
    assert ended.startswith("asking: step 1: model scripted:script-1: answered after a wait of ")


async def test_a_turn_whose_request_was_rejected_goes_on_when_it_is_started_again(autojump_clock: object) -> None:
    provider = scripted(says("", calls("act", '{"what": "x"}')), RequestRejected("no such tool", status=400), says("done"))
    store, harness = MemoryStore(), Asking(ModelAgent(provider.client(), tools=[act]), "q")

    assert "no such tool" in str(await run(harness, store))
    assert len(provider.requests) == 2
    assert str(await run(harness, store)) == "finished"

    assert len(provider.requests) == 3
    assert provider.requests[1].messages == provider.requests[2].messages


async def test_a_refusal_blocks_at_once_and_is_asked_anew_when_the_harness_is_started_again(autojump_clock: object) -> None:
    refused, used = says("I will not.", stop=StopReason.REFUSAL), says("", calls("act", '{"what": "x"}'))
    provider = scripted(used, refused, refused, says("done"), says("more"))
    store, harness = MemoryStore(), Asking(ModelAgent(provider.client(), tools=[act], session="talk"), "q", "r")

    for sent in (2, 3):
        assert "blocked: AnswerRefused: agent 'model': the model refused to answer: I will not." in str(
            await run(harness, store)
        )
        assert len(provider.requests) == sent
    assert str(await run(harness, store)) == "finished"

    assert provider.requests[1].messages == provider.requests[2].messages == provider.requests[3].messages
    assert [text.splitlines()[-1] for text in texts(provider.requests[4].messages) if text] == ["q", "done", "r"]


class Typed(Asking):
    """Asks twice in a step, and goes on without the first answer if the agent fails."""

    async def execute(self) -> AsyncIterator[Any]:
        try:
            first = await self.run_agent(self.agent, "one")
        except AnswerInvalid:
            first = []
        yield "both", [*first, *await self.run_agent(self.agent, "two")]


def _typed(*script: Any) -> tuple[ScriptedProvider, ModelAgent]:
    provider = scripted(*script)
    return provider, ModelAgent(provider.client(), answer=list[int], chat=ChatPolicy(max_corrections=1), tools=[act])


async def test_a_failed_turn_is_tried_again_in_its_conversation_when_the_harness_is(autojump_clock: object) -> None:
    done = says("", calls("act", '{"what": "x"}'))
    provider, agent = _typed(done, says("no"), says("never"), says("no"), says("[1]"))
    store, harness = MemoryStore(), Asking(agent, "q")

    with pytest.raises(ExceptionGroup) as failed:
        await run(harness, store, budget=Budget(turns=1), restart="temporary")
    assert "not JSON" in str(failed.value.exceptions[0])
    assert len(provider.requests) == 3
    assert "limit 1" in str(await run(harness, store, budget=Budget(turns=1)))
    assert len(provider.requests) == 3
    assert str(await run(harness, store, budget=Budget(turns=2))) == "finished"

    accounts = store.accounts(["harness/asking", "agents/asking"])
    assert [account.spent.turns for account in accounts.values()] == [2, 2]
    assert texts(provider.requests[3].messages)[-1].startswith("Your answer could not be used: the answer is not JSON")
    told = [result.text for message in provider.requests[-1].messages for result in message.results]
    assert (told, len(provider.requests)) == (["did x"], 5)


async def test_each_restart_of_a_supervisor_tries_a_failed_turn_again(autojump_clock: object) -> None:
    provider, agent = _typed(*[says("no")] * 4, says("[1]"))

    assert str(await run(Asking(agent, "q"))) == "finished"
    assert len(provider.requests) == 5


async def test_a_failure_that_a_harness_has_dealt_with_is_raised_again_after_a_stop(autojump_clock: object) -> None:
    provider, agent = _typed(says("no"), says("no"), RequestRejected("no", status=400), says("[2]"))
    store, harness = MemoryStore(), Typed(agent)

    assert "blocked" in str(await run(harness, store))
    assert str(await run(harness, store)) == "finished"

    assert [texts(request.messages)[0].split()[-1] for request in provider.requests] == ["one", "one", "two", "two"]
    assert store.steps("asking")[0].output == [2]


async def test_a_turn_that_goes_on_after_a_stop_is_charged_once(autojump_clock: object) -> None:
    provider = scripted(says("", calls("act", '{"what": "x"}')), RequestRejected("no", status=400), says("done"))
    store, harness = MemoryStore(), Asking(ModelAgent(provider.client(), tools=[act]), "q")

    assert "no" in str(await run(harness, store, budget=Budget(turns=1)))
    assert str(await run(harness, store, budget=Budget(turns=1))) == "finished"

    assert store.accounts(["harness/asking"])["harness/asking"].spent.turns == 1


KILLED = """
import os, sys, trio
from harnesses import Budget
from orchestrator import SqliteStore
from tests.harnesses.agents.chat.test_turns_in_harnesses import *

def die(request): os._exit(9)
provider = scripted(die)
agent = ModelAgent(provider.client(), options=ModelOptions(max_tokens=100))
trio.run(lambda: run(Asking(agent, "q"), SqliteStore(sys.argv[1]), budget=Budget(tokens=100_000)))
"""


async def test_a_call_that_a_kill_cut_off_is_charged_in_full_and_the_transcript_says_so(tmp_path: Path) -> None:
    path = tmp_path / "run.db"
    await trio.run_process([sys.executable, "-c", KILLED, str(path)], check=False)
    store, provider = SqliteStore(path), scripted(says("done"))
    agent = ModelAgent(provider.client(), options=ModelOptions(max_tokens=100))

    assert str(await run(Asking(agent, "q"), store, budget=Budget(tokens=100_000))) == "finished"

    cut_off = agent.client.most(provider.requests[0]).tokens
    assert store.accounts(["harness/asking"])["harness/asking"].spent.tokens == cut_off + 15
    (told,) = transcripts(store, "asking")
    store.close()
    assert [(one.is_repeated, one.usage.total_tokens) for one in told.transcript.rounds] == [(True, 15)]


class SideBySide(BaseHarness[int, str, Any]):
    """Asks two questions side by side, which begin in the given order; the first attempt is cut off after both answers."""

    def __init__(self, agent: ModelAgent, orders: list[str], *, keyed: bool = False) -> None:
        super().__init__(0)
        self.agent, self.orders, self.keyed = agent, orders, keyed

    async def execute(self) -> AsyncIterator[Any]:
        order, answers = self.orders.pop(0), dict[str, str]()

        async def ask(question: str) -> None:
            answers[question] = await self.run_agent(self.agent, question, key=question if self.keyed else "")

        async with trio.open_nursery() as nursery:
            for question in order:
                nursery.start_soon(ask, question)
                await trio.sleep(0.1)
            if len(self.orders) == 1:
                nursery.start_soon(trio.sleep, 10)
        if self.orders:
            raise ConnectionError("cut off")
        yield "both", answers


@pytest.mark.parametrize(
    ("orders", "keyed", "ends"),
    [(["ab", "ab"], False, "finished"), (["ab", "ba"], True, "finished"), (["ab", "ba"], False, "give each call a key")],
)
async def test_calls_side_by_side_never_swap_their_records(autojump_clock: object, orders, keyed, ends) -> None:
    provider = ScriptedProvider([lambda request: says(f"answer to {request.messages[-1].text[-1]}")])
    harness = SideBySide(ModelAgent(provider.client()), orders, keyed=keyed)
    store = MemoryStore()

    try:
        end = str(await run(harness, store))
    except ExceptionGroup as error:
        end = "; ".join(map(str, leaves(error)))

    assert ends in end
    if ends == "finished":
        assert [step.output for step in store.steps("asking")] == [{"a": "answer to a", "b": "answer to b"}]
        assert len(provider.requests) == 2


@pytest.mark.parametrize("recorded", ['{"cassette": 1}\n', None, "{"])
async def test_a_cassette_without_the_answer_blocks_a_feature_harness_at_once(
    tmp_path: Path, autojump_clock: trio.testing.MockClock, recorded: str | None
) -> None:
    if recorded is not None:
        (tmp_path / "tape").write_text(recorded)
    agent = ModelAgent(scripted().client(), cassette=Cassette.replay(tmp_path / "tape"))
    policy = RunPolicy(max_turns_per_feature=3, max_retries_per_feature=2)
    harness = FeatureHarness(agent, Judge(), objective="o", features=[Feature("f", "d", steps="s")], policy=policy)

    outcome = str(await run(harness))

    assert outcome.startswith(f"blocked: CassetteMiss: cassette {tmp_path}")
    assert trio.current_time() < 0.1
