"""Dialects: how to call each command-line coding agent, as values.

A command is a template: `{prompt}` is replaced by the prompt or the path of the file that holds it, `{session}` by the
conversation id, `{directory}` by the working directory. Each program must be installed and signed in, and allowed to change
files without asking, because it runs unattended. Run it in a sandbox.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from uuid import uuid4

from attrs import evolve, field, frozen

from harnesses.agents.argument_checks import (
    FLAG,
    NAME,
    PATH,
    TEXT,
    TEXTS,
    VARIABLES,
    WORDS,
    Rule,
    check,
    optional,
    validator,
)
from harnesses.agents.command.agent_output import PlainReading, Reading
from harnesses.agents.command.aider_output import AiderReading
from harnesses.agents.command.claude_code_output import ClaudeCodeReading
from harnesses.agents.command.codex_output import CodexReading
from harnesses.agents.command.cursor_output import CursorReading
from harnesses.agents.command.gemini_output import GeminiReading
from harnesses.agents.command.opencode_output import OpenCodeReading
from harnesses.agents.command.openhands_output import OpenHandsReading
from harnesses.files.state_folder import state_folder


class PromptBy(StrEnum):
    """How a command receives the prompt."""

    STDIN = "stdin"
    """On its standard input."""
    ARGUMENT = "argument"
    """As the argument `{prompt}` of the command."""
    FILE = "file"
    """In a file, whose path replaces `{prompt}`."""


_PROMPT = Rule(f"one of {', '.join(PromptBy)}", lambda value: isinstance(value, str) and value in tuple(PromptBy))


@frozen(kw_only=True)
class Dialect:
    """The command line one program expects, and how to parse its output.

    Raises:
        HarnessMisuse: an argument is invalid.
    """

    name: str = field(validator=validator("Dialect", NAME))
    """Name of the dialect, and of its agent in logs and records."""
    command: tuple[str, ...] = field(validator=validator("Dialect", WORDS))
    """Command that starts a new conversation."""
    resume: tuple[str, ...] | None = field(default=None, validator=validator("Dialect", optional(WORDS)))
    """Command that resumes a conversation; None starts a new conversation every turn."""
    prompt: PromptBy = field(default=PromptBy.STDIN, validator=validator("Dialect", _PROMPT))
    """How the command receives the prompt."""
    reading: Callable[[], Reading] = PlainReading
    """Makes the parser of one turn's output."""
    begin: Callable[[], str] | None = None
    """Generates a conversation id, for programs that do not generate one themselves."""
    keeps: tuple[str, ...] = ()
    """Paths where the program stores data between turns; writable in a sandbox. A directory that is missing is created.
    `$NAME` is the path in that environment variable, if it is set."""
    network: bool = False
    """Whether the program reaches its model over the network; if so, the sandbox shares the network."""
    reports: frozenset[str] = frozenset()
    """Which of `tokens`, `tool_calls` and `money` its output reports; limits on these can be enforced."""
    secrets: tuple[str, ...] = ()
    """Prefixes of the environment variables that hold its credentials; a sandbox removes all other secrets."""
    litter: tuple[str, ...] = ()
    """File names that it leaves in the directory and that are not part of the work; removed after the turn."""
    env: Mapping[str, str] = field(factory=dict[str, str], validator=validator("Dialect", VARIABLES))
    """Variables added to its environment."""
    in_sandbox: Dialect | None = None
    """The dialect whose command and environment are used instead in a sandbox; None for this one."""
    in_own_sandbox: bool = False
    """Whether it was asked to use a sandbox of its own, which cannot start in another one."""


