"""Asks a program of this process over its socket, byte by byte where it matters."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import trio
from attrs import frozen

from orchestrator import Orchestrator
from orchestrator.control.socket_places import address_of


@frozen
class Said:
    """What was answered."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def fields(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)


@asynccontextmanager
async def connected(path: Path) -> AsyncGenerator[trio.SocketStream]:
    """Give a connection to a socket."""
    connecting = trio.socket.socket(trio.socket.AF_UNIX)
    with address_of(path) as address:
        await connecting.connect(address)
    async with trio.SocketStream(connecting) as stream:
        yield stream


async def read_all(stream: trio.SocketStream) -> bytes:
    """Return all that comes until the other side closes."""
    return b"".join([chunk async for chunk in stream])


def said(raw: bytes) -> Said:
    """Return an answer, taken apart."""
    head, _, body = raw.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    headers = dict(line.lower().split(": ", 1) for line in lines)
    return Said(int(first.split()[1]), headers, body)


async def ask(path: Path | None, method: str, target: str, body: bytes = b"") -> Said:
    """Return what is answered to a request."""
    assert path is not None
    async with connected(path) as stream:
        length = f"Content-Length: {len(body)}\r\n" if body else ""
        await stream.send_all(f"{method} {target} HTTP/1.1\r\nHost: x\r\n{length}\r\n".encode() + body)
        return said(await read_all(stream))


@asynccontextmanager
async def controlled(store: Path, **options: Any) -> AsyncGenerator[Orchestrator]:
    """Give an orchestrator with a control socket; what it runs is stopped at the end."""
    async with Orchestrator(store, control=True, handle_signals=False, **options) as orchestrator:
        yield orchestrator
        orchestrator.stop()
