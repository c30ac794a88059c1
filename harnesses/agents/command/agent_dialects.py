"""Dialects: how to call each command-line coding agent, as values.

A command is a template: `{prompt}` is replaced by the prompt or the path of the file that holds it, `{session}` by the
conversation id, `{directory}` by the working directory. Each program must be installed and signed in, and allowed to change
files without asking, because it runs unattended. Run it in a sandbox.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from enum import StrEnum
from pathlib import Path
from uuid import uuid4

from attrs import frozen

from harnesses.agents.command.agent_output import AiderReading, ClaudeCodeReading, CodexReading, PlainReading, Reading
from harnesses.files.state_folder import state_folder


class PromptBy(StrEnum):
    """How a command receives the prompt."""

    STDIN = "stdin"
    ARGUMENT = "argument"
    FILE = "file"


@frozen(kw_only=True)
class Dialect:
    """The command line one program expects, and how to parse its output."""

    name: str
    command: tuple[str, ...]
    """Command that starts a new conversation."""
    resume: tuple[str, ...] | None = None
    """Command that resumes a conversation; None starts a new conversation every turn."""
    prompt: PromptBy = PromptBy.STDIN
    reading: Callable[[], Reading] = PlainReading
    begin: Callable[[], str] | None = None
    """Generates a conversation id, for programs that do not generate one themselves."""
    keeps: tuple[str, ...] = ()
    """Paths where the program stores data between turns; writable in a sandbox."""
    network: bool = False
    """Whether the program reaches its model over the network; if so, the sandbox shares the network."""
    reports: frozenset[str] = frozenset()
    """Which of `tokens`, `tool_calls` and `money` its output reports; limits on these can be enforced."""
    secrets: tuple[str, ...] = ()
    """Prefixes of the environment variables that hold its credentials; a sandbox removes all other secrets."""
    litter: tuple[str, ...] = ()
    """File names that it leaves in the directory and that are not part of the work; removed after the turn."""


def claude_code(arguments: Sequence[str] = (), *, program: str = "claude", permission_mode: str = "acceptEdits") -> Dialect:
    """Return the dialect of Claude Code.

    Claude Code can resume a conversation only in the directory where it started; elsewhere a new one is started.

    Args:
        arguments: extra command-line arguments, such as `["--model", "opus", "--allowedTools", "Bash(pytest:*)"]`.
        permission_mode: "acceptEdits" allows file edits and only those commands that `--allowedTools` lists; without any it
            cannot run tests. "bypassPermissions" allows everything: use it only in a sandbox, and not as root.

    Sources: https://docs.anthropic.com/en/docs/claude-code/cli-reference,
    https://docs.claude.com/en/docs/claude-code/headless;
    sessions by directory: https://github.com/anthropics/claude-code/issues/58591.
    """
    speaks = (program, "-p", "--output-format", "stream-json", "--verbose", "--permission-mode", permission_mode, *arguments)
    return Dialect(
        name="claude-code",
        command=speaks,
        resume=(*speaks, "--resume", "{session}"),
        reading=ClaudeCodeReading,
        reports=frozenset({"tokens", "tool_calls", "money"}),
        keeps=("~/.claude", "~/.claude.json"),
        network=True,
        secrets=("ANTHROPIC_", "CLAUDE_", "AWS_", "GOOGLE_", "VERTEX_"),
    )


def codex(arguments: Sequence[str] = (), *, program: str = "codex", sandbox: str = "workspace-write") -> Dialect:
    """Return the dialect of Codex CLI.

    Args:
        arguments: extra command-line arguments, such as `["--model", "gpt-5-codex"]`; `exec resume` must accept them too.
        sandbox: Codex's own sandbox mode; use "danger-full-access" when it runs in the agent's sandbox.

    Sources: https://developers.openai.com/codex/noninteractive; openai/codex: docs/exec.md, codex-rs/exec/src/cli.rs and
    exec_events.rs.
    """
    # `exec resume` rejects `--sandbox` but accepts the setting: openai/codex#40149.
    speaks = (program, "exec", "--json", "--skip-git-repo-check", "-c", f'sandbox_mode="{sandbox}"', *arguments)
    return Dialect(
        name="codex",
        command=(*speaks, "-"),
        resume=(*speaks, "resume", "{session}", "-"),
        reading=CodexReading,
        reports=frozenset({"tokens", "tool_calls"}),
        keeps=("~/.codex",),
        network=True,
        secrets=("OPENAI_", "CODEX_", "AZURE_OPENAI_"),
    )


def aider(arguments: Sequence[str] = (), *, program: str = "aider", histories: Path | str | None = None) -> Dialect:
    """Return the dialect of aider, which has no conversation ids; its chat history file serves as one.

    Args:
        arguments: extra command-line arguments, such as `["--model", "sonnet"]`.
        histories: directory for the history files, created when needed; None uses one in the user's state directory.

    Sources: https://aider.chat/docs/config/options.html, https://aider.chat/docs/scripting.html.
    """
    folder = Path(histories) if histories is not None else state_folder() / "aider"
    quiet = ("--yes-always", "--no-auto-commits", "--no-dirty-commits", "--no-gitignore", "--no-check-update")
    plain = ("--no-pretty", "--no-stream", "--no-show-release-notes", "--no-detect-urls", "--no-suggest-shell-commands")
    files = ("--chat-history-file", "{session}", "--input-history-file", os.devnull)
    speaks = (program, *quiet, *plain, *files, *arguments, "--message-file", "{prompt}")

    def begin() -> str:
        folder.mkdir(parents=True, exist_ok=True)
        return str(folder / f"{uuid4()}.md")

    return Dialect(
        name="aider",
        command=speaks,
        resume=(*speaks, "--restore-chat-history"),
        prompt=PromptBy.FILE,
        reading=AiderReading,
        reports=frozenset({"tokens", "tool_calls", "money"}),
        begin=begin,
        keeps=("~/.aider", str(folder)),
        network=True,
        secrets=("AIDER_", *(f"{model}_API_KEY" for model in _MODELS)),
        litter=(".aider.tags.cache*", ".aider.chat.history.md", ".aider.input.history", ".aider.llm.history"),
    )


_MODELS = ("ANTHROPIC", "OPENAI", "GEMINI", "DEEPSEEK", "OPENROUTER", "GROQ", "MISTRAL", "COHERE", "XAI", "AZURE")