_KEEPS: Mapping[str, tuple[str, ...]] = {
    "claude": ("~/.claude", "~/.claude.json", "$CLAUDE_CONFIG_DIR"),
    "codex": ("~/.codex", "$CODEX_HOME"),
    "gemini": ("~/.gemini",),
    "opencode": ("~/.config/opencode", "~/.cache/opencode", "~/.local/share/opencode", "~/.local/state/opencode"),
    "aider": ("~/.aider",),
    "cursor-agent": ("~/.cursor", "~/.config/cursor"),
    "openhands": ("~/.openhands",),
    "goose": ("~/.config/goose", "~/.local/share/goose", "~/.local/state/goose"),
}
"""Where programs store data between turns, by the name of the program."""


def known_keeps(program: str) -> tuple[str, ...]:
    """Return where a well-known program stores data between turns; empty for any other."""
    return _KEEPS.get(os.path.basename(program), ())


def _check(dialect: str, program: object, arguments: object) -> None:
    check(dialect, "program", program, NAME)
    check(dialect, "arguments", arguments, TEXTS)


def claude_code(
    arguments: Sequence[str] = (),
    *,
    program: str = "claude",
    permission_mode: str = "acceptEdits",
    partial_messages: bool = True,
) -> Dialect:
    """Return the dialect of Claude Code.

    Claude Code can resume a conversation only in the directory where it started; elsewhere a new one is started.

    Args:
        arguments: extra command-line arguments, such as `["--model", "opus", "--allowedTools", "Bash(pytest:*)"]`.
        permission_mode: "acceptEdits" allows file edits and only those commands that `--allowedTools` lists; without any it
            cannot run tests. "bypassPermissions" allows everything: use it only in a sandbox. As root it is refused outside of
            one; there, use "acceptEdits" with `--allowedTools`.
        partial_messages: whether text and reasoning are reported while the model writes them, or only when complete.

    Sources: https://docs.anthropic.com/en/docs/claude-code/cli-reference,
    https://docs.claude.com/en/docs/claude-code/headless;
    sessions by directory: https://github.com/anthropics/claude-code/issues/58591.
    """
    _check("claude_code", program, arguments)
    check("claude_code", "permission_mode", permission_mode, TEXT)
    check("claude_code", "partial_messages", partial_messages, FLAG)
    partial = ("--include-partial-messages",) if partial_messages else ()
    format = ("--output-format", "stream-json", "--verbose", *partial)
    speaks = (program, "-p", *format, "--permission-mode", permission_mode, *arguments)
    dialect = Dialect(
        name="claude-code",
        command=speaks,
        resume=(*speaks, "--resume", "{session}"),
        reading=ClaudeCodeReading,
        reports=frozenset({"tokens", "tool_calls", "money"}),
        keeps=_KEEPS["claude"],
        network=True,
        secrets=("ANTHROPIC_", "CLAUDE_", "AWS_", "GOOGLE_", "VERTEX_"),
    )
    # Tells it that it is in a sandbox: as root it refuses bypassPermissions otherwise.
    return evolve(dialect, in_sandbox=evolve(dialect, env={"IS_SANDBOX": "1"}))


_CODEX_MODES = ("read-only", "workspace-write", "danger-full-access")
_CODEX_MODE = Rule(f"{', '.join(_CODEX_MODES)} or None", lambda value: value is None or value in _CODEX_MODES)


