"""`orchestrator transcript`: what it prints of recorded and running turns, for people and in the formats of other programs."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import trio

from harnesses import BaseHarness
from harnesses.agents.model.messages import Message, ModelUsage, Role, Thinking, ToolCall, ToolResult
from harnesses.agents.model.transcript import Compaction, ModelRound, Transcript, as_record
from harnesses.diagnostics.extras import install_command
from orchestrator import Orchestrator
from orchestrator.history.transcript_formats import inspect_messages, openai_messages
from tests.orchestrator.commanding import Command, Ended

MODEL = "anthropic:claude-sonnet-4-5"
EVIL = "wrote \x1b[2J\u202e and ghp_0123456789abcdefghijklmnopqrstuvwxyz"
LONG = "\n".join(f"line {number} of the file" for number in range(200))
CODER = Transcript(
    agent="coder",
    scope="coder#1/",
    model=MODEL,
    session="4f2a",
    turn=2,
    stop_reason="end_turn",
    messages=[
        Message(role=Role.SYSTEM, text="Be brief."),
        Message(role=Role.USER, text=f"Mend the parser. {'It is long. ' * 30}"),
        Message(
            role=Role.ASSISTANT,
            text="I look.",
            thinking=(Thinking(text="Where is it?", proof="c2ln"), Thinking(proof="aGlkZGVu")),
            calls=(
                ToolCall(id="c1", name="read", arguments='{"path": "a.py"}'),
                ToolCall(id="c2", name="edit", arguments="{"),
            ),
        ),
        Message(
            role=Role.TOOL,
            results=(
                ToolResult(call_id="c1", name="read", text=LONG),
                ToolResult(call_id="c2", name="edit", text="not JSON", is_error=True),
            ),
        ),
        Message(role=Role.ASSISTANT, text=EVIL),
    ],
    rounds=[
        ModelRound(model=MODEL, message=2, usage=ModelUsage(input_tokens=1200, output_tokens=80), cost=Decimal("0.0048")),
        ModelRound(
            model="openai:gpt-5",
            message=4,
            usage=ModelUsage(input_tokens=2000, cached_tokens=900, output_tokens=40),
            cost=Decimal("0.003"),
            attempts=3,
            reason="the first was down",
        ),
    ],
    compactions=[Compaction(message=4, reason="0.8 of the window", summary="The parser is in a.py.", tokens_before=9000)],
)
FIRST = Transcript(
    agent="coder",
    scope="coder#1/",
    model=MODEL,
    session="4f2a",
    messages=[Message(role=Role.SYSTEM, text="Be brief."), Message(role=Role.USER, text="Hello.")],
    error="TurnFailed: refused",
)
JUDGE = Transcript(agent="judge", scope="judge#1/", model="local:small", messages=[Message(role=Role.USER, text="Good?")])
STEPS: tuple[list[Transcript], ...] = ([FIRST], [], [CODER, JUDGE])


class Talking(BaseHarness[int, int, int]):
    """Attaches the transcripts of its steps."""

    async def execute(self) -> AsyncIterator[tuple[int, int]]:
        for transcripts in STEPS[self.current_step :]:
            for transcript in transcripts:
                self.attach("transcript", as_record(transcript))
            yield 0, 0


@pytest.fixture(scope="module")
def command(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Command]:
    """Give a working directory with a store of three steps."""
    folder = tmp_path_factory.mktemp("transcripts")

    async def main() -> None:
        async with Orchestrator(folder / "run.db", handle_signals=False) as orchestrator:
            orchestrator.start(Talking(0), name="builder")

    trio.run(main)
    with Command(folder) as given:
        yield given


LINES = (
    "transcript builder",
    "transcript builder 3 --agent coder --full",
    "transcript builder 2",
    "transcript builder 9",
    "transcript other",
    "transcript builder --session 4f2a",
    "transcript builder --session nothing",
    "transcript builder --json",
    "transcript builder --format openai",
    "transcript builder --session 4f2a --format openai",
    "transcript builder --agent coder#1 --format inspect",
    "transcript builder --format word",
)


@pytest.fixture(scope="module")
def done(command: Command) -> dict[str, Ended]:
    """Give what each line came to. One process for all of them."""
    return dict(zip(LINES, command.each(*([*line.split()] for line in LINES)), strict=True))


def test_the_newest_step_with_a_turn_is_shown_with_all_that_was_said(done: dict[str, Ended]) -> None:
    lines = done["transcript builder"].out.splitlines()

    assert lines[0].startswith("== step 3: coder, session 4f2a, turn 2 (2")
    assert lines[1] == "2 model calls, 2 tool calls (1 failed); 3,200 tokens in (900 cached), 120 out, $0.0078; end_turn"
    for expected in (
        "system",
        "  Be brief.",
        f"assistant ({MODEL}, 1,200 tokens in, 80 out, $0.0048)",
        "  [thinking] Where is it?",
        "  [thinking] not shown by the provider",
        '  -> read {"path": "a.py"}',
        "tool read",
        "  line 0 of the file",
        "tool edit failed",
        "  not JSON",
        "-- compacted, about 9,000 tokens to 0: 0.8 of the window --",
        "  The parser is in a.py.",
        "assistant (openai:gpt-5, 2,000 tokens in (900 cached), 40 out, $0.003, 3 requests, instead of the first model: the "
        "first was down)",
        "  Good?",
    ):
        assert expected in lines
    assert any(line.startswith("== step 3: judge (") for line in lines)
    assert max(map(len, lines)) <= 160
    assert sum(line.startswith("  It is long.") or "It is long. It" in line for line in lines) >= 3


def test_what_was_said_is_inert_and_without_secrets(done: dict[str, Ended]) -> None:
    for ended in done.values():
        assert "\x1b" not in ended.out
        assert "\u202e" not in ended.out
        assert "ghp_" not in ended.out
    assert r"wrote \x1b[2J\u202e and" in done["transcript builder"].out


def test_long_texts_are_cut_unless_all_is_wanted(done: dict[str, Ended]) -> None:
    usual, full = done["transcript builder"].out, done["transcript builder 3 --agent coder --full"].out

    assert "line 199 of the file" not in usual
    assert "more characters; --full shows them" in usual
    assert "line 199 of the file" in full
    assert "judge" not in full


def test_what_there_is_not_is_told(done: dict[str, Ended]) -> None:
    assert (done["transcript builder 2"].code, done["transcript builder 2"].out) == (0, "")
    assert "builder has no transcript at step 2" in done["transcript builder 2"].err
    assert "expected a number from 1 to 4, the one in progress" in done["transcript builder 9"].err
    assert (done["transcript builder 9"].code, done["transcript other"].code) == (2, 2)
    assert "of session nothing" in done["transcript builder --session nothing"].err
    assert done["transcript builder --format word"].code == 2


def test_a_session_is_shown_over_its_turns(done: dict[str, Ended]) -> None:
    out = done["transcript builder --session 4f2a"].out

    assert [line[:32] for line in out.splitlines() if line.startswith("==")] == [
        "== step 1: coder, session 4f2a, ",
        "== step 3: coder, session 4f2a, ",
    ]
    assert "ended without an answer: TurnFailed: refused" in out


def test_json_is_an_object_for_each_message(done: dict[str, Ended]) -> None:
    objects = done["transcript builder --json"].objects

    assert [(one["agent"], one["message"], one["role"]) for one in objects] == [
        *(("coder", place, message.role.value) for place, message in enumerate(CODER.messages)),
        ("judge", 0, "user"),
    ]
    assert objects[2]["answered"]["usage"]["input_tokens"] == 1200
    assert objects[3]["results"][1] == {"call_id": "c2", "name": "edit", "text": "not JSON", "is_error": True}
    assert objects[4]["compaction"]["reason"] == "0.8 of the window"


def test_a_format_needs_one_conversation(done: dict[str, Ended]) -> None:
    several = done["transcript builder --format openai"]

    assert several.code == 2
    assert "expected one conversation, got 2: 4f2a, judge#1; choose with --agent or --session" in several.err


def test_the_openai_format_is_a_conversation_with_one_system_prompt(done: dict[str, Ended]) -> None:
    objects = done["transcript builder --session 4f2a --format openai"].objects

    assert [one["role"] for one in objects] == ["system", "user", "user", "assistant", "tool", "tool", "assistant"]
    assert objects[3]["tool_calls"][0] == {
        "id": "c1",
        "type": "function",
        "function": {"name": "read", "arguments": '{"path": "a.py"}'},
    }
    assert (objects[5]["tool_call_id"], objects[5]["content"]) == ("c2", "not JSON")


def test_the_vendors_own_types_take_the_openai_format() -> None:
    pydantic: Any = pytest.importorskip("pydantic", reason="the openai package is not installed")
    chat: Any = pytest.importorskip("openai.types.chat", reason=install_command("openai"))
    messages = list(openai_messages(CODER))

    read = pydantic.TypeAdapter(list[chat.ChatCompletionMessageParam]).validate_python(messages, extra="forbid")

    assert [message["role"] for message in read] == [message["role"] for message in messages]


def test_the_inspect_format_has_reasoning_errors_and_calls_that_could_not_be_read(done: dict[str, Ended]) -> None:
    objects = done["transcript builder --agent coder#1 --format inspect"].objects

    assert objects[2]["content"][:2] == [
        {"type": "reasoning", "reasoning": "Where is it?", "redacted": False, "signature": "c2ln"},
        {"type": "reasoning", "reasoning": "", "redacted": True, "signature": "aGlkZGVu"},
    ]
    assert objects[2]["model"] == "anthropic/claude-sonnet-4-5"
    good, bad = objects[2]["tool_calls"]
    assert good == {"id": "c1", "function": "read", "type": "function", "arguments": {"path": "a.py"}}
    assert (bad["arguments"], bad["parse_error"].endswith(": {")) == ({}, True)
    assert objects[4]["error"] == {"type": "unknown", "message": "not JSON"}


def test_inspects_own_types_take_the_inspect_format() -> None:
    model: Any = pytest.importorskip("inspect_ai.model", reason="inspect-ai is not installed")
    pydantic: Any = pytest.importorskip("pydantic")
    messages = json.loads(json.dumps(list(inspect_messages(CODER))))

    read = pydantic.TypeAdapter(list[model.ChatMessage]).validate_python(messages)

    assert read[2].tool_calls[0].arguments == {"path": "a.py"}
    assert read[4].error.message == "not JSON"
    assert [message.role for message in read] == ["system", "user", "assistant", "tool", "tool", "assistant"]


class Waiting(BaseHarness[int, int, int]):
    """Is in the middle of a turn until the store is read."""

    async def execute(self) -> AsyncIterator[tuple[int, int]]:
        said = {"messages": [Message(role=Role.USER, text="Are you there?")]}
        await self.once("coder#1/request", lambda: said, idempotent=True)
        await self.sleep(1000)
        yield 0, 0


def test_a_turn_in_progress_is_shown_as_far_as_it_is_on_record(tmp_path: Path) -> None:
    async def main() -> Ended:
        async with Orchestrator(tmp_path / "run.db", handle_signals=False) as orchestrator:
            orchestrator.start(Waiting(0), name="builder")
            while not orchestrator.store.effects():  # noqa: ASYNC110 - a store rings for nobody
                await trio.sleep(0.01)
            with Command(tmp_path) as command:
                ended = await trio.to_thread.run_sync(command, "transcript", "builder")
            orchestrator.stop(grace=0)
        return ended

    ended = trio.run(main)

    assert ended.code == 0
    assert "== step 1, in progress: coder (" in ended.out
    assert "  Are you there?" in ended.out
