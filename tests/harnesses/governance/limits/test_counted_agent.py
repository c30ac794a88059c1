"""Tool calls and messages are counted by us, and the one that is too many stops the agent, and all that it has started."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import trio

from harnesses.agent import Agent
from harnesses.agents import CommandAgent, aider, claude_code, codex
from harnesses.agents.command.agent_output import PlainReading
from harnesses.agents.command.aider_output import AiderReading
from harnesses.agents.command.claude_code_output import ClaudeCodeReading
from harnesses.agents.command.codex_output import CodexReading
from harnesses.agents.command.output_json import loaded
from harnesses.agents.command.stream_counts import Deed, Deeds, MeteredReading, counter_for
from harnesses.features import FailFast, Feature, FeatureHarness, RunPolicy, TurnResult, accept_all
from harnesses.features.feature_record import FeatureState
from harnesses.governance import BuilderContract, Guardrails, independent
from harnesses.governance.limits.counted_agent import AgentStopped, Tally, counted, limited, tallying, telemetry_checks
from harnesses.step import LoadedContext
from tests.harnesses.agents.turns import assigned, install, marked, take_turn

FEW = Guardrails(max_tool_calls_per_task=3, max_messages_per_task=4)
DIALECTS = {"claude": claude_code, "codex": codex, "aider": aider}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    return tmp_path


def program(folder: Path, name: str, **more: Any) -> CommandAgent:
    made = install(folder, name)
    options = {"histories": folder / "histories"} if name == "aider" else {}
    dialect = DIALECTS[name](program=made, **options)  # type: ignore[operator]
    return CommandAgent(dialect=dialect, env={"STAND_IN_STATE": str(folder), **more}, limit_s=60)


def says(count: int) -> str:
    return "\n".join(f"say {number}" for number in range(count))


@pytest.mark.parametrize(("name", "said", "messages", "tools"), [("claude", 3, 4, 1), ("codex", 1, 1, 1), ("aider", 1, 1, 0)])
async def test_what_a_program_does_is_counted_as_it_tells_of_it(
    folder: Path, name: str, said: int, messages: int, tools: int
) -> None:
    with tallying(FEW) as tally:
        result = await take_turn(limited(program(folder, name), FEW), assigned(folder / "work", says(said)))

    assert str(said - 1) in result.message
    assert (tally.messages, tally.tool_calls, tally.is_counting) == (messages, tools, True)


@pytest.mark.parametrize("name", ["claude", "codex"])
def test_a_line_that_is_read_metered_and_counted_is_parsed_once(name: str) -> None:
    loaded.cache_clear()
    with tallying(FEW):
        reading = limited(CommandAgent(dialect=DIALECTS[name]()), FEW)._heard.dialect.reading()
        metered = MeteredReading(reading, lambda *_, **__: None)
        for number in range(3):
            metered.line(json.dumps({"type": "assistant", "message": {"id": str(number)}}))

    assert (loaded.cache_info().misses, loaded.cache_info().hits) == (3, 6)


async def test_one_message_too_many_ends_the_program_and_all_that_it_has_started(folder: Path) -> None:
    agent = limited(program(folder, "claude", MARK=str(folder)), FEW)

    with pytest.raises(AgentStopped, match="expected at most 4 messages, got one more") as caught:
        await take_turn(agent, assigned(folder / "work", f"daemon\n{says(5)}\nhang"))

    assert marked(str(folder)) == []
    assert caught.value.session
    assert (caught.value.finding.limit_name, caught.value.finding.current_value) == ("max_messages_per_task", "5")


async def test_one_tool_call_too_many_ends_the_program(folder: Path) -> None:
    rails = Guardrails(max_tool_calls_per_task=0)

    with pytest.raises(AgentStopped) as caught:
        await take_turn(limited(program(folder, "codex"), rails), assigned(folder / "work", "hang"))

    assert caught.value.finding.limit_name == "max_tool_calls_per_task"
    assert "command_execution" in caught.value.finding.reason


async def test_each_turn_has_a_tally_of_its_own_unless_one_is_under_way(folder: Path) -> None:
    agent = limited(program(folder, "claude"), FEW)

    for _ in range(2):
        await take_turn(agent, assigned(folder / "work", says(2)))
    with tallying(FEW):
        await take_turn(agent, assigned(folder / "work", says(2)))
        with pytest.raises(AgentStopped):
            await take_turn(agent, assigned(folder / "work", says(2)))


async def test_of_a_program_that_writes_text_nothing_is_counted_and_that_is_known(folder: Path) -> None:
    agent = limited(CommandAgent(["echo", "Tokens: 9 sent"]), Guardrails(max_messages_per_task=0))

    with tallying(FEW) as tally:
        await take_turn(agent, assigned(folder / "work"))

    assert (tally.is_counting, tally.messages) == (False, 0)


async def test_whoever_knows_a_program_can_say_how_to_count(folder: Path) -> None:
    agent = limited(CommandAgent(["echo", "tool"]), Guardrails(max_tool_calls_per_task=0), counter=lambda line: [Deed(True)])

    with pytest.raises(AgentStopped):
        await take_turn(agent, assigned(folder / "work"))


def ask(agent: Agent[Any, Any, Any]) -> Any:
    return agent.run(input="go", context=LoadedContext(state=FeatureState()), step_number=1)


async def test_a_tool_of_ours_is_refused_before_it_is_called() -> None:
    called = []

    @counted
    async def search(word: str) -> str:
        await trio.lowlevel.checkpoint()
        called.append(word)
        return word

    async def act(run: Any) -> str:
        for number in range(9):
            await search(str(number))
        return "done"

    with pytest.raises(AgentStopped, match=r"at most 3 tool calls, got one more \('search'\)"):
        await ask(limited(Agent(act), FEW))
    assert called == ["0", "1", "2"]
    assert await search("free") == "free"


async def test_an_agent_that_catches_its_stop_does_not_answer() -> None:
    @counted
    async def search() -> None:
        await trio.lowlevel.checkpoint()

    async def act(run: Any) -> str:
        for _ in range(9):
            try:
                await search()
            except AgentStopped:
                continue
        return "done"

    with pytest.raises(AgentStopped):
        await ask(limited(Agent(act), FEW))


async def test_agents_side_by_side_have_tallies_of_their_own() -> None:
    answers = []

    @counted
    async def search() -> None:
        await trio.lowlevel.checkpoint()

    async def act(run: Any) -> str:
        for _ in range(3):
            await search()
        return "done"

    async def one() -> None:
        answers.append(await ask(agent))

    agent = limited(Agent(act), FEW)
    async with trio.open_nursery() as nursery:
        for _ in range(5):
            nursery.start_soon(one)

    assert answers == ["done"] * 5


def test_an_agent_within_limits_is_the_agent_itself() -> None:
    agent = program_free = Agent[Any, Any, Any](lambda run: ask(program_free), name="builder")

    assert not independent(limited(agent, FEW), limited(limited(agent, FEW), FEW)).ok
    assert limited(agent, FEW).name == "builder"


def contract(**execution: object) -> BuilderContract:
    return BuilderContract(task_id="004", agent="b", status="PASS", summary="s", execution=execution)


@pytest.mark.parametrize(
    ("execution", "calls", "fails"),
    [
        ({}, 0, False),
        ({"tool_calls": 3}, 0, False),
        ({"tool_calls": 4}, 0, True),
        ({"tool_calls": 0}, 3, False),
        ({"tool_calls": True}, 0, False),
    ],
)
def test_reported_telemetry_above_the_limit_fails_whatever_was_counted(
    execution: dict[str, object], calls: int, fails: bool
) -> None:
    tally = Tally(FEW)
    for _ in range(calls):
        tally.tool_call()

    tools, messages = telemetry_checks(contract(**execution), FEW, tally)

    assert (tools.ok, messages.ok) == (not fails, True)


def test_counted_work_above_the_limit_fails_whatever_is_reported() -> None:
    tally = Tally(Guardrails())
    for _ in range(4):
        tally.tool_call()

    tools, _ = telemetry_checks(contract(tool_calls=1), FEW, tally)

    assert not tools.ok
    assert "counted 4, reported 1" in tools.evidence


def lines_of(reading: Any, *lines: object) -> list[tuple[bool, str]]:
    counter = counter_for(reading)
    assert counter is not None
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    return [(deed.is_tool, deed.id) for text in texts for deed in counter(text)]


def test_the_deeds_in_the_output_of_claude_code() -> None:
    block = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {}}
    both = {"type": "assistant", "message": {"id": "m1", "content": [{"type": "text", "text": "x"}, block, 3]}}

    assert lines_of(ClaudeCodeReading(), both, "[]", "no") == [
        (False, "m1"),
        (True, "t1"),
    ]


def test_a_line_that_is_cut_off_still_counts() -> None:
    whole = json.dumps({"type": "assistant", "message": {"content": [{"type": "tool_use", "input": "x" * 1000}]}})

    assert sorted(lines_of(ClaudeCodeReading(), whole[:500])) == [(False, ""), (True, "")]


def call_told(mode: str, number: int) -> list[object]:
    """Return the lines that tell of one tool call, in a way that is not the plain one."""
    block: dict[str, Any] = {"type": "tool_use", "id": f"t{number}", "name": "Bash", "input": {"command": f"echo {number}"}}
    message: Any = {"type": "assistant", "message": {"id": "m1", "content": [block]}}
    result = {"type": "tool_result", "tool_use_id": block["id"], "content": "x"}
    plain = json.dumps(message)
    empty = '{"type": "assistant", "message": {"id": "m1", "content": []}, "message": '
    ways: dict[str, list[object]] = {
        "plain": [message, {"type": "user", "message": {"content": [result]}}],
        "list": [[message]],
        "pretty": list(json.dumps(message, indent=1).splitlines()),
        "colour": [f"\x1b[0m{plain}\x1b[0m"],
        "mark of order": [f"\ufeff{plain}"],
        "prefix": [f"data: {plain}"],
        "two names": [f"{empty}{json.dumps(message['message'])}}}"],
        "two names, the last empty": [f'{plain[:-1]}, "message": {{"id": "m1", "content": []}}}}'],
        "escaped": [plain.replace("tool_use", "tool_\\u0075se") + " x"],
        "same id": [{"type": "assistant", "message": {"id": "m1", "content": [{**block, "id": "t"}]}}],
        "mcp": [{"type": "assistant", "message": {"id": "m1", "content": [{**block, "type": "mcp_tool_call"}]}}],
        "nested": [{"type": "assistant", "message": {"id": "m1", "content": [{"type": "group", "content": [block]}]}}],
        "stream": [
            {"type": "stream_event", "event": {"type": "content_block_start", "content_block": {**block, "input": {}}}},
            message,
        ],
        "only stream": [{"type": "stream_event", "event": {"type": "content_block_start", "content_block": block}}],
        "only results": [{"type": "user", "message": {"content": [result]}}],
        "cut": [plain[:-20], json.dumps({"type": "user", "message": {"content": [result]}})[:-3]],
    }
    return ways[mode]


WAYS = (
    *("plain", "list", "pretty", "colour", "mark of order", "prefix", "two names", "two names, the last empty", "escaped"),
    *("same id", "mcp", "nested", "stream", "only stream", "only results", "cut"),
)


@pytest.mark.parametrize("mode", WAYS)
def test_a_tool_call_counts_once_however_it_is_told(mode: str) -> None:
    counter, told = counter_for(ClaudeCodeReading()), Deeds()
    assert counter is not None
    lines = [line for number in range(100) for line in call_told(mode, number)]

    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    calls = sum(told.is_new(deed) and deed.is_tool for text in texts for deed in counter(text))

    assert calls == 100


@pytest.mark.parametrize("wrapped", [False, True])
def test_an_item_of_codex_counts_once_however_it_is_told(wrapped: bool) -> None:
    counter, told = counter_for(CodexReading()), Deeds()
    assert counter is not None
    calls = 0
    for number in range(100):
        for kind in ("item.started", "item.updated", "item.completed"):
            item = {"id": f"i{number}", "type": "command_execution", "command": "ls", "aggregated_output": kind}
            event: Any = {"type": kind, "item": item}
            text = json.dumps([event] if wrapped else event)
            calls += sum(told.is_new(deed) and deed.is_tool for deed in counter(f"\x1b[1m{text}" if wrapped else text))

    assert calls == 100


def test_the_deeds_in_the_output_of_codex() -> None:
    ls = {"id": "i1", "type": "command_execution"}
    events = [
        {"type": "item.started", "item": ls},
        {"type": "item.completed", "item": ls},
        {"type": "item.completed", "item": {"id": "i2", "type": "reasoning"}},
        {"type": "item.completed", "item": {"id": "i3", "type": "agent_message"}},
        {"type": "item.completed", "item": {"id": "i4", "type": "something_new"}},
    ]

    assert lines_of(CodexReading(), *events) == [(True, "i1"), (True, "i1"), (False, "i3"), (True, "i4")]


def test_the_deeds_in_the_output_of_aider() -> None:
    assert lines_of(AiderReading(), "Applied edit to a.py", "Tokens: 2k sent, 1 received.", "Tokens are dear") == [
        (True, ""),
        (False, ""),
    ]
    assert counter_for(PlainReading()) is None


async def test_to_a_feature_list_a_stopped_agent_is_a_try_that_failed(autojump_clock: object) -> None:
    @counted
    async def search() -> None:
        await trio.lowlevel.checkpoint()

    async def work(run: Any) -> TurnResult:
        for _ in range(9 if run.input.turn == 1 else 1):
            await search()
        return TurnResult(message=f"done at try {run.input.turn}")

    policy = RunPolicy(max_turns_per_feature=2, max_retries_per_feature=1, fail_fast=FailFast(on_chat_error=False))
    harness = FeatureHarness(
        limited(Agent(work), FEW),
        accept_all(),
        objective="all of it",
        features=[Feature("a", "it works", steps=["look"])],
        policy=policy,
    )
    await harness.run()

    assert harness.state.features[0].passes
    assert "at most 3 tool calls" in str([step.output for step in harness.step_history])
