"""What is read in the output of the known programs: lines as these versions have written them, shortened."""

from __future__ import annotations

import json
import tracemalloc
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harnesses.agents.command.agent_output import EventReading, Reading
from harnesses.agents.command.aider_output import AiderReading
from harnesses.agents.command.claude_code_output import ClaudeCodeReading
from harnesses.agents.command.codex_output import CodexReading
from harnesses.agents.command.cursor_output import CursorReading
from harnesses.agents.command.gemini_output import GeminiReading
from harnesses.agents.command.opencode_output import OpenCodeReading
from harnesses.agents.command.openhands_output import OpenHandsReading
from harnesses.agents.command.stream_counts import Deeds, counter_for
from harnesses.budgets.usage import Usage

READINGS = (ClaudeCodeReading, CodexReading, GeminiReading, OpenCodeReading, AiderReading)
CLAUDE = [  # Claude Code 2.1.197 with --include-partial-messages
    '{"type":"system","subtype":"init","session_id":"5a4b","model":"claude-opus-4-8","tools":["Write"]}',
    '{"type":"system","subtype":"status","status":"requesting","session_id":"5a4b"}',
    '{"type":"stream_event","event":{"type":"message_start","message":{"id":"msg_1","content":[],'
    '"usage":{"input_tokens":900,"output_tokens":1}}},"session_id":"5a4b","parent_tool_use_id":null}',
    '{"type":"stream_event","event":{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta",'
    '"thinking":"Let me think."}},"session_id":"5a4b","parent_tool_use_id":null}',
    '{"type":"assistant","message":{"id":"msg_1","content":[{"type":"thinking","thinking":"Let me think.","signature":"s"}],'
    '"usage":{"input_tokens":900,"output_tokens":1}},"parent_tool_use_id":null,"session_id":"5a4b"}',
    '{"type":"stream_event","event":{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"I write "}},'
    '"session_id":"5a4b","parent_tool_use_id":null}',
    '{"type":"stream_event","event":{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"it."}},'
    '"session_id":"5a4b","parent_tool_use_id":null}',
    '{"type":"assistant","message":{"id":"msg_1","content":[{"type":"text","text":"I write it."}],'
    '"usage":{"input_tokens":900,"output_tokens":1}},"parent_tool_use_id":null,"session_id":"5a4b"}',
    '{"type":"stream_event","event":{"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"toolu_1",'
    '"name":"Write","input":{}}},"session_id":"5a4b","parent_tool_use_id":null}',
    '{"type":"stream_event","event":{"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta",'
    '"partial_json":"{\\"file_path\\":\\"a\\"}"}},"session_id":"5a4b","parent_tool_use_id":null}',
    '{"type":"assistant","message":{"id":"msg_1","content":[{"type":"tool_use","id":"toolu_1","name":"Write","input":'
    '{"file_path":"a"}}],"usage":{"input_tokens":900,"output_tokens":1}},"parent_tool_use_id":null,"session_id":"5a4b"}',
    '{"type":"stream_event","event":{"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":40}},'
    '"session_id":"5a4b","parent_tool_use_id":null}',
    '{"type":"user","message":{"role":"user","content":[{"tool_use_id":"toolu_1","type":"tool_result","content":"Created"}'
    ']},"parent_tool_use_id":null,"session_id":"5a4b"}',
    '{"type":"result","subtype":"success","is_error":false,"result":"I write it.","stop_reason":"end_turn",'
    '"session_id":"5a4b","total_cost_usd":0.0055,"usage":{"input_tokens":900,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,'
    '"output_tokens":40},"modelUsage":{"claude-opus-4-8":{"inputTokens":900,"outputTokens":40,"cacheReadInputTokens":0,'
    '"cacheCreationInputTokens":0,"costUSD":0.0055},"claude-haiku-4-5":{"inputTokens":100,"outputTokens":2}}}',
]
CODEX = [  # Codex CLI 0.169.0
    '{"type":"thread.started","thread_id":"01a2"}',
    '{"type":"turn.started"}',
    '{"type":"item.completed","item":{"id":"item_0","type":"reasoning","text":"Let me think."}}',
    '{"type":"item.completed","item":{"id":"item_1","type":"agent_message","text":"I write it."}}',
    '{"type":"item.started","item":{"id":"item_2","type":"command_execution","command":"make a","aggregated_output":"",'
    '"exit_code":null,"status":"in_progress"}}',
    '{"type":"item.completed","item":{"id":"item_2","type":"command_execution","command":"make a","aggregated_output":"no",'
    '"exit_code":2,"status":"failed"}}',
    '{"type":"turn.completed","usage":{"input_tokens":1900,"cached_input_tokens":5,"cache_write_input_tokens":0,'
    '"output_tokens":47,"reasoning_output_tokens":0}}',
]
GEMINI = [  # Gemini CLI 0.61.0
    '{"type":"init","timestamp":"2026-11-24T10:39:09.624Z","session_id":"32ac","model":"gemini-2.5-pro"}',
    '{"type":"message","timestamp":"2026-11-24T10:39:09.626Z","role":"user","content":"greet\\n"}',
    '{"type":"message","timestamp":"2026-11-24T10:39:09.719Z","role":"assistant","content":"I write ","delta":true}',
    '{"type":"message","timestamp":"2026-11-24T10:39:09.719Z","role":"assistant","content":"it.","delta":true}',
    '{"type":"tool_use","timestamp":"2026-11-24T10:39:09.859Z","tool_name":"write_file","tool_id":"write_file__call_1",'
    '"parameters":{"file_path":"a"}}',
    '{"type":"tool_result","timestamp":"2026-11-24T10:39:10.027Z","tool_id":"write_file__call_1","status":"error",'
    '"error":{"type":"invalid_tool_params","message":"no such folder"}}',
    '{"type":"result","timestamp":"2026-11-24T10:39:10.054Z","status":"success","stats":{"total_tokens":1960,'
    '"input_tokens":1900,"output_tokens":47,"cached":5,"input":1895,"duration_ms":430,"tool_calls":1}}',
]
CURSOR = [  # as documented, July 2026
    '{"type":"system","subtype":"init","apiKeySource":"login","cwd":"/w","session_id":"c6b6","model":"GPT-5",'
    '"permissionMode":"default"}',
    '{"type":"user","message":{"role":"user","content":[{"type":"text","text":"greet"}]},"session_id":"c6b6"}',
    '{"type":"assistant","message":{"role":"assistant","content":[{"type":"text","text":"I write it."}]},"session_id":"c6b6"}',
    '{"type":"tool_call","subtype":"started","call_id":"t1","tool_call":{"writeToolCall":{"args":{"path":"a"}}}}',
    '{"type":"tool_call","subtype":"completed","call_id":"t1","tool_call":{"writeToolCall":{"args":{"path":"a"},'
    '"result":{"success":{"path":"/w/a","linesCreated":1,"fileSize":6}}}}}',
    '{"type":"tool_call","subtype":"started","call_id":"t2","tool_call":{"function":{"name":"look","arguments":"{}"}}}',
    '{"type":"tool_call","subtype":"completed","call_id":"t2","tool_call":{"function":{"name":"look","arguments":"{}",'
    '"result":{"rejected":{"reason":"not allowed"}}}}}',
    '{"type":"result","subtype":"success","duration_ms":5,"duration_api_ms":5,"is_error":false,"result":"I write it.",'
    '"session_id":"c6b6","request_id":"r1"}',
]
_OPENHANDS: list[dict[str, Any]] = [
    {
        "kind": "MessageEvent",
        "source": "user",
        "llm_message": {"role": "user", "content": [{"type": "text", "text": "greet"}]},
    },
    {
        "kind": "ActionEvent",
        "source": "agent",
        "reasoning_content": "Let me think.",
        "thought": [],
        "action": {"kind": "TerminalAction", "command": "make a"},
        "tool_name": "terminal",
        "tool_call_id": "t1",
    },
    {
        "kind": "ObservationEvent",
        "observation": {"content": [{"type": "text", "text": "no rule"}], "is_error": True},
        "tool_name": "terminal",
        "tool_call_id": "t1",
    },
    {
        "kind": "ActionEvent",
        "source": "agent",
        "action": {"kind": "FinishAction", "message": "I write it."},
        "tool_name": "finish",
        "tool_call_id": "t2",
    },
    {"kind": "ObservationEvent", "observation": {"content": [{"type": "text", "text": "I write it."}]}, "tool_name": "finish"},
]


