"""How command-line coding agents are talked to: as values.

A command is a template: `{prompt}` is the prompt or the file that holds it, `{session}` the conversation, `{directory}` where
to work. Each of these needs its program installed and signed in, and permission to change files without asking a person: it
runs unattended. Give it a sandbox as well.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from enum import StrEnum
from pathlib import Path
from uuid import uuid4

from attrs import frozen

from harnesses.agents.agent_output import AiderReading, ClaudeCodeReading, CodexReading, PlainReading, Reading
from harnesses.files.state_folder import state_folder


class PromptBy(StrEnum):
    """How a command gets the prompt."""

    STDIN = "stdin"
    ARGUMENT = "argument"
    FILE = "file"


@frozen(kw_only=True)
class Dialect:
    """What one program expects, and what its output means."""

    name: str
    command: tuple[str, ...]
    """For a turn that begins a conversation."""
    resume: tuple[str, ...] | None = None
    """For a turn that goes on with one; None is: every turn begins anew."""
    prompt: PromptBy = PromptBy.STDIN
    reading: Callable[[], Reading] = PlainReading
    begin: Callable[[], str] | None = None
    """Makes the name of a conversation, where the program does not name it itself."""
    keeps: tuple[str, ...] = ()
    """Where the program keeps what it needs from one turn to the next; it may write there in a sandbox."""
    network: bool = False
    """Whether the program has to reach its model over the network, and so shares that in a sandbox."""
    reports: frozenset[str] = frozenset()
    """Of `tokens`, `tool_calls` and `money`, what its output tells while it runs or at its end: limits on these are held."""
    secrets: tuple[str, ...] = ()
    """How the variables begin that hold what it signs in with; in a sandbox other secrets are taken out of its environment."""
    litter: tuple[str, ...] = ()
    """Names of what it leaves behind in the directory and is no part of the work; removed after the turn."""


def claude_code(arguments: Sequence[str] = (), *, program: str = "claude", permission_mode: str = "acceptEdits") -> Dialect:
    """Speak with Claude Code.

    It finds a conversation again only in the directory in which it was begun; elsewhere, a new one is begun.

    Args:
        arguments: more of them, such as `["--model", "opus", "--allowedTools", "Bash(pytest:*)"]`.
        permission_mode: "acceptEdits" lets it edit files, and run of commands only those that `--allowedTools` names: without
            any it cannot run tests. "bypassPermissions" lets it do everything: in a sandbox only, and not as root.

    Sources: https://docs.anthropic.com/en/docs/claude-code/cli-reference, https://docs.claude.com/en/docs/claude-code/headless;
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
    """Speak with Codex CLI.

    Args:
        arguments: more of them, such as `["--model", "gpt-5-codex"]`; they must be ones that `exec resume` takes as well.
        sandbox: its own; "danger-full-access" within ours.

    Sources: https://developers.openai.com/codex/noninteractive; openai/codex: docs/exec.md, codex-rs/exec/src/cli.rs and
    exec_events.rs.
    """
    # `exec resume` does not know `--sandbox`, and takes the setting: openai/codex#40149.
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
    """Speak with aider. It knows no conversations; the file of its chat history stands for one.

    Args:
        arguments: more of them, such as `["--model", "sonnet"]`.
        histories: directory for these files, made when needed; None is one in the user's state directory.

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
