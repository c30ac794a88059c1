"""Asking a running program from another process: over the sockets beside its store, with what Python brings along."""

from __future__ import annotations

import errno
import http.client
import json
import os
import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote

from attrs import frozen

from orchestrator.control.places import address_of, sockets, user_of
from orchestrator.errors import UsageError

_LIMIT_S = 45.0
"""Longer than the other side waits for anything."""


@frozen
class Reply:
    """What a program has answered."""

    status: int
    text: str

    @property
    def fields(self) -> dict[str, Any]:
        """The JSON object in it; empty if it is none."""
        try:
            value: object = json.loads(self.text)
        except ValueError:
            return {}
        return cast(dict[str, Any], value) if isinstance(value, dict) else {}


class _Connection(http.client.HTTPConnection):
    """HTTP over a socket in the file system."""

    def __init__(self, path: Path, owner: int) -> None:
        super().__init__("localhost", timeout=_LIMIT_S)
        self._path = path
        self._owner = owner

    def connect(self) -> None:
        connected = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connected.settimeout(self.timeout)
            with address_of(self._path) as address:
                connected.connect(address)
            if user_of(connected) not in (None, 0, os.geteuid(), self._owner):
                raise PermissionError(errno.EPERM, "another user listens there")
        except BaseException:
            connected.close()
            raise
        self.sock = connected


def _owner_of(store: Path) -> int:
    """Return the user whose store it is: nobody else has anything to say about it."""
    try:
        return store.stat().st_uid
    except OSError:
        return os.geteuid()


def ask_all(store: Path, method: str, target: str) -> Iterator[Reply]:
    """Yield what each program that runs on a store answers; nothing if none does.

    Raises:
        UsageError: a program is there, and can not be asked.
    """
    for path in sockets(store):
        try:
            yield _ask(path, _owner_of(store), method, target)
        except (ConnectionRefusedError, FileNotFoundError):
            continue
        except (OSError, http.client.HTTPException) as error:
            raise UsageError(
                f"the program at {path} does not answer: {error or type(error).__name__}; ask as the user who runs it"
            ) from error


def order(store: Path, name: str, verb: str, options: str = "") -> Reply | None:
    """Give an order to whichever program runs a harness; None if no program runs on the store.

    Raises:
        UsageError: a program is there, and can not be asked.
    """
    reply: Reply | None = None
    for reply in ask_all(store, "POST", f"/harnesses/{quote(name, safe='')}/{verb}{options}"):
        if reply.status != 404:
            break
    return reply


def _ask(path: Path, owner: int, method: str, target: str) -> Reply:
    with closing(_Connection(path, owner)) as connection:
        connection.request(method, target)
        response = connection.getresponse()
        return Reply(response.status, response.read().decode("utf-8", errors="replace"))
