"""A cassette records the model and tool calls of a run, and replays them offline; a miss says what differs."""

from __future__ import annotations

import json
import multiprocessing
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing
from attrs import frozen

from harnesses.agents.chat.model_agent import ModelAgent
from harnesses.agents.model.cassette import Cassette, CassetteMiss
from harnesses.agents.model.errors import ContextTooLong, ProviderTimeout, RequestRejected, UsageLimitReached
from harnesses.agents.model.messages import (
    Message,
    ModelRequest,
    ModelResponse,
    Role,
    StreamEvent,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    ToolDefinition,
)
from harnesses.agents.model.model_client import ModelClient
from harnesses.agents.model.providers.anthropic_provider import AnthropicProvider
from harnesses.agents.model.providers.credentials import Credential
from harnesses.agents.model.retry_policy import RetryPolicy
from harnesses.agents.tools.recorded_tools import recorded_tools
from harnesses.agents.tools.tool import Tool, ToolEffect, ToolError, ToolSetting
from harnesses.redaction.redactor import MARK
from tests.harnesses.agents.chat.scripted_model import says, scripted
from tests.harnesses.agents.chat.test_turns_in_harnesses import Asking, run
from tests.harnesses.agents.model.scripted_provider import ScriptedProvider, response
from tests.harnesses.agents.tools.turn_tools import agent_run
from tests.model_server import ModelServer

SECRET = "sk-ant-api03-Qm3vR8sT1xYw5Zb7Nc2Ld9Kf4Hg6Jp0A"


def ask(text: str) -> ModelRequest:
    return ModelRequest(model="some-model", messages=(Message(role=Role.USER, text=text),))


class Unreachable(ScriptedProvider):
    """A provider whose calls fail the test."""

    @asynccontextmanager
    async def stream(self, request: ModelRequest) -> AsyncGenerator[AsyncIterator[StreamEvent], None]:
        raise AssertionError("a replay must not call the provider")
        yield


async def recorded(path: Path, *texts: str) -> Cassette:
    cassette = Cassette.record(path)
    provider = cassette.provider(ScriptedProvider([response(f"answer {number}") for number, _ in enumerate(texts)]))
    for text in texts:
        await provider.complete(ask(text))
    return cassette


async def said(cassette: Cassette, text: str) -> str:
    return (await cassette.provider(Unreachable()).complete(ask(text))).message.text


async def test_a_replay_gives_the_recorded_answers_and_calls_nothing(tmp_path: Path) -> None:
    await recorded(tmp_path / "tape", "one", "two")
    cassette = Cassette.replay(tmp_path / "tape")

    assert [await said(cassette, "two"), await said(cassette, "one")] == ["answer 1", "answer 0"]


async def test_identical_requests_are_answered_in_the_order_of_the_recording(tmp_path: Path) -> None:
    await recorded(tmp_path / "tape", "same", "other", "same")
    cassette = Cassette.replay(tmp_path / "tape")

    assert [await said(cassette, "same"), await said(cassette, "same")] == ["answer 0", "answer 2"]
    with pytest.raises(CassetteMiss, match="expected at most 2 identical requests"):
        await said(cassette, "same")


async def test_a_miss_names_the_nearest_request_and_the_difference(tmp_path: Path) -> None:
    await recorded(tmp_path / "tape", "sell " * 50 + "apples", "buy " * 50 + "pears")

    with pytest.raises(CassetteMiss, match=r"the nearest, line 3: model.messages\[0\].text was '.*pears', is '.*plums'"):
        await said(Cassette.replay(tmp_path / "tape"), "buy " * 50 + "plums")


async def test_a_miss_of_an_empty_or_missing_cassette_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()

    with pytest.raises(CassetteMiss, match="expected recorded ones, got none; record it anew"):
        await said(Cassette.replay(tmp_path / "empty"), "one")
    with pytest.raises(CassetteMiss, match="No such file or directory; record it first"):
        await said(Cassette.replay(tmp_path / "missing"), "one")


@pytest.mark.parametrize("line", ['{"asked": {"mod', "[1]", "[" * 900 + "]" * 900, '{"asked": ' + "[" * 5_000], ids=range(4))
async def test_a_malformed_line_is_named(tmp_path: Path, line: str) -> None:
    await recorded(tmp_path / "tape", "one")
    with (tmp_path / "tape").open("a") as file:
        file.write(line)

    with pytest.raises(CassetteMiss, match="line 3, is malformed"):
        await said(Cassette.replay(tmp_path / "tape"), "one")


async def test_a_cassette_that_an_editor_has_saved_is_read(tmp_path: Path) -> None:
    tape = tmp_path / "tape"
    await recorded(tape, "one")
    tape.write_bytes(b"\xef\xbb\xbf" + tape.read_bytes().replace(b"\n", b"\r\n\r\n") + b" \n\n")

    assert await said(Cassette.replay(tape), "one") == "answer 0"


