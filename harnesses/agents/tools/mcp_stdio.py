"""Runs an MCP server as a process, in a sandbox if there is one, and exchanges JSON lines with it.

Invariants: when the connection ends, in whatever way, no process of the server is left. A message of more than 16 MB or 500
levels ends the connection, so that memory stays bounded; everything else that is no message is dropped.
"""

from __future__ import annotations

import subprocess
from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
import trio

from harnesses.agents.sandbox import Sandboxed
from harnesses.data.json_depth import is_too_deep
from harnesses.diagnostics.extras import load_extra
from harnesses.files.private_files import concealed_keys
from harnesses.processes.bounded_command import Lines
from harnesses.processes.process_tree import Rights, Streams, Tree, start_tree

MAX_MESSAGE_BYTES = 16 * 1024 * 1024
_MOST_LEVELS = 500
_GRACE_S = 2.0
"""Seconds for a server to end by itself when its standard input is closed."""
_MOST_LINES = 20
_MOST_WIDTH = 500


class ServerProcess:
    """A running server.

    Args:
        log: called with each line that it writes to standard error, cut to 500 characters.
    """

    def __init__(self, log: Callable[[str], object]) -> None:
        self._log = log
        self.errors: deque[str] = deque(maxlen=_MOST_LINES)
        """The last lines of its standard error."""
        self.code: int | None = None
        """Exit code, once it has ended."""

    @asynccontextmanager
    async def connect(self, ready: Sandboxed, directory: Path) -> AsyncGenerator[tuple[Any, Any], None]:
        """Start the server and yield the streams of messages from and to it, in the form of the `mcp` package."""
        anyio: Any = load_extra("anyio", "mcp", "an MCP server")
        adapter: Any = load_extra("mcp.types", "mcp", "an MCP server").jsonrpc_message_adapter
        message_of: Any = load_extra("mcp.shared.message", "mcp", "an MCP server").SessionMessage
        tree = await _start(ready, directory)
        received, incoming = anyio.create_memory_object_stream(0)
        outgoing, to_send = anyio.create_memory_object_stream(0)

        async def receive() -> None:
            async with received:
                async for line in _lines(tree.process.stdout):
                    try:
                        message = message_of(_parsed(line, adapter))
                    except (ValueError, msgspec.DecodeError):
                        continue
                    await received.send(message)

        async def send() -> None:
            async with to_send:
                async for message in to_send:
                    text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                    assert tree.process.stdin is not None
                    await tree.process.stdin.send_all(f"{text}\n".encode())

        async with trio.open_nursery() as nursery:
            for task in (receive, send):
                nursery.start_soon(_until_closed, task, received, anyio)
            nursery.start_soon(self._read_errors, tree.process.stderr)
            try:
                yield incoming, outgoing
            finally:
                with trio.CancelScope(shield=True):
                    await self._stop(tree)
                    for stream in (incoming, outgoing, received, to_send):
                        await stream.aclose()
                nursery.cancel_scope.cancel()

    async def _stop(self, tree: Tree) -> None:
        """Close the server's standard input, wait a moment, and end what is left of it."""
        process = tree.process
        if process.stdin is not None:
            await process.stdin.aclose()
        with trio.move_on_after(_GRACE_S):
            await tree.wait()
        tree.end()
        self.code = (await tree.ended()).code
        for pipe in (process.stdout, process.stderr):
            if pipe is not None:
                await pipe.aclose()

    async def _read_errors(self, pipe: trio.abc.ReceiveStream | None) -> None:
        lines = Lines(self._take, limit=_MOST_WIDTH)
        try:
            while pipe is not None and (chunk := await pipe.receive_some()):
                lines.add(chunk)
        except (trio.ClosedResourceError, trio.BrokenResourceError):
            pass
        lines.close()

    def _take(self, line: str) -> None:
        self.errors.append(line)
        self._log(line)


async def _start(ready: Sandboxed, directory: Path) -> Tree:
    rights, streams = ready.rights, Streams(stdin=subprocess.PIPE, stderr=subprocess.PIPE)
    is_held = rights["may_gain_privileges"] or rights["scoped_sockets"]
    return await start_tree(
        ready.command,
        cwd=directory,
        env=ready.environment,
        streams=streams,
        rights=Rights(
            gain_privileges=rights["may_gain_privileges"],
            hidden=() if is_held else concealed_keys(),
            scoped_sockets=rights["scoped_sockets"],
        ),
    )


async def _until_closed(task: Callable[[], Any], received: Any, anyio: Any) -> None:
    """Run a task until a stream is closed; then nothing more is received, so that whoever waits for an answer learns it."""
    with suppress(trio.ClosedResourceError, trio.BrokenResourceError, anyio.ClosedResourceError, anyio.BrokenResourceError):
        await task()
    await received.aclose()


def _parsed(line: bytes, adapter: Any) -> Any:
    """Return the message in a line.

    Raises:
        ValueError: there is none.
    """
    try:
        return adapter.validate_json(line, by_name=False)
    except ValueError:
        # The parser of pydantic takes fewer levels.
        return adapter.validate_python(msgspec.json.decode(line), by_name=False)


async def _lines(pipe: trio.abc.ReceiveStream | None) -> AsyncGenerator[bytes, None]:
    buffer = bytearray()
    while pipe is not None and (chunk := await pipe.receive_some()):
        *whole, rest = chunk.split(b"\n")
        for part in whole:
            line = bytes(buffer) + part
            buffer.clear()
            if is_too_deep(line.decode("latin-1"), _MOST_LEVELS):
                return
            yield line
        buffer += rest
        if len(buffer) > MAX_MESSAGE_BYTES:
            return
