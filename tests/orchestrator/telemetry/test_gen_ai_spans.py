"""Spans of agents, model calls and tool calls: named as OpenTelemetry names them, and only what agents did."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.semconv._incubating.attributes import error_attributes, gen_ai_attributes
from opentelemetry.trace import SpanKind

from harnesses import Agent, AgentRun, BaseHarness, StepYield
from harnesses.agents import ModelAgent
from harnesses.agents.model.model_client import ModelClient
from harnesses.agents.tools.function_tool import tool
from harnesses.budgets.usage import Usage
from orchestrator import MemoryStore, Orchestrator
from orchestrator.telemetry.span import Span
from orchestrator.telemetry.spans import spans
from tests.harnesses.agents.chat.scripted_model import calls, says, scripted
from tests.orchestrator.telemetry.recorded import SECOND, record, run_busy


class Asking(BaseHarness[int, str, str]):
    """Asks its agent once in each step."""

    def __init__(self, agent: Agent[Any, Any, Any], *questions: str) -> None:
        super().__init__(0)
        self.agent = agent
        self.questions = questions

    async def execute(self) -> AsyncIterator[Any]:
        for question in self.questions[self.current_step :]:
            yield StepYield(question, await self.run_agent(self.agent, question))


@tool
async def look(where: str) -> str:
    """Look."""
    if where == "nowhere":
        raise ValueError("there is nothing")
    return f"seen {where}"


def model_agent() -> ModelAgent:
    provider = scripted(
        says("I look.", calls("look", '{"where": "here"}')), says("", calls("look", '{"where": "nowhere"}')), says("done")
    )
    client = ModelClient([(provider, "script-1")], prices={"scripted:script-1": {"input": 1, "output": 2}})
    return ModelAgent(client, tools=[look], name="coder", session="talk")


async def run(agent: Agent[Any, Any, Any], *questions: str, **options: Any) -> MemoryStore:
    store = MemoryStore()
    async with Orchestrator(store, handle_signals=False, **options) as orchestrator:
        orchestrator.start(Asking(agent, *questions), name="asking")
    return store


def of(told: list[Span], operation: str) -> list[Span]:
    return [span for span in told if span.attributes.get("gen_ai.operation.name") == operation]


async def test_a_turn_of_a_model_agent_has_its_model_calls_and_tool_calls_below(autojump_clock: object) -> None:
    told = list(spans((await run(model_agent(), "q")).records()))

    (step,) = [span for span in told if span.name == "step"]
    (turn,), chats, tools = (of(told, operation) for operation in ("invoke_agent", "chat", "execute_tool"))
    assert (turn.name, turn.parent_id) == ("invoke_agent coder", step.span_id)
    assert [span.name for span in chats] == ["chat script-1"] * 3
    assert [span.name for span in tools] == ["execute_tool look"] * 2
    assert {span.parent_id for span in [*chats, *tools]} == {turn.span_id}
    assert chats[0].attributes["gen_ai.provider.name"] == "scripted"
    assert chats[0].attributes["gen_ai.response.finish_reasons"] == ("tool_use",)
    assert turn.attributes["gen_ai.usage.input_tokens"] == sum(
        int(str(span.attributes["gen_ai.usage.input_tokens"])) for span in chats
    )
    assert turn.attributes["gen_ai.conversation.id"] == "talk"
    assert (tools[0].error, tools[1].attributes["error.type"]) == (None, "tool_error")
    assert tools[0].attributes["gen_ai.tool.call.id"]
    assert turn.start_us <= min(span.start_us for span in chats)
    assert turn.end_us >= max(span.end_us for span in chats)


async def test_a_harness_without_agents_claims_no_agent(autojump_clock: object) -> None:
    store = MemoryStore()
    await run_busy(store)

    assert not [span for span in spans(store.records()) if any(name.startswith("gen_ai") for name in span.attributes)]


async def test_an_agent_that_only_reports_its_usage_is_told_as_a_turn(autojump_clock: object) -> None:
    async def work(run: AgentRun[Any, Any]) -> str:
        run.charge(Usage(input_tokens=10, output_tokens=2))
        run.charge(Usage(input_tokens=5))
        return "done"

    store = await run(Agent(work, name="worker", reports=["tokens"]), "q", "r")
    told = list(spans(store.records()))

    steps, turns = [span for span in told if span.name == "step"], of(told, "invoke_agent")
    assert [turn.name for turn in turns] == ["invoke_agent worker"] * 2
    assert [turn.parent_id for turn in turns] == [step.span_id for step in steps]
    assert turns[0].attributes["gen_ai.usage.input_tokens"] == 15


def test_a_turn_of_a_command_line_agent_is_told_by_its_transcript() -> None:
    used = {"turns": 1, "input_tokens": 7, "output_tokens": 1}
    tools = [{"id": "t1", "name": "Edit", "start_us": 3 * SECOND, "end_us": 4 * SECOND, "is_error": True}, {"id": "t2"}]
    who: dict[str, Any] = {"agent": "claude-code", "scope": "claude-code#1/", "model": "anthropic:claude-9"}
    told = list(
        spans(
            [
                record(1, "started"),
                record(4, "budget", 1, agent="claude-code", change="charged", usage=used, spent={"tokens": 8}),
                record(5, "step", 1),
                record(
                    6,
                    "transcript",
                    1,
                    **who,
                    tools=tools,
                    input_tokens=7,
                    started_us=2 * SECOND,
                    ended_us=5 * SECOND,
                    error="AgentFailed: no",
                ),
                record(7, "completed", 1),
            ]
        )
    )

    step, edit, turn, attempt = told
    assert (turn.name, turn.parent_id, edit.parent_id) == ("invoke_agent claude-code", step.span_id, turn.span_id)
    assert (turn.start_us, turn.end_us) == (2 * SECOND, 5 * SECOND)
    assert (turn.attributes["gen_ai.provider.name"], turn.attributes["gen_ai.request.model"]) == ("anthropic", "claude-9")
    assert (turn.error, turn.attributes["error.type"]) == ("AgentFailed: no", "AgentFailed")
    assert (edit.name, edit.attributes["error.type"]) == ("execute_tool Edit", "tool_error")
    assert attempt.name == "attempt a"


def test_a_turn_that_is_cut_off_is_told_with_what_it_did() -> None:
    key, answer = "coder#1/round/1", {"model": "openai:gpt", "usage": {"input_tokens": 3}}
    told = list(
        spans(
            [
                record(1, "started"),
                record(2, "intent", 1, key=key),
                record(3, "outcome", 1, key=key, outcome="confirmed", result=answer),
                record(4, "intent", 1, key=f"{key}/tool/1", arguments=["edit", {}]),
            ],
            is_over=True,
        )
    )

    chat, tool_call, turn, attempt = told
    assert [span.name for span in told] == ["chat gpt", "execute_tool edit", "invoke_agent coder", "attempt a"]
    assert (chat.parent_id, tool_call.parent_id, turn.parent_id) == (turn.span_id, turn.span_id, attempt.span_id)
    assert turn.error is not None
    assert tool_call.error is not None


@pytest.mark.parametrize("body", [{}, {"key": "a#1/round/x"}, {"key": "order#1/send"}, {"key": "/round/1"}, {"key": 7}])
def test_an_effect_of_another_kind_stays_an_effect(body: dict[str, Any]) -> None:
    told = spans([record(1, "started"), record(2, "intent", 1, **body), record(3, "outcome", 1, **body), record(4, "step", 1)])

    assert [span.name for span in told] == ["effect", "step"]


async def test_spans_of_agents_are_the_same_live_and_from_the_store(autojump_clock: object) -> None:
    exporter = InMemorySpanExporter()

    store = await run(model_agent(), "q", traces=exporter)

    live = exporter.get_finished_spans()
    assert sorted(span.name for span in live) == sorted(span.name for span in spans(store.records()))
    assert {f"{span.context.span_id:016x}" for span in live} == {span.span_id for span in spans(store.records())}
    assert {span.kind for span in live if span.name.startswith("chat")} == {SpanKind.CLIENT}


async def test_spans_that_an_agent_makes_are_sent_below_its_step_if_traces_are_wanted(
    autojump_clock: object,
) -> None:
    async def work(run: AgentRun[Any, Any]) -> str:
        with run.span("plan", {"size": 2}) as plan, run.span("draft"):
            plan.set(result="well")
        return "done"

    exporter = InMemorySpanExporter()
    await run(Agent(work, name="worker"), "q", traces=exporter)
    await run(Agent(work, name="worker"), "q")

    told = {span.name: span for span in exporter.get_finished_spans()}
    plan, draft, step = told["plan"], told["draft"], told["step"]
    assert plan.parent is not None
    assert draft.parent is not None
    assert plan.context is not None
    assert step.context is not None
    assert (plan.parent.span_id, draft.parent.span_id) == (step.context.span_id, plan.context.span_id)
    assert plan.attributes is not None
    assert (plan.attributes["size"], plan.attributes["result"]) == (2, "well")


async def test_spans_of_agents_beyond_the_limit_are_counted_and_told(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("orchestrator.telemetry.live_tracing._MOST_TOLD", 2)

    async def work(run: AgentRun[Any, Any]) -> str:
        for number in range(5):
            with run.span(f"part {number}"):
                pass
        return "done"

    exporter = InMemorySpanExporter()
    await run(Agent(work, name="worker"), "q", traces=exporter)

    sent = [span.name for span in exporter.get_finished_spans() if span.name.startswith("part")]
    assert sent == ["part 0", "part 1"]
    assert "traces: 3 spans that agents made themselves were dropped" in capfd.readouterr().err


@pytest.mark.skipif(
    not hasattr(gen_ai_attributes, "GEN_AI_PROVIDER_NAME"), reason="the names are newer than the installed conventions"
)
async def test_every_attribute_is_one_that_opentelemetry_defines(autojump_clock: object) -> None:
    known = {
        value
        for module in (gen_ai_attributes, error_attributes)
        for name, value in vars(module).items()
        if name.isupper() and isinstance(value, str)
    }
    operations = {each.value for each in gen_ai_attributes.GenAiOperationNameValues}

    told = list(spans((await run(model_agent(), "q")).records()))

    used = {name for span in told for name in span.attributes if name.startswith(("gen_ai.", "error."))}
    assert used
    assert used <= known
    assert {span.attributes.get("gen_ai.operation.name") for span in told} - {None} <= operations
