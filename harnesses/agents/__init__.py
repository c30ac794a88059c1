"""Agents: model agents, command-line agents and scripted ones.

ModelAgent      asks a model, through its provider's API, and lets it use tools
CommandAgent    runs a command-line coding agent: any program, or one that is known through a dialect
ScriptedAgent   replays attempts at features from a file or table
"""

from typing import TYPE_CHECKING

from harnesses.lazy_exports import lazy as _lazy

if TYPE_CHECKING:
    from harnesses.agents.chat.chat_policy import ChatPolicy
    from harnesses.agents.chat.errors import AnswerCutOff, AnswerEmpty, AnswerInvalid, AnswerRefused, TurnFailed
    from harnesses.agents.chat.model_agent import ModelAgent, ModelAgentOptions
    from harnesses.agents.command.agent_dialects import (
        Dialect,
        PromptBy,
        aider,
        claude_code,
        codex,
        cursor,
        gemini,
        opencode,
        openhands,
    )
    from harnesses.agents.command.agent_output import Reading, Reply
    from harnesses.agents.command.command_agent import CommandAgent
    from harnesses.agents.errors import AgentFailed, AgentMissing, AgentTimedOut, AgentUnavailable
    from harnesses.agents.model.cassette import Cassette, CassetteMiss, CassetteMode
    from harnesses.agents.model.messages import ModelOptions
    from harnesses.agents.model.model_client import ModelClient
    from harnesses.agents.sandbox.sandbox_settings import Bubblewrap, Sandbox
    from harnesses.agents.scripted_agent import ScriptedAgent, ScriptedAttempt, read_attempts, recording
    from harnesses.agents.tools.ask_tool import ask_tool
    from harnesses.agents.tools.coding_tools import coding_tools
    from harnesses.agents.tools.function_tool import function_tool, tool
    from harnesses.agents.tools.mcp_server import McpServer
    from harnesses.agents.tools.tool import ToolEffect, ToolError, ToolSetting
    from harnesses.agents.tools.tool_policy import ToolPolicy
else:
    __getattr__, __dir__ = _lazy(
        __name__,
        {
            "harnesses.agents.chat.chat_policy": "ChatPolicy",
            "harnesses.agents.chat.errors": "AnswerCutOff AnswerEmpty AnswerInvalid AnswerRefused TurnFailed",
            "harnesses.agents.chat.model_agent": "ModelAgent ModelAgentOptions",
            "harnesses.agents.command.agent_dialects": (
                "Dialect PromptBy aider claude_code codex cursor gemini opencode openhands"
            ),
            "harnesses.agents.command.agent_output": "Reading Reply",
            "harnesses.agents.command.command_agent": "CommandAgent",
            "harnesses.agents.errors": "AgentFailed AgentMissing AgentTimedOut AgentUnavailable",
            "harnesses.agents.model.cassette": "Cassette CassetteMiss CassetteMode",
            "harnesses.agents.model.messages": "ModelOptions",
            "harnesses.agents.model.model_client": "ModelClient",
            "harnesses.agents.sandbox.sandbox_settings": "Bubblewrap Sandbox",
            "harnesses.agents.scripted_agent": "ScriptedAgent ScriptedAttempt read_attempts recording",
            "harnesses.agents.tools.ask_tool": "ask_tool",
            "harnesses.agents.tools.coding_tools": "coding_tools",
            "harnesses.agents.tools.function_tool": "function_tool tool",
            "harnesses.agents.tools.mcp_server": "McpServer",
            "harnesses.agents.tools.tool": "ToolEffect ToolError ToolSetting",
            "harnesses.agents.tools.tool_policy": "ToolPolicy",
        },
    )

__all__ = [
    "AgentFailed",
    "AgentMissing",
    "AgentTimedOut",
    "AgentUnavailable",
    "AnswerCutOff",
    "AnswerEmpty",
    "AnswerInvalid",
    "AnswerRefused",
    "Bubblewrap",
    "Cassette",
    "CassetteMiss",
    "CassetteMode",
    "ChatPolicy",
    "CommandAgent",
    "Dialect",
    "McpServer",
    "ModelAgent",
    "ModelAgentOptions",
    "ModelClient",
    "ModelOptions",
    "PromptBy",
    "Reading",
    "Reply",
    "Sandbox",
    "ScriptedAgent",
    "ScriptedAttempt",
    "ToolEffect",
    "ToolError",
    "ToolPolicy",
    "ToolSetting",
    "TurnFailed",
    "aider",
    "ask_tool",
    "claude_code",
    "codex",
    "coding_tools",
    "cursor",
    "function_tool",
    "gemini",
    "opencode",
    "openhands",
    "read_attempts",
    "recording",
    "tool",
]
