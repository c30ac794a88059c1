"""Asks the server of the page in this process, as its browsers do."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import trio
from attrs import frozen

from orchestrator.control.control_server import Request, Response
from orchestrator.web.access import Access
from orchestrator.web.page_server import PageServer
from orchestrator.web.site import Site
from orchestrator.web.store_folder import StoreFolder

TOKEN = "a-token-of-this-server"


@frozen
class Asking:
    """A page server without a socket."""

    server: PageServer

    @property
    def site(self) -> Site:
        """The one store."""
        return self.server.stores.site("")

    async def get(self, path: str, **options: str) -> Any:
        """Return the value that is answered."""
        return json.loads((await self.response("GET", path, options)).body)

    async def response(self, method: str, path: str, options: dict[str, str] | None = None, body: Any = None) -> Response:
        """Return the response to a request for a path below /api."""
        text = b"" if body is None else json.dumps(body).encode()
        headers = {"host": "here", "authorization": f"Bearer {TOKEN}"}
        return await self.server.answer(Request(method, ("api", *path.split("/")), options or {}, text, headers))


@asynccontextmanager
async def asking(store: Path) -> AsyncGenerator[Asking]:
    """Give a page server over a store."""
    stores = await trio.to_thread.run_sync(StoreFolder, store)
    try:
        yield Asking(PageServer(stores, Access(frozenset({"here"}), TOKEN, "orchestrator")))
    finally:
        stores.close()
