"""Ready-made agents for feature lists.

ScriptedAgent   makes attempts that are written down
CommandAgent    runs a command-line coding agent: any, or Claude Code, Codex CLI and aider by a dialect
"""

from harnesses.agents.agent_dialects import Dialect, PromptBy, aider, claude_code, codex
from harnesses.agents.agent_output import Reading, Reply
from harnesses.agents.command_agent import CommandAgent
from harnesses.agents.errors import AgentFailed, AgentMissing, AgentTimedOut
from harnesses.agents.sandbox import Bubblewrap
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
    "ScriptedAgent",
    "ScriptedAttempt",
    "aider",
    "claude_code",
    "codex",
    "read_attempts",
    "recording",
]
