"""The server of the page and its API, in a process of its own, beside the program that runs on the store or without one.

Invariant: it reads the store and writes only what an operator orders; whatever a browser does, the run goes on.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from importlib.resources import files

import trio
from attrs import define, evolve, field

from orchestrator.control.control_server import JSON, Limits, Request, Response, Server, refusal
from orchestrator.control.run_services import Address
from orchestrator.errors import OrchestratorError
from orchestrator.web.access import SAFE_HEADERS, Access
from orchestrator.web.api_document import openapi
from orchestrator.web.site_routes import PREFIX, find, respond_to
from orchestrator.web.store_folder import StoreFolder

LIMITS = Limits(connections=256, body_bytes=1_048_576)
_KINDS: Mapping[str, str] = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
    "txt": "text/plain; charset=utf-8",
}
_FILE = re.compile(r"[a-z_]+\.(html|css|js|svg|txt)")
_READERS = 4
"""Answers that are read at the same time."""


@define(eq=False)
class PageServer:
    """Answers the requests of browsers and programs.

    Args:
        stores: what is told.
        access: who may ask.
    """

    stores: StoreFolder
    access: Access
    _threads: trio.CapacityLimiter = field(factory=lambda: trio.CapacityLimiter(_READERS))

    async def serve(self, listeners: Sequence[trio.SocketListener]) -> None:
        """Serve until cancelled."""
        server = Server(self.answer, LIMITS)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._read_ahead)
            for listener in listeners:
                nursery.start_soon(server.serve, listener)

    async def _read_ahead(self) -> None:
        """Read what the first look at a page needs, while its browser begins."""
        with suppress(OrchestratorError):
            await trio.to_thread.run_sync(self.stores.read_ahead, abandon_on_cancel=True)

    async def answer(self, request: Request) -> Response:
        """Return the answer to a request."""
        response = self.access.refuse(request) or await self._answer(request)
        return evolve(response, headers={**SAFE_HEADERS, **response.headers})

    async def _answer(self, request: Request) -> Response:
        match request.parts:
            case ("api", "openapi.json"):
                return Response(200, openapi().encode(), JSON)
            case ("api", *parts):
                found = find(request.method, tuple(parts))
                if isinstance(found, Response):
                    return found
                return await self._in_thread(partial(respond_to, self.stores, request, *found))
            case (name,) if request.method in ("GET", "HEAD"):
                return _file(name or "index.html")
            case _:
                return refusal(404, f"/{'/'.join(request.parts)} does not exist: expected / or a path below /{PREFIX}")

    async def _in_thread(self, function: Callable[[], Response]) -> Response:
        return await trio.to_thread.run_sync(function, limiter=self._threads, abandon_on_cancel=True)


def _file(name: str) -> Response:
    """Return a file of the page."""
    match = _FILE.fullmatch(name)
    file = files("orchestrator.web") / "page" / name
    if match is None or not file.is_file():
        return refusal(404, f"/{name:.100} does not exist: expected / or a path below /{PREFIX}")
    return Response(200, file.read_bytes(), _KINDS[match[1]])


def access_of(bound: Address, token: str) -> Access:
    """Return who may ask a server that listens at an address."""
    names = ("127.0.0.1", "localhost") if bound.is_local else ()
    hosts = {str(bound), *(f"{name}:{bound.port}" for name in names)}
    return Access(frozenset(hosts), token, f"orchestrator-{bound.port}")
