"""The command-line agents themselves, from npm and PyPI, and what their model on loopback answers.

Each is installed once, into a folder of its own in the user's cache. Claude Code and Codex CLI start within a second. The
others take several, so they are tested only if $TEST_PROGRAMS names them: `TEST_PROGRAMS="gemini opencode aider"`, or `all`.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from attrs import frozen

from harnesses.agents import CommandAgent, Dialect, aider, claude_code, codex, gemini, opencode
from tests.model_server import ModelServer
from tests.npm_packages import npm_package

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "durable-harnesses"
WANTED = frozenset(os.environ.get("TEST_PROGRAMS", "").replace(",", " ").split())
_FAST = frozenset({"claude", "codex"})
_INSTALL_S = 600


@frozen(kw_only=True)
class Program:
    """A command-line agent, and how its model is put on loopback."""

    name: str
    package: str
    """Of npm, or of PyPI if it has `==`."""
    executable: str
    dialect: Callable[[str, str, Path], Dialect]
    """Makes its dialect, of its path, the address of the model, and a folder of the test."""
    env: Callable[[str], Mapping[str, str]]
    """Makes the variables that it needs, of the address of the model."""
    files: Mapping[str, str] = {}
    """Files below its home that it needs, as its users have them."""
    edit: Callable[[Path], Mapping[str, Any]]
    """Makes the answer of the model that has it write `hello` into a file."""
    money: str = "0"
    """What the calls of the first turn cost."""
    used: tuple[int, int] = (1_900, 47)
    """Tokens read and written in the first turn: 900 and 40 by the first call, 1000 and 7 by the second."""


def _writes(tool: str, **arguments: str) -> Callable[[Path], Mapping[str, Any]]:
    def answer(file: Path) -> Mapping[str, Any]:
        said = {key: value.replace("FILE", str(file)) for key, value in arguments.items()}
        return {"content": "I write it.", "reasoning": "It is short.", "toolCalls": [{"name": tool, "arguments": said}]}

    return answer


def _search_and_replace(file: Path) -> Mapping[str, Any]:
    return {"content": f"I write it.\n\n{file.name}\n```\n<<<<<<< SEARCH\n=======\nhello\n>>>>>>> REPLACE\n```\n"}


def _codex(program: str, address: str, _folder: Path) -> Dialect:
    provider = {"name": "mock", "base_url": f"{address}/v1", "wire_api": "responses", "env_key": "MOCK_KEY"}
    settings = ["model_provider=mock", *(f"model_providers.mock.{key}={json.dumps(value)}" for key, value in provider.items())]
    return codex([word for setting in settings for word in ("-c", setting)], program=program)


def _opencode_config(address: str) -> str:
    model = {"name": "m1", "cost": {"input": 5, "output": 25}, "limit": {"context": 100_000, "output": 1_000}}
    provider = {"npm": "@ai-sdk/openai-compatible", "options": {"baseURL": f"{address}/v1", "apiKey": "none"}}
    return json.dumps({"provider": {"mock": {**provider, "models": {"m1": model}}}})


PROGRAMS = {
    program.name: program
    for program in (
        Program(
            name="claude",
            package="@anthropic-ai/claude-code@2.1.197",
            executable="claude",
            # All of its tools would make a request longer than the server remembers.
            dialect=lambda program, _, __: claude_code(["--tools", "Write,Bash"], program=program),
            env=lambda address: {"ANTHROPIC_BASE_URL": address, "ANTHROPIC_API_KEY": "none"},
            edit=_writes("Write", file_path="FILE", content="hello"),
            money="0.010675",
        ),
        Program(
            name="codex",
            package="@openai/codex@0.169.0",
            executable="codex",
            dialect=_codex,
            env=lambda address: {"MOCK_KEY": "none"},
            edit=_writes("exec_command", cmd="printf hello > FILE"),
        ),
        Program(
            name="gemini",
            package="@google/gemini-cli@0.61.0",
            executable="gemini",
            dialect=lambda program, _, __: gemini(["--model", "gemini-2.5-pro"], program=program),
            env=lambda address: {"GEMINI_API_KEY": "none", "GOOGLE_GEMINI_BASE_URL": address},
            files={".gemini/settings.json": '{"security": {"auth": {"selectedType": "gemini-api-key"}}}'},
            edit=_writes("write_file", file_path="FILE", content="hello"),
        ),
        Program(
            name="opencode",
            package="opencode-ai@1.18.33",
            executable="opencode",
            dialect=lambda program, _, __: opencode(["--model", "mock/m1"], program=program),
            env=lambda address: {"OPENCODE_CONFIG_CONTENT": _opencode_config(address), "OPENCODE_DISABLE_MODELS_FETCH": "1"},
            edit=_writes("write", filePath="FILE", content="hello"),
            money="0.010675",
        ),
        Program(
            name="aider",
            package="aider-chat==0.86.2",
            executable="aider",
            dialect=lambda program, _, folder: aider(
                ["--model", "openai/gpt-4o"], program=program, histories=folder / "histories"
            ),
            env=lambda address: {
                "OPENAI_API_BASE": f"{address}/v1",
                "OPENAI_API_KEY": "none",
                "LITELLM_LOCAL_MODEL_COST_MAP": "True",
            },
            edit=_search_and_replace,
            money="0.00265",
            used=(900, 40),
        ),
    )
}


def program_path(program: Program) -> str:
    """Return the path of a program, installed if it is missing; skip the test if that fails or takes too long."""
    if program.name not in _FAST and not {"all", program.name} & WANTED:
        pytest.skip(f"{program.name} starts slowly: TEST_PROGRAMS={program.name} tests it")
    if "==" in program.package:
        return str(_python_package(program.package) / "bin" / program.executable)
    name, _, version = program.package.rpartition("@")
    return str(npm_package(name, version).parents[name.count("/")] / ".bin" / program.executable)


def _python_package(package: str) -> Path:
    """Return the virtual environment of a package from PyPI, which may not share the one of the tests."""
    place = CACHE / "pypi" / package.replace("==", "@")
    done = place / "done"
    if not done.exists():
        shutil.rmtree(place, ignore_errors=True)
        for command in ([sys.executable, "-m", "venv", str(place)], [str(place / "bin/pip"), "install", "-q", package]):
            try:
                subprocess.run(command, check=True, capture_output=True, timeout=_INSTALL_S)
            except (OSError, subprocess.SubprocessError) as error:
                pytest.skip(f"{package} cannot be installed: {error}")
        done.touch()
    return place


def home_for_test() -> Path:
    """Return a new folder in the user's cache: Codex CLI does not run commands if its home is below /tmp."""
    CACHE.mkdir(parents=True, exist_ok=True)
    return Path(tempfile.mkdtemp(prefix="home-", dir=CACHE))


