"""`Tool` and `ToolSource`: what an agent can call, and the context of a call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol

from attrs import frozen

from harnesses.agent import AgentRun
from harnesses.agents.model.messages import ToolDefinition
from harnesses.errors import HarnessError


class ToolEffect(StrEnum):
    """What a call of a tool may change."""

    READS = "reads"
    """Nothing: it may be repeated."""
    CHANGES_FILES = "changes_files"
    """Files in the agent's directory, whose tree is kept with the outcome."""
    ACTS = "acts"
    """The world outside: it must not happen twice. An interrupted call is reported as "may have happened"."""
    DANGEROUS = "dangerous"
    """As `ACTS`; a call that was cut off blocks the harness until a person says what happened."""


def _hides_nothing(path: str) -> bool:
    return False


@frozen(kw_only=True)
class ToolSetting:
    """Where an agent's tools work."""

    run: AgentRun[Any, Any]
    """The run of the agent: its log, effects and budget."""
    directory: Path | None = None
    """The agent's working directory; None if it has none."""
    writable: tuple[str, ...] = ()
    """Additional writable paths, as in `Assignment`."""
    readable: tuple[str, ...] = ()
    """Additional readable paths, as in `Assignment`."""
    call_key: str = ""
    """Identity of the call in progress within the turn: the same when a call that was cut off is made again."""
    sandbox: object | None = None
    """The sandbox for commands and servers that tools start, from `harnesses.agents.sandbox`; None for none."""
    hides: Callable[[str], bool] = _hides_nothing
    """Returns whether a tool that looks through folders leaves out a path that it finds: the policy denies it, or it needs
    approval that was not asked for. Paths are relative to the directory, without links; those of folders end in a slash."""


class Tool(Protocol):
    """A tool that a model can call.

    It may also have `paths(arguments) -> Iterable[str] | None`: the paths that a call with these arguments touches, which the
    policy judges as paths; None if any argument may be one, as without the method. And `check(arguments, setting)`, which
    raises `ToolError` for a call that could not be made whoever approved it: nobody is asked for that.
    """

    @property
    def definition(self) -> ToolDefinition:
        """Name, description and schema for the model."""
        ...

    @property
    def effect(self) -> ToolEffect:
        """What a call may change."""
        ...

    @property
    def timeout_s(self) -> float | None:
        """Seconds for one call; None for the agent's default."""
        ...

    async def invoke(self, arguments: str, setting: ToolSetting) -> str:
        """Do the call and return the text for the model.

        Args:
            arguments: JSON as the model wrote it.

        Raises:
            ToolError: the message is for the model. It gets any other exception as a failure of the tool.
        """
        ...


class ToolSource(Protocol):
    """Provides tools for the duration of a turn, such as the tools of an MCP server."""

    def open(self, setting: ToolSetting) -> AbstractAsyncContextManager[Sequence[Tool]]:
        """Start what the tools need, and yield them."""
        ...


class ToolError(HarnessError):
    """A tool call failed; the model gets the message."""


class ToolNotFound(ToolError):
    """No tool has that name; the message lists the known ones."""


class InvalidArguments(ToolError):
    """The arguments are not what the tool takes; the message says which, and what was expected."""


class ToolDenied(ToolError):
    """The policy, the command guard or a person denied the call."""


class ToolTimedOut(ToolError):
    """The call took longer than allowed."""