def shown_by_openhands(*events: dict[str, Any]) -> list[str]:
    """Return the lines by which it tells events."""
    return [line for one in events for line in ("--JSON Event--", *json.dumps(one, indent=2, sort_keys=True).splitlines())]


OPENHANDS = [  # as documented, and as its source writes it, November 2026
    *shown_by_openhands(*_OPENHANDS),
    "\x1b[33mConversation ID:\x1b[0m 0123456789abcdef0123456789abcdef",
]
OPENCODE = [  # OpenCode 1.18.33
    '{"type":"step_start","sessionID":"ses_1","part":{"id":"prt_1","messageID":"msg_1","type":"step-start"}}',
    '{"type":"reasoning","sessionID":"ses_1","part":{"id":"prt_2","type":"reasoning","text":"Let me think."}}',
    '{"type":"text","sessionID":"ses_1","part":{"id":"prt_3","type":"text","text":"I write it."}}',
    '{"type":"tool_use","sessionID":"ses_1","part":{"type":"tool","tool":"write","callID":"call_1","state":{"status":"completed",'
    '"input":{"filePath":"a"},"output":"Wrote file successfully."},"id":"prt_4","sessionID":"ses_1"}}',
    '{"type":"step_finish","sessionID":"ses_1","part":{"id":"prt_5","reason":"tool-calls","type":"step-finish","tokens":{'
    '"total":955,"input":900,"output":30,"reasoning":10,"cache":{"write":5,"read":10}},"cost":0.0055}}',
    '{"type":"step_start","sessionID":"ses_1","part":{"id":"prt_6","type":"step-start"}}',
    '{"type":"step_finish","sessionID":"ses_1","part":{"id":"prt_7","reason":"stop","type":"step-finish","tokens":{'
    '"total":1007,"input":1000,"output":7,"reasoning":0,"cache":{"write":0,"read":0}},"cost":0.005175}}',
]
AIDER = [  # aider 0.86.2
    '{"event": "launched", "properties": {}, "user_id": "3b10", "time": 1795516853}',
    "Aider v0.86.2",
    '{"event": "message_send_starting", "properties": {}, "user_id": "3b10", "time": 1795516855}',
    "I write it.",
    "",
    "Tokens: 9.1k sent, 40 received. Cost: $0.02 message, $0.02 session.",
    '{"event": "message_send", "properties": {"main_model": "openai/REDACTED", "prompt_tokens": 9123, '
    '"completion_tokens": 40, "total_tokens": 9163, "cost": 0.0232075}, "user_id": "3b10", "time": 1795516855}',
    "Applied edit to a",
    '{"event": "exit", "properties": {"reason": "Completed --message-file"}, "user_id": "3b10", "time": 1795516855}',
]