def codex(arguments: Sequence[str] = (), *, program: str = "codex", sandbox: str | None = None) -> Dialect:
    """Return the dialect of Codex CLI.

    Args:
        arguments: extra command-line arguments, such as `["--model", "gpt-5-codex"]`; `exec resume` must accept them too.
        sandbox: Codex's own sandbox mode. None uses "danger-full-access" in the agent's sandbox, where its own cannot start,
            and "workspace-write" elsewhere.

    Sources: https://developers.openai.com/codex/noninteractive; openai/codex: docs/exec.md, codex-rs/exec/src/cli.rs and
    exec_events.rs.
    """

    _check("codex", program, arguments)
    check("codex", "sandbox", sandbox, _CODEX_MODE)

    def in_mode(mode: str) -> Dialect:
        # `exec resume` rejects `--sandbox` but accepts the setting: openai/codex#40149.
        speaks = (program, "exec", "--json", "--skip-git-repo-check", "-c", f'sandbox_mode="{mode}"', *arguments)
        return Dialect(
            name="codex",
            command=(*speaks, "-"),
            resume=(*speaks, "resume", "{session}", "-"),
            reading=CodexReading,
            reports=frozenset({"tokens", "tool_calls"}),
            keeps=_KEEPS["codex"],
            in_own_sandbox=sandbox not in (None, "danger-full-access"),
            network=True,
            secrets=("OPENAI_", "CODEX_", "AZURE_OPENAI_"),
        )

    if sandbox is not None:
        return in_mode(sandbox)
    return evolve(in_mode("workspace-write"), in_sandbox=in_mode("danger-full-access"))


def gemini(arguments: Sequence[str] = (), *, program: str = "gemini", approval_mode: str = "auto_edit") -> Dialect:
    """Return the dialect of Gemini CLI, which reports tokens but no money.

    Gemini CLI can resume a conversation only in the directory where it started; elsewhere a new one is started.

    Args:
        arguments: extra command-line arguments, such as `["--model", "gemini-2.5-pro"]`.
        approval_mode: "auto_edit" allows file edits, but no commands, so it cannot run tests. "yolo" allows everything: use it
            only in a sandbox.

    Sources: https://geminicli.com/docs/cli/headless, https://geminicli.com/docs/cli/session-management.
    """
    _check("gemini", program, arguments)
    check("gemini", "approval_mode", approval_mode, TEXT)
    speaks = (program, "--output-format", "stream-json", "--approval-mode", approval_mode, *arguments)
    return Dialect(
        name="gemini",
        command=speaks,
        resume=(*speaks, "--resume", "{session}"),
        reading=GeminiReading,
        reports=frozenset({"tokens", "tool_calls"}),
        keeps=_KEEPS["gemini"],
        network=True,
        secrets=("GEMINI_", "GOOGLE_"),
        # It does nothing in a directory that is not trusted, and nobody is there to be asked.
        env={"GEMINI_CLI_TRUST_WORKSPACE": "true"},
    )


def cursor(arguments: Sequence[str] = (), *, program: str = "cursor-agent", force: bool = False) -> Dialect:
    """Return the dialect of Cursor's agent, which reports no usage. Made from its documentation, not tried with the program.

    Args:
        arguments: extra command-line arguments, such as `["--model", "gpt-5"]`.
        force: whether it does what would need approval; otherwise it edits files in its directory, and runs commands that
            its settings allow. Use it only in a sandbox.

    Sources: https://cursor.com/docs/cli/reference/output-format, https://cursor.com/docs/cli/headless.
    """
    _check("cursor", program, arguments)
    check("cursor", "force", force, FLAG)
    speaks = (program, "--print", "--output-format", "stream-json", *(("--force",) if force else ()), *arguments)
    return Dialect(
        name="cursor",
        command=speaks,
        resume=(*speaks, "--resume", "{session}"),
        prompt=PromptBy.ARGUMENT,
        reading=CursorReading,
        keeps=_KEEPS["cursor-agent"],
        network=True,
        secrets=("CURSOR_",),
    )


def opencode(arguments: Sequence[str] = (), *, program: str = "opencode") -> Dialect:
    """Return the dialect of OpenCode.

    It edits files and runs commands unless its own configuration forbids it: use it in a sandbox.

    Args:
        arguments: extra command-line arguments, such as `["--model", "anthropic/claude-sonnet-4-5"]`. `--auto` also grants
            what its configuration would have it ask for.

    Sources: https://opencode.ai/docs/cli, https://opencode.ai/docs/config.
    """
    _check("opencode", program, arguments)
    speaks = (program, "run", "--format", "json", "--thinking", *arguments)
    return Dialect(
        name="opencode",
        command=speaks,
        resume=(*speaks, "--session", "{session}"),
        reading=OpenCodeReading,
        reports=frozenset({"tokens", "tool_calls", "money"}),
        keeps=_KEEPS["opencode"],
        network=True,
        secrets=("OPENCODE_", "AWS_", "GOOGLE_", *(f"{model}_API_KEY" for model in _MODELS)),
        env={"OPENCODE_DISABLE_AUTOUPDATE": "1"},
    )