def prepare(server: ModelServer, program: Program, file: Path) -> None:
    """Give the model its answers to three prompts: `greet-now`, which has a file written, `again-now` and `break-now`."""

    def used(read: int, written: int) -> dict[str, Any]:
        # The names of Anthropic, and those of OpenAI and Gemini.
        return {"usage": dict.fromkeys(_READ, read) | dict.fromkeys(_WRITTEN, written)}

    failure = {"error": {"message": "no such model", "type": "invalid_request_error"}, "status": 400}
    server.reply({"userMessage": "again-now"}, {"content": "seen before", **used(1_100, 9)})
    server.reply({"userMessage": "break-now"}, failure)
    server.reply({"userMessage": "greet-now", "hasToolResult": True}, {"content": "done", **used(1_000, 7)})
    server.reply({"userMessage": "greet-now"}, {**program.edit(file), **used(900, 40)})
    server.reply({}, {"content": "a title"})


_READ = ("input_tokens", "prompt_tokens")
_WRITTEN = ("output_tokens", "completion_tokens")


def agent_of(program: Program, server: ModelServer, folder: Path, **more: Any) -> CommandAgent:
    """Return the agent that runs a program with its model on loopback, and with a home of its own in a folder."""
    home = folder / "home"
    home.mkdir(exist_ok=True)
    for name, text in program.files.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(text)
    env = {**program.env(server.url), "HOME": str(home)}
    return CommandAgent(dialect=program.dialect(program_path(program), server.url, folder), env=env, limit_s=60, **more)