def read(reading: Any, lines: list[str]) -> list[str]:
    """Return the events that the lines report, in short."""
    told: list[str] = []
    for line in lines:
        reading.line(line)
        told += [f"{event.kind} {event.error or event.tool or event.text.strip()}".strip() for event in reading.events]
    return told


@pytest.mark.parametrize(
    ("reading", "lines", "told"),
    [
        (
            ClaudeCodeReading,
            CLAUDE,
            "thinking_delta Let me think.|text_delta I write|text_delta it.|message_complete I write it.|"
            "tool_call_delta Write|tool_started Write|tool_finished Write",
        ),
        (
            CodexReading,
            CODEX,
            "thinking_delta Let me think.|text_delta I write it.|message_complete I write it.|tool_started command_execution|"
            "tool_finished exit code 2",
        ),
        (
            GeminiReading,
            GEMINI,
            "text_delta I write|text_delta it.|message_complete I write it.|tool_started write_file|"
            "tool_finished no such folder",
        ),
        (
            CursorReading,
            CURSOR,
            "text_delta I write it.|message_complete I write it.|tool_started write|tool_finished write|tool_started look|"
            'tool_finished rejected: {"reason": "not allowed"}',
        ),
        (
            OpenHandsReading,
            OPENHANDS,
            "thinking_delta Let me think.|tool_started terminal|tool_finished no rule|text_delta I write it.|"
            "message_complete I write it.",
        ),
        (
            OpenCodeReading,
            OPENCODE,
            "thinking_delta Let me think.|text_delta I write it.|message_complete I write it.|tool_started write|"
            "tool_finished write",
        ),
        (
            AiderReading,
            AIDER,
            "text_delta I write it.|text_delta|message_complete I write it.|tool_started edit|tool_finished edit",
        ),
    ],
)
def test_each_thing_that_a_program_does_is_told_once(reading: type[Any], lines: list[str], told: str) -> None:
    assert read(reading(), lines) == told.split("|")


