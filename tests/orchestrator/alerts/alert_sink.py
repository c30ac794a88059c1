"""A web service that notes what it is sent, for the tests of alerts."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from attrs import define, field


@define
class Sink:
    """What was sent, and how it answers."""

    port: int = 0
    messages: list[str] = field(factory=list[str])
    pings: int = 0
    refuses: int = 0
    """How many messages it refuses before it takes one."""

    @property
    def address(self) -> str:
        return f"json://127.0.0.1:{self.port}/alerts"

    @property
    def text(self) -> str:
        return "\n".join(self.messages)


@contextmanager
def open_sink(refuses: int = 0) -> Iterator[Sink]:
    """Serve on a free port of this machine."""
    sink = Sink(refuses=refuses)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            sink.pings += 1
            self._answer(200)

        def do_POST(self) -> None:
            sent: dict[str, Any] = json.loads(self.rfile.read(int(self.headers["content-length"])))
            if sink.refuses:
                sink.refuses -= 1
                return self._answer(503)
            sink.messages.append(f"{sent['title']}\n{sent['message']}")
            return self._answer(200)

        def _answer(self, status: int) -> None:
            self.send_response(status)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    sink.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield sink
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
