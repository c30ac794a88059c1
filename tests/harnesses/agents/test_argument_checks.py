"""Wrong arguments of agents, tools and models are refused in one line when the thing is made."""

from __future__ import annotations

from collections.abc import Callable
from math import nan
from typing import Any

import pytest

from harnesses.agents import (
    Cassette,
    ChatPolicy,
    CommandAgent,
    Dialect,
    McpServer,
    ModelAgent,
    ModelClient,
    ModelOptions,
    Sandbox,
    ScriptedAgent,
    ToolPolicy,
    aider,
    ask_tool,
    claude_code,
    codex,
    coding_tools,
    function_tool,
    gemini,
    opencode,
    read_attempts,
    recording,
    tool,
)
from harnesses.agents.model.price_table import ModelPrice, price_table
from harnesses.agents.model.rate_limits import RateLimits
from harnesses.agents.model.retry_policy import RetryPolicy
from harnesses.errors import HarnessMisuse

NAME = "anthropic:claude-sonnet-5"


def double(number: int) -> int:
    """Return twice the number."""
    return 2 * number


def agent(**given: Any) -> ModelAgent:
    return ModelAgent(given.pop("model", NAME), **given)


def tool_of(**given: Any) -> object:
    decorate: Any = tool(**given)
    return decorate(double)


def server(**given: Any) -> McpServer:
    return McpServer(given.pop("command", ["server"]), **given)


def command(**given: Any) -> CommandAgent:
    return CommandAgent(given.pop("command", ["agent"]), **given)


def cassette(**given: Any) -> Cassette:
    return Cassette(given.pop("path", "tape"), **given)


def client(**given: Any) -> ModelClient:
    return ModelClient(given.pop("models", agent().client.models), **given)