@pytest.mark.parametrize(
    ("reading", "lines", "used"),
    [
        # The main agent and its helpers.
        (ClaudeCodeReading, CLAUDE, Usage(input_tokens=1_000, output_tokens=42, money=Decimal("0.0055"))),
        (CodexReading, CODEX, Usage(input_tokens=1_900, output_tokens=47, cached_tokens=5)),
        # Thoughts are part of the total alone.
        (GeminiReading, GEMINI, Usage(input_tokens=1_900, output_tokens=47, cached_tokens=5, tokens=1_960)),
        (OpenCodeReading, OPENCODE, Usage(input_tokens=1_915, output_tokens=47, cached_tokens=10, money=Decimal("0.010675"))),
        # Not the rounded numbers of its text.
        (AiderReading, AIDER, Usage(input_tokens=9_123, output_tokens=40, money=Decimal("0.0232075"))),
    ],
)
def test_usage_and_money_are_what_the_program_has_used(reading: type[Any], lines: list[str], used: Usage) -> None:
    whole = reading()
    read(whole, lines)

    assert whole.usage == used
    assert whole.reply().error is None
    assert "I write it." in whole.reply().message


def test_openhands_names_its_conversation_and_says_what_it_did_last() -> None:
    reading = OpenHandsReading()
    read(reading, OPENHANDS)
    reply = reading.reply()

    assert (reply.session, reply.message, reply.error, reply.worked) == ("0123456789abcdef" * 2, "I write it.", None, True)


@pytest.mark.parametrize("events", range(4))
def test_openhands_that_ends_before_it_has_finished_has_failed(events: int) -> None:
    reading = OpenHandsReading()
    read(reading, shown_by_openhands(*_OPENHANDS[:events]))
    assert reading.reply().error == "the output ended before the turn was completed"

    read(reading, shown_by_openhands({"kind": "ConversationErrorEvent", "detail": "no key"}))
    assert reading.reply().error == "no key"


def test_output_tokens_of_a_message_in_progress_are_known_before_the_result() -> None:
    reading = ClaudeCodeReading()
    read(reading, CLAUDE[:-1])

    assert (reading.usage.input_tokens, reading.usage.output_tokens) == (900, 40)


@pytest.mark.parametrize("cut", range(len(OPENCODE)))
def test_a_program_that_ends_early_has_failed(cut: int) -> None:
    for reading, lines in ((GeminiReading(), GEMINI), (OpenCodeReading(), OPENCODE), (ClaudeCodeReading(), CLAUDE)):
        read(reading, lines[:cut])

        assert reading.reply().error is not None


