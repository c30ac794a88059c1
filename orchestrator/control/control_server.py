"""An HTTP server for a few untrusted clients: h11 on Trio's listeners.

Invariant: whatever a client does, it uses one of a few connections for a few seconds. Each connection carries one request of
limited size; an error while handling it becomes a response.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Iterable, Mapping
from contextlib import aclosing
from http import HTTPStatus
from importlib.util import find_spec
from typing import TypeAlias
from urllib.parse import parse_qsl, unquote, urlsplit

import trio
from attrs import define, evolve, field, frozen

from harnesses.errors import near, one_of
from orchestrator.errors import UsageError
from orchestrator.recording.commit_queue import Condition
from orchestrator.text.json_text import json_line
from orchestrator.text.terminal_text import one_line, say

JSON = "application/json"
JSON_LINES = "application/x-ndjson"


@frozen
class Request:
    """An HTTP request."""

    method: str
    parts: tuple[str, ...]
    """Segments of the path, decoded."""
    options: Mapping[str, str] = field(factory=dict[str, str])
    """Query parameters."""
    body: bytes = b""
    headers: Mapping[str, str] = field(factory=dict[str, str])
    """By lower-case name."""


@frozen
class Response:
    """An HTTP response."""

    status: int
    body: bytes
    content_type: str = JSON
    headers: Mapping[str, str] = field(factory=dict[str, str])
    stream: Callable[[], AsyncGenerator[bytes]] | None = None
    """Yields what is sent instead of the body, for as long as the client listens."""


Answer: TypeAlias = Callable[[Request], Awaitable[Response]]


def request_of(method: str, target: str) -> Request:
    """Parse a request line.

    Raises:
        ValueError: the target is not a path.
    """
    split = urlsplit(target)
    parts = tuple(unquote(part, errors="strict") for part in split.path.strip("/").split("/"))
    return Request(method, parts, dict(parse_qsl(split.query, keep_blank_values=True, max_num_fields=10)))


def check_known(where: str, what: str, given: Iterable[str], known: Collection[str]) -> None:
    """Refuse names of options or fields that a path does not have.

    Raises:
        UsageError: there is one.
    """
    for name in given:
        if name not in known:
            allowed = one_of(known, "expected none")
            raise UsageError(f"{where}: unknown {what} {name!r:.100}: {allowed}{near(name, known) or '; remove it'}")


_FLAGS: Mapping[str, bool] = {"": False, "0": False, "false": False, "1": True, "true": True}


def flag(options: Mapping[str, str], name: str) -> bool:
    """Return whether an option is on; without it, it is not.

    Raises:
        UsageError: it is neither on nor off.
    """
    text = options.get(name, "")
    if text not in _FLAGS:
        raise UsageError(f"{name}: expected 1 or true, 0 or false, got {text!r:.100}; correct it")
    return _FLAGS[text]


def refusal(status: int, text: str, **headers: str) -> Response:
    """Return a response that reports an error."""
    return answered(status, {"error": one_line(text, 2000)}, **headers)


def answered(status: int, value: object, **headers: str) -> Response:
    """Return a response with a value as JSON."""
    return Response(status, f"{json_line(value)}\n".encode(), JSON, headers)


_CHUNK = 65_536


@frozen
class Limits:
    """Limits on what a client can use."""

    connections: int = 32
    """Limit on simultaneous connections; further ones wait."""
    read_s: float = 5.0
    answer_s: float = 30.0
    write_s: float = 10.0
    head_bytes: int = 16_384
    body_bytes: int = 16_384


LIMITS = Limits()
_BUSY_S = 0.1
"""Seconds to wait after `accept` failed because no file descriptors were left."""


@define
class _Heard:
    """The part of a request that was received."""

    method: bytes = b""


def is_there() -> bool:
    """Return whether h11 is installed."""
    return find_spec("h11") is not None


@define(eq=False, repr=False)
class Server:
    """Serves requests.

    Args:
        answer: returns the response to a request. An error becomes a failure response, and is printed once per class.
        welcome: decides whether a client is served at all.
        wait_of: returns the extra seconds that a response may take.
    """

    answer: Answer
    limits: Limits = LIMITS
    welcome: Callable[[trio.SocketStream], bool] = lambda stream: True
    wait_of: Callable[[Request], float] = lambda request: 0.0
    _said: set[str] = field(factory=set[str])
    _busy: int = 0
    _bell: Condition = field(factory=Condition)

    async def serve(self, listener: trio.SocketListener) -> None:
        """Serve until cancelled."""
        places = trio.Semaphore(self.limits.connections)
        async with trio.open_nursery() as nursery:
            while True:
                await places.acquire()
                try:
                    stream = await listener.accept()
                except trio.ClosedResourceError:
                    return
                except OSError:
                    places.release()
                    await trio.sleep(_BUSY_S)
                    continue
                nursery.start_soon(self._attend, stream, places)

    async def wait_answered(self) -> None:
        """Wait until every received request has a response; clients that have sent none are not waited for."""
        await self._bell.until(lambda: not self._busy)

    async def _attend(self, stream: trio.SocketStream, places: trio.Semaphore) -> None:
        try:
            async with stream:
                if self.welcome(stream):
                    await self._converse(stream)
        except (trio.BrokenResourceError, trio.ClosedResourceError, trio.TooSlowError):
            return
        except Exception as error:
            self._say_once(error, "a client could not be served")
        finally:
            places.release()

    def _say_once(self, error: Exception, what: str) -> None:
        """Print an error once per class, so that a client cannot fill a log by repeating requests."""
        if (kind := type(error).__name__) not in self._said:
            self._said.add(kind)
            say(f"control: {what}: {error!r:.300}; the run goes on, further errors of this class are not printed")

    async def _converse(self, stream: trio.SocketStream) -> None:
        """Receive one request and respond to it."""
        import h11

        limits, heard = self.limits, _Heard()
        connection = h11.Connection(h11.SERVER, max_incomplete_event_size=limits.head_bytes)
        asked: Request | Response | None = refusal(408, f"no whole request within {limits.read_s:g} s; ask again")
        try:
            with trio.move_on_after(limits.read_s):
                asked = await _hear(stream, connection, limits, heard)
        except h11.RemoteProtocolError as error:
            asked = refusal(error.error_status_hint, f"not valid: expected a request in HTTP/1.1: {error}")
        self._busy += 1
        try:
            response = await self.respond(asked) if isinstance(asked, Request) else asked
            if response is not None and connection.our_state in (h11.IDLE, h11.SEND_RESPONSE):
                await _send(stream, connection, response, limits.write_s, bare=heard.method == b"HEAD")
        finally:
            self._busy -= 1
            self._bell.ring()

    async def respond(self, request: Request) -> Response:
        """Return the response to a request, within the time that it may take; an error becomes a response."""
        limit_s = self.limits.answer_s + self.wait_of(request)
        try:
            with trio.move_on_after(limit_s):
                return await self.answer(request)
        except Exception as error:
            self._say_once(error, f"{request.method} /{'/'.join(request.parts)!r:.200} failed")
            return refusal(500, f"failed: {type(error).__name__}: {error}")
        return refusal(503, f"not ready within {limit_s:g} s; ask again")


async def _hear(stream: trio.SocketStream, connection: object, limits: Limits, heard: _Heard) -> Request | Response | None:
    """Return the request, a response to a malformed one, or None if the client is gone."""
    import h11

    assert isinstance(connection, h11.Connection)
    asked: Request | Response | None = None
    body: list[bytes] = []
    length = 0
    while True:
        event = connection.next_event()
        if event is h11.NEED_DATA:
            if connection.they_are_waiting_for_100_continue:
                await stream.send_all(connection.send(h11.InformationalResponse(status_code=100, headers=[])) or b"")
            connection.receive_data(await stream.receive_some(_CHUNK))
        elif isinstance(event, h11.Request):
            heard.method = event.method
            asked = _read(event)
        elif isinstance(event, h11.Data):
            body.append(bytes(event.data))
            length += len(event.data)
            if length > limits.body_bytes:
                return refusal(413, f"too long: expected a body of at most {limits.body_bytes} bytes; send less")
        elif isinstance(event, h11.EndOfMessage):
            return evolve(asked, body=b"".join(body)) if isinstance(asked, Request) else asked
        else:
            return None


def _read(event: object) -> Request | Response:
    import h11

    assert isinstance(event, h11.Request)
    try:
        asked = request_of(event.method.decode("ascii"), event.target.decode("ascii"))
    except ValueError:
        return refusal(400, f"{event.target!r:.200} is not a path: expected one such as /status; correct it")
    return evolve(asked, headers={name.decode("latin-1"): value.decode("latin-1") for name, value in event.headers})


async def _send(stream: trio.SocketStream, connection: object, response: Response, write_s: float, *, bare: bool) -> None:
    """Send a response.

    Args:
        write_s: seconds after which a client that does not read is given up.
        bare: whether to send only the head.
    """
    import h11

    assert isinstance(connection, h11.Connection)
    length = {"Content-Length": str(len(response.body))} if response.stream is None else {}
    headers = {
        "Content-Type": response.content_type,
        **length,
        "Connection": "close",
        "Cache-Control": "no-store",
        "X-Content-Type-Options": "nosniff",
        **response.headers,
    }
    head = h11.Response(
        status_code=response.status, headers=list(headers.items()), reason=HTTPStatus(response.status).phrase.encode()
    )
    with trio.move_on_after(write_s):
        await stream.send_all(connection.send(head) or b"")
        if not bare and response.stream is None:
            await stream.send_all(connection.send(h11.Data(data=response.body)) or b"")
    if response.stream is None or bare:
        connection.send(h11.EndOfMessage())
        return
    async with aclosing(response.stream()) as parts:
        async for part in parts:
            with trio.fail_after(write_s):
                await stream.send_all(connection.send(h11.Data(data=part)) or b"")
    with trio.move_on_after(write_s):
        await stream.send_all(connection.send(h11.EndOfMessage()) or b"")