async def test_no_secret_is_written_and_requests_with_one_are_found_again(tmp_path: Path) -> None:
    await recorded(tmp_path / "tape", f"my key is {SECRET}")

    assert SECRET not in (tmp_path / "tape").read_text()
    assert await said(Cassette.replay(tmp_path / "tape"), f"my key is {SECRET}") == "answer 0"


async def test_what_is_ignored_may_differ(tmp_path: Path) -> None:
    await recorded(tmp_path / "tape", "in /tmp/tree-1/src")
    ignored = {r"/tmp/tree-\d+": "TREE"}

    assert await said(Cassette.replay(tmp_path / "tape", ignored=ignored), "in /tmp/tree-77/src") == "answer 0"


async def test_auto_replays_without_a_key_and_is_not_used_with_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    cassette = Cassette.auto(tmp_path / "tape")
    without, with_key = AnthropicProvider(), AnthropicProvider(key=Credential(SECRET))

    assert cassette.is_replaying
    assert cassette.is_used_for([(without, "a")])
    assert not cassette.is_used_for([(with_key, "a")])
    assert Cassette.replay(tmp_path / "tape").is_used_for([(with_key, "a")])


async def test_a_streamed_answer_is_recorded_and_replayed_as_events(model_server: ModelServer, tmp_path: Path) -> None:
    model_server.reply(
        {}, {"content": "Paris.", "reasoning": "Capital of France.", "toolCalls": [{"name": "look", "arguments": {"a": 1}}]}
    )
    live = AnthropicProvider(base_url=model_server.anthropic_url, key=Credential(SECRET))

    async def stream(cassette: Cassette) -> list[StreamEvent]:
        async with cassette.provider(live).stream(ask("where?")) as events:
            return [event async for event in events]

    *_, answer = await stream(Cassette.record(tmp_path / "tape"))
    model_server.reset()
    replayed = await stream(Cassette.replay(tmp_path / "tape"))

    assert isinstance(answer, ModelResponse)
    call = answer.message.calls[0]
    assert replayed == [
        ThinkingDelta("Capital of France."),
        TextDelta("Paris."),
        ToolCallDelta(call.id, "look", call.arguments),
        answer,
    ]
    assert model_server.requests() == []


async def test_a_call_that_is_cancelled_is_not_recorded(tmp_path: Path, autojump_clock: trio.testing.MockClock) -> None:
    provider = Cassette.record(tmp_path / "tape").provider(ScriptedProvider([response()], takes_s=10))
    with trio.move_on_after(1):
        await provider.complete(ask("one"))

    assert not (tmp_path / "tape").exists()


def record_many(path: Path, who: int) -> None:
    trio.run(recorded, path, *(f"{who} asks {number} " + "x" * 5000 for number in range(40)))


def test_several_processes_may_record_in_one_file(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=record_many, args=(tmp_path / "tape", who)) for who in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()

    lines = [json.loads(line) for line in (tmp_path / "tape").read_text().splitlines()]
    assert sum("asked" in line for line in lines) == 120


# tools


@frozen
class Counter:
    """A tool that counts its calls."""

    name: str
    calls: list[str]
    effect: ToolEffect = ToolEffect.READS
    error: str = ""
    timeout_s: float | None = None

    @property
    def definition(self) -> ToolDefinition:
        return ToolDefinition(name=self.name, description="Counts.", input_schema='{"type":"object"}')

    async def invoke(self, arguments: str, setting: ToolSetting) -> str:
        self.calls.append(arguments)
        if self.error:
            raise ToolError(self.error)
        return f"call {len(self.calls)}"


@frozen
class Server:
    """A source of tools that counts how often it is started."""

    tool: Counter
    started: list[int]

    @asynccontextmanager
    async def open(self, setting: ToolSetting) -> AsyncGenerator[Sequence[Tool], None]:
        self.started.append(1)
        yield [self.tool]


@pytest.fixture
def setting() -> ToolSetting:
    return ToolSetting(run=agent_run())


async def test_a_tool_that_only_reads_or_acts_is_not_called_in_a_replay(tmp_path: Path, setting: ToolSetting) -> None:
    calls: list[str] = []
    for cassette in (Cassette.record(tmp_path / "tape"), Cassette.replay(tmp_path / "tape")):
        (tool,) = recorded_tools(cassette, [Counter("look", calls, ToolEffect.ACTS)])
        assert await tool.invoke('{"a": 1}', setting) == "call 1"  # type: ignore[union-attr]

    assert calls == ['{"a": 1}']


