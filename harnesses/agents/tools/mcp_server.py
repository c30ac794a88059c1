"""`McpServer`: the tools of an MCP server, over stdio or streamable HTTP, through the official `mcp` package.

McpServer(["npx", "-y", "@modelcontextprotocol/server-filesystem", "."])
McpServer(url="https://tools.example.com/mcp", headers={"Authorization": …})
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from math import inf
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, cast
from urllib.parse import urlsplit

import trio
from attrs import field, frozen
from attrs.converters import optional as unless_none

from harnesses.agents.argument_checks import FLAG, SECONDS, TEXT, TEXTS, VARIABLES, WORDS, Rule, listed, validator
from harnesses.agents.sandbox import Sandbox, environment_within, sandboxed
from harnesses.agents.tools.coding_tools import held_by
from harnesses.agents.tools.mcp_answers import mended
from harnesses.agents.tools.mcp_stdio import ServerProcess
from harnesses.agents.tools.mcp_tools import WHAT, ListChanges, McpSession, ServedBy, plain
from harnesses.agents.tools.tool import Tool, ToolError, ToolSetting
from harnesses.diagnostics.error_groups import leaves
from harnesses.diagnostics.extras import load_extra, own_version
from harnesses.errors import HarnessMisuse, NotReady, Stopping
from harnesses.redaction.redactor import redact_text

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.5, 10.0
"""Seconds between attempts to reach a server over HTTP."""
_RUNNERS = re.compile(r"npx|uvx|uv|pipx|bunx|deno|node|docker|podman|python[\d.]*")
_NOT_A_NAME = ("run", "exec", "x", "tool", "index.js", "main.js", "dist", "build", "src", "lib")


def _command(words: Iterable[str]) -> tuple[str, ...]:
    return listed("MCP server", "command", words, WORDS)


def _argument_names(names: Iterable[str]) -> tuple[str, ...]:
    return listed("MCP server", "paths", names, TEXTS)


class _NotStarted(Exception):
    """The program of a server has not come to answer; the message says why."""


_URL = Rule(
    "an address with http:// or https://",
    lambda value: isinstance(value, str) and (not value or value.startswith(("http://", "https://"))),
)


@frozen
class McpServer:
    """An MCP server, started or connected to for each turn.

    Raises:
        HarnessMisuse: an argument is invalid, or there is neither a command nor a URL, or both.
    """

    command: tuple[str, ...] = field(default=(), converter=_command)
    """The program and its arguments, for a server over stdio."""
    url: str = field(default="", validator=validator("MCP server", _URL), kw_only=True)
    """The endpoint of a server over streamable HTTP."""
    name: str = field(default="", validator=validator("MCP server", TEXT), kw_only=True)
    """Its name in messages and in prefixes of tools; by default from the command or the URL."""
    env: Mapping[str, str] = field(
        factory=dict[str, str], validator=validator("MCP server", VARIABLES), kw_only=True, repr=False
    )
    """Variables added to its environment, which has no secrets otherwise."""
    headers: Mapping[str, str] = field(
        factory=dict[str, str], validator=validator("MCP server", VARIABLES), kw_only=True, repr=False
    )
    """Headers of requests to the URL, such as credentials."""
    trusted: bool = field(default=False, validator=validator("MCP server", FLAG), kw_only=True)
    """Whether to believe what it says of its tools: that they only read."""
    network: bool = field(default=False, validator=validator("MCP server", FLAG), kw_only=True)
    """Whether it may use the network within a sandbox that leaves this open."""
    paths: tuple[str, ...] | None = field(default=None, converter=unless_none(_argument_names), kw_only=True)
    """Names of the arguments of its tools that are paths, which the policy judges as such; None if any may be one."""
    start_timeout_s: float = field(default=60.0, validator=validator("MCP server", SECONDS), kw_only=True)
    """Seconds until it must have started and listed its tools."""

    def __attrs_post_init__(self) -> None:
        if bool(self.command) is bool(self.url):
            raise HarnessMisuse(
                f"MCP server: expected a command or a url, got {self.command!r:.200} and {self.url!r:.200}; set one"
            )
        if not self.name:
            object.__setattr__(self, "name", _name_of(self.command, self.url))

    @asynccontextmanager
    async def open(self, setting: ToolSetting) -> AsyncGenerator[Sequence[Tool], None]:
        """Start or connect to the server and yield its tools, which follow its list of them.

        A server over HTTP that cannot be reached is waited for, with growing pauses, for `start_timeout_s`.

        Raises:
            NotReady: its program, or the package `mcp`, is not installed; or it does not start, or cannot be reached.
        """
        failed: BaseException | None = None
        is_open = False
        waits = _Waits(self.start_timeout_s)
        while not is_open:
            try:
                async with self._connected(setting) as tools:
                    is_open = True
                    # Raised behind the connection, whose nurseries would put it into groups.
                    try:
                        yield tools
                    except (Exception, Stopping) as error:
                        failed = error
            except Exception as error:
                why = plain(error)
                if is_open:
                    setting.run.log(f"[MCP server {self.name}: {why}]")
                elif not self.url or _known_cause(error) is not None or not await waits.again():
                    raise self._cannot_open(error) from error
                else:
                    setting.run.log(f"[MCP server {self.name} cannot be reached, and is tried again: {why}]")
        if failed is not None:
            raise failed

    def _cannot_open(self, error: Exception) -> Exception:
        """Return the error of a server that cannot be opened, which blocks: another try would not help."""
        if (known := _known_cause(error)) is not None:
            return known
        if self.url:
            expected, do = f"an answer within {self.start_timeout_s:g} s", "start the server, or correct its url or headers"
        else:
            expected, do = f"that {self.command[0]!r} starts", "install or correct it"
        silent = next((str(leaf) for leaf in leaves(error) if isinstance(leaf, _NotStarted)), "") or plain(error)
        return NotReady(f"MCP server {self.name!r} cannot be used: expected {expected}, got {silent}; {do}")

    @asynccontextmanager
    async def _connected(self, setting: ToolSetting) -> AsyncGenerator[Sequence[Tool], None]:
        client_class: Any = load_extra("mcp", "mcp", WHAT).Client
        info: Any = load_extra("mcp.types", "mcp", WHAT).Implementation
        changed = ListChanges()
        async with self._transport(setting) as transport:
            with trio.CancelScope(deadline=trio.current_time() + self.start_timeout_s) as limit:
                client = client_class(
                    mended(transport, lambda words: setting.run.log(f"[{self.name}: {words}]")),
                    message_handler=changed.take,
                    client_info=info(name="durable-harnesses", version=own_version() or "0"),
                    cache=None,
                )
                async with client:
                    session = McpSession(self._served_in(setting), client, setting)
                    tools: list[Tool] = await session.tools()
                    limit.deadline = inf
                    async with trio.open_nursery() as nursery:
                        nursery.start_soon(session.follow, changed, tools)
                        nursery.start_soon(session.listen, changed)
                        yield tools
                        nursery.cancel_scope.cancel()
        if limit.cancelled_caught:
            why = f"it has not answered within {self.start_timeout_s:g} s"
            raise _NotStarted(why) if self.command else ToolError(why)

    @asynccontextmanager
    async def _transport(self, setting: ToolSetting) -> AsyncGenerator[Any, None]:
        if self.url:
            connect: Any = load_extra("mcp.client.streamable_http", "mcp", WHAT).streamable_http_client
            http: Any = load_extra("httpx2", "mcp", WHAT)
            timeout = http.Timeout(30.0, read=300.0)
            async with http.AsyncClient(headers=dict(self.headers), timeout=timeout) as requests:
                yield connect(self.url, http_client=requests)
            return
        async with _directory(setting) as directory:
            if (
                shutil.which(self.command[0], path=os.environ.get("PATH")) is None
                and not (directory / self.command[0]).exists()
            ):
                raise NotReady(f"MCP server {self.name!r}: expected the program {self.command[0]!r}, got none; install it")
            process = ServerProcess(lambda line: setting.run.log(f"[{self.name}] {redact_text(line)}"))
            async with sandboxed(
                self.command,
                directory,
                cast(Sandbox | None, setting.sandbox),
                environment=environment_within(os.environ),
                added=self.env,
                writable=setting.writable,
                readable=setting.readable,
                network=self.network,
                log=setting.run.log,
            ) as ready:
                try:
                    yield process.connect(ready, directory)
                except Exception as error:
                    lines = [line for line in map(str.strip, process.errors) if line]
                    said = redact_text(lines[-1])[-1_000:] if lines else f"exit code {process.code}"
                    raise _NotStarted(f"{plain(error)} ({said})") from error

    def _served_in(self, setting: ToolSetting) -> ServedBy:
        return ServedBy(name=self.name, is_trusted=self.trusted, is_held=self._is_held(setting), paths=self.paths)

    def _is_held(self, setting: ToolSetting) -> bool:
        return bool(self.command) and not self.network and len(held_by(setting.sandbox)) > 0 and not _network(setting.sandbox)


def _known_cause(error: Exception) -> NotReady | HarnessMisuse | None:
    return next((leaf for leaf in leaves(error) if isinstance(leaf, NotReady | HarnessMisuse)), None)


class _Waits:
    """Growing pauses between attempts, until a time limit from now."""

    def __init__(self, limit_s: float) -> None:
        self._deadline = trio.current_time() + limit_s
        self._pause_s = _FIRST_PAUSE_S

    async def again(self) -> bool:
        """Wait before the next attempt; return False at once if it would begin after the limit."""
        if trio.current_time() + self._pause_s > self._deadline:
            return False
        await trio.sleep(self._pause_s)
        self._pause_s = min(2 * self._pause_s, _LONGEST_PAUSE_S)
        return True


def _name_of(command: Sequence[str], url: str) -> str:
    """Return a name for a server: of its program, of what `npx` and the like run, or of the host."""
    if url:
        return urlsplit(url).hostname or url
    first = os.path.basename(command[0])
    words = [word for word in command[1:] if not word.startswith("-") and word not in _NOT_A_NAME]
    chosen = words[0] if _RUNNERS.fullmatch(first) and words else first
    parts = [part for part in chosen.split("/") if part and part not in _NOT_A_NAME]
    return (parts[-1] if parts else first).partition("@")[0] or first


def _network(sandbox: object) -> bool:
    return not isinstance(sandbox, Sandbox) or bool(sandbox.network)


@asynccontextmanager
async def _directory(setting: ToolSetting) -> AsyncGenerator[Path, None]:
    """Yield the agent's directory, or an empty one of its own."""
    if setting.directory is not None:
        yield setting.directory
        return
    folder = await trio.to_thread.run_sync(mkdtemp, "", "mcp-server-")
    try:
        yield Path(os.path.realpath(folder))  # noqa: ASYNC240
    finally:
        with trio.CancelScope(shield=True):
            await trio.to_thread.run_sync(shutil.rmtree, folder, True)