WRONG: tuple[tuple[Callable[..., object], dict[str, Any], str], ...] = (
    (agent, {"tools": ["coding"]}, r"ModelAgent: tools\[0\]: expected .*, got 'coding'; write \*coding_tools\(\) without"),
    (agent, {"tools": [3]}, r"ModelAgent: tools\[0\]: expected .*, got 3; "),
    (agent, {"tools": [double, coding_tools()]}, r"tools\[1\]: .*; unpack it with \*"),
    (agent, {"tools": coding_tools}, r"tools: expected a list .*; write \[\*coding_tools\(\)\]"),
    (agent, {"tools": "coding"}, "tools: expected a list"),
    (agent, {"tools": None}, "tools: expected a list"),
    (agent, {"tools": McpServer(["x"])}, "tools: expected a list"),
    (agent, {"tools": [McpServer]}, r"tools\[0\]: .*; write McpServer\("),
    (agent, {"policy": {}}, r"ModelAgent: policy: expected a ToolPolicy, or None, got {}; write policy="),
    (agent, {"options": {}}, r"options: .*; write options=ModelOptions\("),
    (agent, {"max_tokens": 5}, r"unknown option 'max_tokens': .*; write options=ModelOptions\(max_tokens=…\)"),
    (agent, {"budget": 500}, r"budget: .*, got 500; write budget=Budget\("),
    (agent, {"chat": {}}, "chat: expected a ChatPolicy"),
    (agent, {"model": None}, "ModelAgent: model: expected provider:model or a ModelClient, got None"),
    (agent, {"system": 5}, "system: expected text, got 5"),
    (agent, {"name": ""}, "name: expected a name"),
    (agent, {"session": 4}, "session: expected text"),
    (agent, {"directory": 4}, "directory: expected a path"),
    (agent, {"cassette": True}, "cassette: expected a Cassette or a path"),
    (agent, {"tool_timeout_s": nan}, "tool_timeout_s: expected seconds above 0, got nan"),
    (agent, {"fallback": "openai:x"}, "fallback: expected a list"),
    (agent, {"base_url": 5}, "base_url: expected text"),
    (agent, {"key_file": 5}, "key_file: expected a path"),
    (agent, {"key_variable": 5}, "key_variable: expected a name"),
    (agent, {"call_timeout_s": "5"}, "timeout_s: expected seconds from 0 up, got '5'"),
    (agent, {"prices": []}, "prices: .*expected a dict of rows"),
    (price_table, {"prices": {5: {}}}, "prices: .*expected a dict of rows"),
    (ModelOptions, {"temperature": nan}, "ModelOptions: temperature: expected 0 to 2"),
    (ModelOptions, {"max_tokens": 0}, "max_tokens: expected a whole number from 1 up"),
    (ModelOptions, {"stop": "END"}, "stop: expected a list of texts"),
    (ModelOptions, {"reasoning": 5}, "reasoning: expected text"),
    (ChatPolicy, {"context_window": -5}, "context_window: expected a whole number from 1 up"),
    (ChatPolicy, {"stream": "yes"}, "stream: expected True or False"),
    (server, {"command": "server --all"}, "MCP server: command: expected a list of the program and its arguments"),
    (server, {"command": 3}, "command: expected a list of the program"),
    (server, {"command": [], "url": "example.com"}, "url: expected an address with http://"),
    (server, {"env": ["SECRET=1"]}, "env: expected a dict of texts by name, got list; "),
    (server, {"headers": {"Authorization": 1}}, "headers: expected a dict of texts by name, got dict; "),
    (server, {"paths": "path"}, "paths: expected a list of texts"),
    (server, {"trusted": "no"}, "trusted: expected True or False"),
    (server, {"start_timeout_s": -1}, "start_timeout_s: expected seconds above 0"),
    (tool_of, {"effect": "read"}, "tool double: effect: expected one of reads, changes_files, acts, dangerous, got 'read'"),
    (tool_of, {"timeout_s": -1}, "timeout_s: expected seconds above 0, or None, got -1"),
    (tool_of, {"name": 5}, "name: expected text"),
    (tool_of, {"paths": "number"}, "paths: expected a list of names"),
    (tool_of, {"paths": ["path"]}, "paths: expected some of number, got 'path'"),
    (tool, {"function": 5}, "function: expected a function, got 5"),
    (ToolPolicy, {"allow": 5}, "tool policy: patterns: expected a list"),
    (ToolPolicy, {"expires_s": nan}, "expires_s: expected seconds above 0"),
    (RetryPolicy, {"seed": "x"}, "RetryPolicy: seed: expected a whole number"),
    (RateLimits, {"concurrent": nan}, "RateLimits: concurrent: expected a whole number"),
    (Sandbox, {"writable": "/srv/cache"}, r"sandbox: writable: expected a list of paths, .*; write \[path\]"),
    (Sandbox, {"hidden": [5]}, "hidden: expected a list of paths"),
    (Sandbox, {"network": 5}, "network: expected True, False, None or a list of hosts"),
    (Sandbox, {"memory_bytes": "1"}, "memory_bytes: expected a whole number from 1 up"),
    (Sandbox, {"program": ""}, "program: expected a name"),
    (command, {"command": "agent -p"}, "CommandAgent: command: expected a list of the program and its arguments"),
    (command, {"prompt": "shout"}, "prompt: expected one of stdin, argument, file"),
    (command, {"limit_s": None}, "limit_s: expected seconds above 0"),
    (command, {"env": {"A": 1}}, "env: expected a dict of texts by name"),
    (command, {"resume": 5}, "resume: expected a list of the program"),
    (command, {"name": 5}, "name: expected a name"),
    (cassette, {"path": ""}, "cassette: path: expected a path"),
    (cassette, {"ignored": {"(": ""}}, "ignored: expected a dict of regular expressions"),
    (cassette, {"live": "run"}, "live: expected a list of texts"),
    (client, {"models": [NAME]}, r"ModelClient: models: .*; write client_for\("),
    (client, {"retry": 5}, r"retry: .*; write retry=RetryPolicy\("),
    (client, {"limits": 5}, r"limits: .*; write limits=RateLimits\("),
    (
        client,
        {"models": [(agent().client.models[0][0], "a b")]},
        r"models\[0\]: expected a model's name without spaces, got 'a b'",
    ),
    (client, {"models": [(agent().client.models[0][0], 5)]}, r"models\[0\]: expected a model's name without spaces, got 5"),
    (ModelPrice, {"input": "much", "output": 1}, "ModelPrice: input: expected US dollars per million tokens, .*, got 'much'"),
    (ModelPrice, {"input": 1, "output": -1}, "ModelPrice: output: expected US dollars per million tokens"),
    (ModelPrice, {"input": 1, "output": 1, "cached": [1]}, r"cached: expected US dollars per million tokens, .*, got \[1\]"),
    (ModelPrice, {"input": 1, "output": 1, "context": 0}, "context: expected a whole number from 1 up, or None, got 0"),
    (ModelPrice, {"input": 1, "output": 1, "long": 5}, "long: expected a ModelPrice, or None, got 5"),
    (codex, {"sandbox": 5}, "codex: sandbox: expected read-only, workspace-write, danger-full-access or None, got 5"),
    (codex, {"program": ""}, "codex: program: expected a name, got ''"),
    (codex, {"arguments": "--model x"}, r"codex: arguments: expected a list of texts, got '--model x'; write \[text\]"),
    (claude_code, {"permission_mode": 5}, "claude_code: permission_mode: expected text"),
    (claude_code, {"partial_messages": "no"}, "partial_messages: expected True or False"),
    (gemini, {"approval_mode": None}, "gemini: approval_mode: expected text"),
    (opencode, {"arguments": [5]}, "opencode: arguments: expected a list of texts"),
    (aider, {"histories": 5}, "aider: histories: expected a path, or None"),
    (Dialect, {"name": 5, "command": ("x",)}, "Dialect: name: expected a name"),
    (Dialect, {"name": "x", "command": "x y"}, "Dialect: command: expected a list of the program and its arguments"),
    (Dialect, {"name": "x", "command": ("x",), "prompt": "file "}, "Dialect: prompt: expected one of stdin, argument, file"),
    (Dialect, {"name": "x", "command": ("x",), "env": ["A=1"]}, "Dialect: env: expected a dict of texts by name"),
    (ask_tool, {"to": "", "description": "x"}, "ask_tool: to: expected a name, got ''"),
    (ask_tool, {"to": 5, "description": "x"}, "ask_tool: to: expected a name, got 5"),
    (ask_tool, {"to": "a", "description": "x", "timeout_s": -1}, "ask_tool: timeout_s: expected seconds above 0, got -1"),
    (coding_tools, {"read_only": "yes"}, "coding_tools: read_only: expected True or False"),
    (function_tool, {"function": double, "check": 5}, "check: expected a function, or None, got 5"),
    (read_attempts, {"path": 5}, "read_attempts: path: expected a path, got 5"),
    (recording, {"agent": ScriptedAgent({}), "path": 5}, "recording: path: expected a path, got 5"),
    (recording, {"agent": 5, "path": "x.json"}, "recording: agent: expected an Agent, got 5"),
    (ScriptedAgent, {"attempts": 5}, "ScriptedAgent: attempts: expected a dict"),
)


@pytest.mark.parametrize(("make", "given", "message"), WRONG)
def test_a_wrong_argument_is_refused_in_one_line(make: Callable[..., object], given: dict[str, Any], message: str) -> None:
    with pytest.raises(HarnessMisuse, match=message) as refused:
        make(**given)

    assert "\n" not in str(refused.value)