def test_a_model_that_does_not_answer_is_an_error_of_aider() -> None:
    reading = AiderReading()
    read(reading, [*AIDER[:3], "litellm.BadRequestError: OpenAIException - bad request", AIDER[-1]])

    assert reading.reply().error == "litellm.BadRequestError: OpenAIException - bad request"


@pytest.mark.parametrize(
    ("lines", "error"),
    [
        ([*AIDER[:-1], "test_socket: connection refused", "litellm.APIConnectionError in a test"], None),
        ([*AIDER[:3], "The test says: connection refused"], "the model sent no answer"),
        ([*AIDER[:3], "I write", "litellm.Timeout: timed out", "Retrying in 0.2 seconds..."], "litellm.Timeout: timed out"),
        (
            [AIDER[0], "No LLM model was specified and no API keys were provided."],
            "No LLM model was specified and no API keys were provided.",
        ),
    ],
)
def test_only_aider_s_own_error_lines_are_its_error(lines: list[str], error: str | None) -> None:
    reading = AiderReading()
    read(reading, lines)
    assert reading.reply().error == error


@pytest.mark.parametrize(
    ("reading", "lines", "calls", "messages"),
    [(GeminiReading, GEMINI, 1, 1), (OpenCodeReading, OPENCODE, 1, 2), (ClaudeCodeReading, CLAUDE, 1, 1)],
)
def test_guardrails_count_each_tool_call_and_message_once(
    reading: type[Any], lines: list[str], calls: int, messages: int
) -> None:
    counter, deeds = counter_for(reading()), Deeds()
    assert counter is not None

    new = [deed for line in [*lines, *lines[-1:]] for deed in counter(line) if deeds.is_new(deed)]

    assert (sum(deed.is_tool for deed in new), sum(not deed.is_tool for deed in new)) == (calls, messages)


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["type", "part", "item", "message"]), inner),
    max_leaves=8,
)
_KINDS = ("assistant", "stream_event", "user", "result", "item.completed", "message", "tool_use", "tool_result", "step_finish")


_FIELDS = st.dictionaries(st.sampled_from(["message", "event", "item", "part", "content", "id"]), _VALUES)


@given(st.sampled_from(_KINDS), _FIELDS)
def test_output_of_any_shape_never_raises(kind: str, fields: dict[str, Any]) -> None:
    line = json.dumps({"type": kind, "event": kind, **fields})

    for make in READINGS:
        reading = make()
        assert isinstance(reading, Reading)
        assert isinstance(reading, EventReading)
        reading.line(line)
        reading.line(line[:-1])
        list(reading.events)
        assert reading.reply() is not None


def test_refused_permissions_and_what_codex_did_are_in_the_log() -> None:
    claude, denied = ClaudeCodeReading(), [{"tool_name": "Bash", "tool_use_id": "t", "tool_input": {"command": "make test"}}]
    result = {"type": "result", "subtype": "success", "result": "done", "permission_denials": denied, "total_cost_usd": 0.5}
    assert claude.line(json.dumps(result)) == "[success] [no permission for: Bash make test] done"
    reply = claude.reply()
    assert (reply.message, reply.error) == ("done\n[no permission for: Bash make test]", None)
    assert claude.usage.money == Decimal("0.5")

    def line(**item: object) -> str:
        return CodexReading().line(json.dumps({"type": "item.completed", "item": item}))

    changes = [{"path": "a.py", "kind": "update"}, {"path": "b.py", "kind": "add"}]
    assert line(type="file_change", changes=changes) == "[file_change] update a.py, add b.py"
    told = line(type="mcp_tool_call", server="docs", tool="search", arguments={"q": "h11"})
    assert told == '[mcp_tool_call] docs.search {"q": "h11"}'
    assert line(type="web_search", query="h11 state") == "[web_search] h11 state"


def test_an_event_of_openhands_that_does_not_end_is_not_kept() -> None:
    reading = OpenHandsReading()
    reading.line("--JSON Event--")
    tracemalloc.start()
    try:
        for number in range(4_000):
            reading.line(f"{number:>1000}")
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert reading.line("}") == "[event] too long to read"
    assert kept < 1_000_000
