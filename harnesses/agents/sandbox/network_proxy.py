"""An HTTP proxy on a Unix socket, for the hosts that a sandboxed command may reach.

    command ──HTTP(S)_PROXY──► forwarder ──Unix socket──► proxy ──► host
              within the sandbox                          decides by name and port, resolves, judges the address, connects

CONNECT is a tunnel. A request for `http://…` is sent on with its path alone; the client is told to close its connection behind
the answer, whatever the host says, so that it carries no request to another host.

Invariant: the address that was judged is the one that is connected to.

Limits: `MOST_CONNECTIONS` at once, further ones are closed; a request head has at most `_MOST_HEAD_BYTES` and `_HEAD_S`
seconds.
Source: RFC 9110, 9.3.6 (CONNECT); RFC 9112, 3.2.2 (absolute-form).
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Callable, Sequence
from urllib.parse import urlsplit

import trio
from attrs import frozen

from harnesses.agents.sandbox.host_rules import HostRule, why_address_refused, why_host_refused

MOST_CONNECTIONS = 256
_MOST_HEAD_BYTES = 65_536
_HEAD_S = 30.0
_CONNECT_S = 20.0
_CHUNK = 65_536
_BACKLOG = 64
_REQUEST = re.compile(rb"(?P<method>[A-Z]{1,20}) (?P<target>[\x21-\x7e]{1,8192}) HTTP/1\.[01]\r\n")
_AUTHORITY = re.compile(r"(?P<host>\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]{1,255}):(?P<port>\d{1,5})\Z")
_INTERIM = re.compile(rb"HTTP/1\.[01] 1\d\d")
_HOP = re.compile(rb"(?im)^(?:connection|proxy-[a-z-]+|keep-alive|upgrade):[^\n]*\n")


@frozen
class _Asked:
    """The head of a request."""

    host: str
    port: int
    forward: bytes
    """What the host is sent before all else: nothing for CONNECT."""


async def serve_proxy(
    path: str,
    rules: Sequence[HostRule],
    *,
    log: Callable[[str], object] | None = None,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve until cancelled.

    Args:
        path: of the Unix socket, which is made, and which this user alone can connect to.
        log: called with a line for each refused host, not more than once for the same one.
    """
    told: set[str] = set()

    def refuse(host: str, port: int, why: str) -> None:
        line = f"[sandbox: {host}:{port} refused: {why}]"
        if log is not None and line not in told and len(told) < MOST_CONNECTIONS:
            told.add(line)
            log(line)

    open_now = 0

    async def answer(client: trio.SocketStream) -> None:
        nonlocal open_now
        async with client:
            if open_now >= MOST_CONNECTIONS:
                return
            open_now += 1
            try:
                await _answer(client, rules, refuse)
            except* (trio.BrokenResourceError, trio.ClosedResourceError, OSError):
                pass  # One side is gone: with it, this connection.
            finally:
                open_now -= 1

    with trio.socket.socket(socket.AF_UNIX) as listening:
        await listening.bind(path)
        os.chmod(path, 0o600)
        listening.listen(_BACKLOG)
        await trio.serve_listeners(answer, [trio.SocketListener(listening)], task_status=task_status)  # type: ignore[arg-type]


async def _answer(client: trio.SocketStream, rules: Sequence[HostRule], refuse: Callable[[str, int, str], None]) -> None:
    head = rest = b""
    with trio.move_on_after(_HEAD_S):
        head, rest = await _read_head(client)
    asked = read_request(head)
    if asked is None:
        await _say(client, "400 Bad Request", "expected CONNECT host:port, or a request for http://host/path")
        return
    why = why_host_refused(rules, asked.host, asked.port)
    host = None
    if not why:
        host, why = await _connect(asked, rules)
    if host is None:
        refuse(asked.host, asked.port, why)
        await _say(client, "403 Forbidden", f"{asked.host}:{asked.port} refused by the sandbox: {why}")
        return
    async with host:
        if asked.forward:
            await host.send_all(asked.forward + rest)
        else:
            await client.send_all(b"HTTP/1.1 200 Connection established\r\n\r\n")
            await host.send_all(rest)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_copy, client, host)
            if asked.forward:
                await _send_head(host, client)
            await _copy(host, client)
            nursery.cancel_scope.cancel()


async def _read_head(stream: trio.SocketStream, read: bytes = b"") -> tuple[bytes, bytes]:
    """Return the head of a message, empty if there is none, and what has been read behind it.

    Args:
        read: what has been read already.
    """
    while len(read) <= _MOST_HEAD_BYTES:
        head, end, rest = read.partition(b"\r\n\r\n")
        if end:
            return head + b"\r\n", rest
        chunk = await stream.receive_some(_CHUNK)
        if not chunk:
            break
        read += chunk
    return b"", b""


async def _send_head(host: trio.SocketStream, client: trio.SocketStream) -> None:
    """Send the head of an answer on, and tell the client that no other request follows on its connection."""
    head, rest = await _read_head(host)
    while _INTERIM.match(head):
        await client.send_all(head + b"\r\n")
        head, rest = await _read_head(host, rest)
    line, _, fields = head.partition(b"\r\n")
    if not line.startswith(b"HTTP/1."):
        await _say(client, "502 Bad Gateway", "the host did not answer in HTTP/1.1")
        return
    await client.send_all(b"%b\r\n%bConnection: close\r\n\r\n%b" % (line, _HOP.sub(b"", fields), rest))


def read_request(head: bytes) -> _Asked | None:
    """Return what the head of a request asks for; None if it is not one for a proxy."""
    line = _REQUEST.match(head)
    if line is None:
        return None
    target = line["target"].decode("ascii")
    if line["method"] == b"CONNECT":
        found = _AUTHORITY.match(target)
        return None if found is None else _Asked(found["host"].strip("[]"), int(found["port"]), b"")
    try:
        url = urlsplit(target)
        host, port = url.hostname, url.port or 80
    except ValueError:
        return None
    if url.scheme != "http" or not host or url.username is not None:
        return None
    path = (url.path or "/") + (f"?{url.query}" if url.query else "")
    fields = _HOP.sub(b"", head[line.end() :])
    return _Asked(host, port, b"%b %b HTTP/1.1\r\n%bConnection: close\r\n\r\n" % (line["method"], path.encode(), fields))


async def _connect(asked: _Asked, rules: Sequence[HostRule]) -> tuple[trio.SocketStream | None, str]:
    """Return a connection to the host; None if there is none, with why."""
    why = "cannot be reached"
    with trio.move_on_after(_CONNECT_S):
        try:
            found = await trio.socket.getaddrinfo(asked.host, asked.port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            return None, f"cannot be resolved: {error}"
        for family, kind, protocol, _, address in found:
            if refused := why_address_refused(rules, str(address[0]), asked.port):
                return None, refused
            made = trio.socket.socket(family, kind, protocol)
            try:
                await made.connect(address)
            except OSError as error:
                made.close()
                why = f"cannot be reached: {error}"
                continue
            except BaseException:
                made.close()
                raise
            return trio.SocketStream(made), ""
    return None, why


async def _say(client: trio.SocketStream, status: str, why: str) -> None:
    body = f"{why}\n".encode()
    head = f"HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    await client.send_all(head.encode() + body)


async def _copy(source: trio.SocketStream, target: trio.SocketStream) -> None:
    try:
        async for chunk in source:
            await target.send_all(chunk)
        await target.send_eof()
    except trio.BrokenResourceError:
        return
