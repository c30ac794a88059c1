"""For tests: a venue in a process of its own, and its control endpoints."""

from __future__ import annotations

import http.client
import json
import socket
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import urlencode

import trio
from attrs import asdict

from tests import ROOT
from tests.zygote import Program

from .hostility import Hostility

KEY, SECRET = "key", "secret"
_LONGEST_S = 60.0


def urls_of(url: str) -> dict[str, dict[str, Any]]:
    """Return what to set in ccxt's `urls` for the venue at an address, in Binance's dialect."""
    socket = {"ws": {"spot": f"{url.replace('http', 'ws')}/stream/ws"}}
    return {"api": {"public": f"{url}/api/v3", "private": f"{url}/api/v3"} | socket}


class RunningVenue:
    """A venue that runs until it is closed.

    Args:
        options: as on the command line.
    """

    def __init__(self, books: Path, *options: str) -> None:
        # Bound here too, so that nobody else gets the port while the venue is down.
        self._reserved = socket.socket()
        self._reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        self._reserved.bind(("127.0.0.1", 0))
        self._port: int = self._reserved.getsockname()[1]
        self._arguments = ["-m", "tests.venue", "--books", str(books), "--port", str(self._port), *options]
        self._start()

    def _start(self) -> None:
        self.process = Program(self._arguments, cwd=ROOT, stdout=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL)
        assert self.process.stdout is not None
        self.url = self.process.stdout.readline().strip()
        assert self.url.startswith("http://127.0.0.1:"), "the venue did not start"

    def __enter__(self) -> RunningVenue:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.kill()
        self._reserved.close()

    def kill(self) -> None:
        """Kill it with `kill -9`."""
        self.process.kill()
        self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()

    def revive(self) -> None:
        """Kill it, and start it again on the same books and port."""
        self.kill()
        self._start()

    @property
    def urls(self) -> dict[str, dict[str, Any]]:
        """What to set in ccxt's `urls`."""
        return urls_of(self.url)

    def control(self, verb: str, body: object = None, **options: object) -> Any:
        """Use a control endpoint; wait for it, if the venue is restarting."""
        deadline_s = time.monotonic() + _LONGEST_S
        while True:
            try:
                return self._control(f"/control/{verb}?{urlencode(options)}", json.dumps(body).encode())
            except ConnectionError:
                if time.monotonic() > deadline_s:
                    raise
                time.sleep(0.02)

    def _control(self, path: str, body: bytes) -> Any:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=60)
        try:
            connection.request("POST", path, body)
            response = connection.getresponse()
            text = response.read()
            assert response.status == 200, text
            return json.loads(text)
        finally:
            connection.close()

    def fates(self, *fates: str) -> None:
        """Decide what becomes of the next order requests: names of `Fate`, with seconds after a colon for late ones."""
        self.control("next", fates=",".join(fates))

    def query_fates(self, *fates: str) -> None:
        """Decide what becomes of the next requests that are no orders."""
        self.control("next_queries", fates=",".join(fates))

    def hostile(self, hostility: Hostility) -> None:
        """Change how often what goes wrong."""
        self.control("hostility", asdict(hostility))

    def books(self) -> dict[str, Any]:
        """Return what the venue has."""
        summary: dict[str, Any] = self.control("books")
        return summary


async def closed(venue: RunningVenue) -> None:
    """Wait until no order is open at the venue."""
    with trio.fail_after(10):
        while venue.control("progress")["open"]:  # noqa: ASYNC110  (it is another process that is waited for)
            await trio.sleep(0.01)