def openhands(arguments: Sequence[str] = (), *, program: str = "openhands") -> Dialect:
    """Return the dialect of the OpenHands CLI, which reports no usage. Made from its documentation, not tried with it.

    Without its user interface it approves everything it does: use it in a sandbox.

    Args:
        arguments: extra command-line arguments. `["--override-with-envs"]` takes model and key from `LLM_MODEL`, `LLM_API_KEY`
            and `LLM_BASE_URL`; otherwise its own settings name them.

    Sources: https://docs.openhands.dev/openhands/usage/cli/headless; OpenHands/OpenHands-CLI: json_callback.py and
    main_parser.py.
    """
    _check("openhands", program, arguments)
    speaks = (program, "--headless", "--json", "--exit-without-confirmation", *arguments)
    return Dialect(
        name="openhands",
        command=(*speaks, "--task={prompt}"),
        resume=(*speaks, "--resume", "{session}", "--task={prompt}"),
        prompt=PromptBy.ARGUMENT,
        reading=OpenHandsReading,
        keeps=_KEEPS["openhands"],
        network=True,
        secrets=("LLM_", "OPENHANDS_", *(f"{model}_API_KEY" for model in _MODELS)),
    )


def aider(arguments: Sequence[str] = (), *, program: str = "aider", histories: Path | str | None = None) -> Dialect:
    """Return the dialect of aider, which has no conversation ids; its chat history file serves as one.

    Args:
        arguments: extra command-line arguments, such as `["--model", "sonnet"]`.
        histories: directory for the history files, created when needed; None uses one in the user's state directory.

    Sources: https://aider.chat/docs/config/options.html, https://aider.chat/docs/scripting.html.
    """
    _check("aider", program, arguments)
    check("aider", "histories", histories, optional(PATH))
    folder = Path(histories) if histories is not None else state_folder() / "aider"
    quiet = ("--yes-always", "--no-auto-commits", "--no-dirty-commits", "--no-gitignore", "--no-check-update")
    plain = ("--no-pretty", "--no-stream", "--no-show-release-notes", "--no-detect-urls", "--no-suggest-shell-commands")
    files = ("--chat-history-file", "{session}", "--input-history-file", os.devnull)
    # The text rounds tokens and money; the analytics log is exact, and stays on this machine.
    exact = ("--no-analytics", "--analytics-log", "/dev/stdout")
    speaks = (program, *quiet, *plain, *files, *exact, *arguments, "--message-file", "{prompt}")

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
        keeps=(*_KEEPS["aider"], str(folder)),
        network=True,
        secrets=("AIDER_", *(f"{model}_API_KEY" for model in _MODELS)),
        # Without them it writes a name of its own into `.git/config`, which is read-only in a sandbox. It commits nothing.
        env={
            "GIT_CONFIG_COUNT": "2",
            "GIT_CONFIG_KEY_0": "user.name",
            "GIT_CONFIG_VALUE_0": "aider",
            "GIT_CONFIG_KEY_1": "user.email",
            "GIT_CONFIG_VALUE_1": "aider@localhost",
        },
        litter=(".aider.tags.cache*", ".aider.chat.history.md", ".aider.input.history", ".aider.llm.history"),
    )


_MODELS = ("ANTHROPIC", "OPENAI", "GEMINI", "DEEPSEEK", "OPENROUTER", "GROQ", "MISTRAL", "COHERE", "XAI", "AZURE")