async def test_the_error_of_a_tool_is_replayed(tmp_path: Path, setting: ToolSetting) -> None:
    for cassette in (Cassette.record(tmp_path / "tape"), Cassette.replay(tmp_path / "tape")):
        (tool,) = recorded_tools(cassette, [Counter("look", [], error="no such city")])
        with pytest.raises(ToolError, match="no such city"):
            await tool.invoke("{}", setting)  # type: ignore[union-attr]


@pytest.mark.parametrize(("effect", "live"), [(ToolEffect.CHANGES_FILES, ()), (ToolEffect.ACTS, ("write",))])
async def test_a_tool_that_changes_files_works_in_a_replay_too(
    tmp_path: Path, setting: ToolSetting, effect: ToolEffect, live: tuple[str, ...]
) -> None:
    calls: list[str] = []
    for cassette in (Cassette.record(tmp_path / "tape"), Cassette.replay(tmp_path / "tape", live=live)):
        (tool,) = recorded_tools(cassette, [Counter("write", calls, effect)])
        assert await tool.invoke("{}", setting) == "call 1"  # type: ignore[union-attr]

    assert len(calls) == 2


async def test_a_tool_that_no_longer_works_as_recorded_is_told(tmp_path: Path, setting: ToolSetting) -> None:
    (tool,) = recorded_tools(Cassette.record(tmp_path / "tape"), [Counter("write", [], ToolEffect.CHANGES_FILES)])
    await tool.invoke("{}", setting)  # type: ignore[union-attr]
    broken = Counter("write", [], ToolEffect.CHANGES_FILES, error="no such file")
    (tool,) = recorded_tools(Cassette.replay(tmp_path / "tape"), [broken])

    with pytest.raises(CassetteMiss, match="expected success, got an error: no such file"):
        await tool.invoke("{}", setting)  # type: ignore[union-attr]


async def test_a_call_whose_arguments_held_a_secret_is_not_made_in_a_replay(tmp_path: Path, setting: ToolSetting) -> None:
    (tool,) = recorded_tools(Cassette.record(tmp_path / "tape"), [Counter("write", [], ToolEffect.CHANGES_FILES)])
    await tool.invoke(f'{{"path": "a", "text": "{SECRET}"}}', setting)  # type: ignore[union-attr]
    calls: list[str] = []
    (tool,) = recorded_tools(Cassette.replay(tmp_path / "tape"), [Counter("write", calls, ToolEffect.CHANGES_FILES)])

    with pytest.raises(CassetteMiss, match="the call of write cannot be made again: its argument text held a secret"):
        await tool.invoke(f'{{"path": "a", "text": "{MARK}"}}', setting)  # type: ignore[union-attr]
    assert calls == []


async def test_a_server_of_tools_is_not_started_in_a_replay(tmp_path: Path, setting: ToolSetting) -> None:
    server = Server(Counter("look", []), [])
    for cassette in (Cassette.record(tmp_path / "tape"), Cassette.replay(tmp_path / "tape")):
        (source,) = recorded_tools(cassette, [server])
        async with source.open(setting) as tools:  # type: ignore[union-attr]
            assert [tool.definition for tool in tools] == [server.tool.definition]
            assert await tools[0].invoke("{}", setting) == "call 1"

    assert server.started == [1]


LONG = "q" * 1_000


@pytest.mark.parametrize(
    ("first", "second", "sent"),
    [
        # Summarised, and sent again.
        ([ContextTooLong("too long", status=400), says("SUMMARY"), says("done")], None, 3),
        # The summary fails too.
        ([ContextTooLong("too long"), RequestRejected("no"), says("done")], None, 3),
        # The next model is asked.
        ([UsageLimitReached("quota")], [says("done")], 2),
        ([RequestRejected("no such model", status=404)], [says("done")], 2),
        ([ProviderTimeout("504")], [says("done")], 4),
    ],
)
async def test_a_run_with_a_failed_call_is_replayed_as_it_went(
    tmp_path: Path, autojump_clock: trio.testing.MockClock, first: Any, second: Any, sent: int
) -> None:
    path, providers = tmp_path / "c.jsonl", [scripted(*script) for script in (first, second) if script]

    async def go(cassette: Cassette) -> tuple[str, float]:
        models = [(provider, f"script-{number}") for number, provider in enumerate(providers)]
        agent = ModelAgent(ModelClient(models, retry=RetryPolicy(seed=1)), cassette=cassette)
        began = trio.current_time()
        assert str(await run(Asking(agent, LONG))) == "finished"
        return path.read_text(), trio.current_time() - began

    recorded, _ = await go(Cassette.record(path))
    assert sum(len(provider.requests) for provider in providers) == sent
    replayed, waited = await go(Cassette.replay(path))

    assert replayed == recorded
    assert waited == 0
    assert sum(len(provider.requests) for provider in providers) == sent
