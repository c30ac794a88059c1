"""Agents that work on feature lists.

ScriptedAgent   replays attempts from a file or table
CommandAgent    runs a command-line coding agent: any program, or Claude Code, Codex CLI and aider through a dialect
"""

from harnesses.agents.command.agent_dialects import Dialect, PromptBy, aider, claude_code, codex, gemini, opencode
from harnesses.agents.command.agent_output import Reading, Reply
from harnesses.agents.command.command_agent import CommandAgent
from harnesses.agents.errors import AgentFailed, AgentMissing, AgentTimedOut
from harnesses.agents.sandbox import Bubblewrap, Sandbox
from harnesses.agents.scripted_agent import ScriptedAgent, ScriptedAttempt, read_attempts, recording

__all__ = [
    "AgentFailed",
    "AgentMissing",
    "AgentTimedOut",
    "Bubblewrap",
    "CommandAgent",
    "Dialect",
    "PromptBy",
    "Reading",
    "Reply",
    "Sandbox",
    "ScriptedAgent",
    "ScriptedAttempt",
    "aider",
    "claude_code",
    "codex",
    "gemini",
    "opencode",
    "read_attempts",
    "recording",
]
