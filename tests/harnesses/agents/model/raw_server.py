"""A server of bytes: answers each connection with what it is told, cut and timed as it is told."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial

import trio
from attrs import define, field

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"


@define
class RawServer:
    """A server with a script of chunks to send and seconds to wait, the same for each request."""

    script: Sequence[bytes | float]
    url: str = ""
    requests: list[bytes] = field(factory=list)
    """What clients have sent."""
    connections: int = 0
    closed: trio.Event = field(factory=trio.Event)
    """Set when a client has closed its connection."""

    async def serve(self, stream: trio.SocketStream) -> None:
        self.connections += 1
        with suppress(trio.BrokenResourceError):
            async with trio.open_nursery() as nursery:
                requests, received = trio.open_memory_channel[None](10)
                nursery.start_soon(self._receive, stream, requests, nursery.cancel_scope)
                async for _ in received:
                    for part in self.script:
                        if isinstance(part, bytes):
                            await stream.send_all(part)
                        else:
                            await trio.sleep(part)
                    if not any(isinstance(part, bytes) and b"Content-Length:" in part for part in self.script):
                        break
                await stream.send_eof()
                nursery.cancel_scope.cancel()
        await trio.aclose_forcefully(stream)

    async def _receive(
        self, stream: trio.SocketStream, requests: trio.MemorySendChannel[None], scope: trio.CancelScope
    ) -> None:
        sent = b""
        with suppress(trio.BrokenResourceError):
            async for chunk in stream:
                sent += chunk
                head, end, body = sent.partition(b"\r\n\r\n")
                if end and len(body) >= _length(head):
                    self.requests.append(sent)
                    sent = b""
                    await requests.send(None)
        self.closed.set()
        scope.cancel()


def _length(head: bytes) -> int:
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            return int(line.partition(b":")[2])
    return 0


@asynccontextmanager
async def raw_server(*script: bytes | float) -> AsyncGenerator[RawServer, None]:
    """Run a server; without a head of its own, the script is the body of an event stream."""
    given = script if script and isinstance(script[0], bytes) and script[0].startswith(b"HTTP/") else (HEAD, *script)
    server = RawServer(given)
    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(partial(trio.serve_tcp, server.serve, 0, host="127.0.0.1"))
        server.url = f"http://127.0.0.1:{listeners[0].socket.getsockname()[1]}"
        yield server
        nursery.cancel_scope.cancel()


def events(*datas: str) -> bytes:
    """Return server-sent events."""
    return "".join(f"data: {data}\n\n" for data in datas).encode()
