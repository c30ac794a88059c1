"""Client of the control API: requests to running programs.

They go over the sockets beside the store, with the standard library only. An order or a question to a harness of a store on a
server goes through that store instead: it reaches the program that has the harness on whatever machine.

A request's body is sent once the program has taken its head (`100 Continue`), so a program that is suspended or hangs is known
by that within seconds, and a request that it has not taken is never carried out.
"""

from __future__ import annotations

import errno
import http.client
import json
import os
import select
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, cast
from urllib.parse import quote

from attrs import frozen

from orchestrator.control.socket_places import address_of, run_of, sockets, user_of
from orchestrator.errors import UsageError
from orchestrator.store.file.run_lock import is_suspended, pid_of
from orchestrator.store.file.server_copy import server_of
from orchestrator.store.run_orders import GivenOrder, OrderNotTaken

LIMITS = "limits"
"""The order that sets time limits of a harness, which are in the body."""
TAKE_S = 5.0
"""Seconds that a program gets to take a request."""
_LIMIT_S = 45.0
"""Seconds; longer than the server waits for anything."""
_NO_BODY = b"{}"
"""Sent where no body is needed."""


@frozen
class Reply:
    """The response of a program."""

    status: int
    text: str
    run: str = ""
    """Name of the program's run."""

    @property
    def fields(self) -> dict[str, Any]:
        """The JSON object in the response; empty if there is none."""
        try:
            value: object = json.loads(self.text)
        except ValueError:
            return {}
        return cast(dict[str, Any], value) if isinstance(value, dict) else {}


class _NotTaken(TimeoutError):
    """A program has not taken a request in time, so that it will not carry it out."""


class _Connection(http.client.HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path: Path, owner: int, wait_s: float) -> None:
        super().__init__("localhost", timeout=TAKE_S)
        self._answer_s = _LIMIT_S + wait_s
        self._path = path
        self._owner = owner

    def connect(self) -> None:
        connected = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connected.settimeout(self.timeout)
            try:
                with address_of(self._path) as address:
                    connected.connect(address)
            except (TimeoutError, BlockingIOError) as error:  # others wait to connect already
                raise _NotTaken from error
            if user_of(connected) not in (None, *_trusted(self._owner)):
                raise _foreign()
        except BaseException:
            connected.close()
            raise
        self.sock = connected

    def ask(self, method: str, target: str, body: bytes) -> http.client.HTTPResponse:
        """Send a request, its body once the program has taken its head, and return the response.

        Raises:
            _NotTaken: it has not taken it in time.
            ConnectionRefusedError: it ended before it took the request.
            ConnectionResetError: it ended after that, without an answer.
            TimeoutError: it has, and does not answer in time.
        """
        self.putrequest(method, target)
        self.putheader("Content-Length", str(len(body)))
        self.putheader("Expect", "100-continue")
        try:
            self.endheaders()
            poll = select.poll()
            poll.register(self.sock, select.POLLIN)
            if not poll.poll(TAKE_S * 1000):
                raise _NotTaken
            has_ended = not self.sock.recv(1, socket.MSG_PEEK)
        except (BrokenPipeError, ConnectionResetError):
            has_ended = True
        if has_ended:
            raise ConnectionRefusedError(errno.ECONNREFUSED, "it ended before it took the request")
        self.sock.settimeout(self._answer_s)
        with suppress(BrokenPipeError):  # it has answered without the body
            self.send(body)
        return self.getresponse()


def _owner_of(store: Path) -> int:
    """Return the user who owns the store; responses of other users' processes are not trusted."""
    try:
        return store.stat().st_uid
    except OSError:
        return os.geteuid()


def _trusted(owner: int) -> tuple[int, int, int]:
    return 0, os.geteuid(), owner


def _foreign() -> PermissionError:
    return PermissionError(errno.EPERM, "another user is listening there")


def ask_all(store: Path, method: str, target: str, body: bytes = b"", *, wait_s: float = 0.0) -> Iterator[Reply]:
    """Yield the response of each program that runs on a store, as they arrive; nothing if none is running.

    All are asked at once, so one that hangs, or belongs to another user, does not delay the others.

    Args:
        wait_s: seconds that a response may take in addition to the usual limit.

    Raises:
        UsageError: programs are running, and none responded.
        OrderNotTaken: the same, and one of them has not taken the request in time.
    """
    failed: dict[Path, Exception] = {}
    answered = False
    for path, said in _ask_each(store, method, target, body, wait_s):
        if isinstance(said, Reply):
            answered = True
            yield said
        else:
            failed[path] = said
    if failed and not answered:
        raise _why_silent(store, failed)


def _ask_each(store: Path, method: str, target: str, body: bytes, wait_s: float) -> Iterator[tuple[Path, Reply | Exception]]:
    """Ask the programs on a store at once; yield the socket and the response or error of each, as they arrive."""
    owner, paths = _owner_of(store), sockets(store)
    told: SimpleQueue[tuple[Path, Reply | Exception]] = SimpleQueue()

    def ask(path: Path) -> None:
        try:
            told.put((path, _ask(path, owner, method, target, body, wait_s)))
        except Exception as error:
            told.put((path, error))

    for path in paths:
        # Daemon threads: neither a caller that has its response nor the end of the process waits for one that hangs.
        threading.Thread(target=ask, args=(path,), daemon=True).start()
    for _ in paths:
        path, said = told.get()
        if not isinstance(said, (ConnectionRefusedError, FileNotFoundError)):
            yield path, said


def _why_silent(store: Path, failed: Mapping[Path, Exception]) -> UsageError | OrderNotTaken:
    """Return the error for programs of which none has answered: those that hang, or else one that failed otherwise."""
    if hung := [path for path, error in failed.items() if isinstance(error, TimeoutError)]:
        return OrderNotTaken("; ".join(_why_hung(store, path, failed[path]) for path in hung))
    path, error = next(iter(failed.items()))
    if isinstance(error, ConnectionResetError):
        return OrderNotTaken(
            f"the program at {path} has ended without an answer: perhaps it has done what was asked; look before you ask again"
        )
    return UsageError(f"the program at {path} does not answer: {error or type(error).__name__}; ask as the user who runs it")


def _why_hung(store: Path, path: Path, error: Exception) -> str:
    pid = pid_of(store, run_of(path))
    who = f"process {pid}" if pid else f"the program at {path}"
    if isinstance(error, _NotTaken):
        said = f"{who} has not taken the request, which is withdrawn: expected it within {TAKE_S:g} s"
    else:
        said = f"{who} has taken the request, and perhaps carries it out: expected an answer within {_LIMIT_S:g} s"
    if pid is None:
        return f"{said}; see whether it hangs"
    if is_suspended(pid):
        return f"{said}, but it is suspended; `kill -CONT {pid}`, or end it: `kill {pid}`"
    return f"{said}; see whether it hangs or a harness computes without a pause, or end it: `kill {pid}`"


def ask_soon(store: Path, target: str, seconds: float, *, method: str = "GET", body: bytes = b"") -> tuple[list[Reply], bool]:
    """Return the responses of the programs on a store within `seconds`, and whether one has not responded by then.

    A program that refuses, belongs to another user, or is gone counts as having no response to give.
    """
    heard: SimpleQueue[Reply | None] = SimpleQueue()

    def ask() -> None:
        with suppress(Exception):
            for reply in ask_all(store, method, target, body):
                heard.put(reply)
        heard.put(None)

    threading.Thread(target=ask, daemon=True).start()
    replies: list[Reply] = []
    until = time.monotonic() + seconds
    try:
        while (reply := heard.get(timeout=max(until - time.monotonic(), 0.001))) is not None:
            replies.append(reply)
    except Empty:
        return replies, True
    return replies, False


def order(store: Path, name: str, verb: str, options: str = "", body: bytes = b"", *, by: str = "") -> Reply | None:
    """Give an order to the program that runs a harness; None if no program is running on the store.

    Args:
        by: who gives it.

    Raises:
        UsageError: programs are running, and none responded.
        OrderNotTaken: no program that answers has the harness, and one has not taken the order in time, so that it is
            withdrawn, or does not answer.
        StoreError: the store is on a server that does not answer.
    """
    return _put(store, name, f"{verb}{options}", body, 0.0, by)


def question(store: Path, name: str, asked: str, body: str, wait_s: float = 0.0, *, by: str = "") -> Reply | None:
    """Put a question to the program that runs a harness; None if no program is running on the store.

    Args:
        asked: `ask`, `query` or `check`, with its options.
        body: JSON.
        wait_s: seconds that the response may take in addition to the usual limit.
        by: who asks.

    Raises:
        As `order` does.
    """
    return _put(store, name, asked, body.encode(), wait_s, by)


def _put(store: Path, name: str, asked: str, body: bytes, wait_s: float, by: str) -> Reply | None:
    if (server := server_of(store)) is not None:
        from orchestrator.store.places.store_location import order_at

        verb, mark, options = asked.partition("?")
        answer = order_at(server, GivenOrder(name, verb, mark + options, body.decode(), by), answer_s=_LIMIT_S + wait_s)
        return None if answer is None else Reply(answer.status, answer.text, answer.run)
    reply: Reply | None = None
    failed: dict[Path, Exception] = {}
    for path, said in _ask_each(store, "POST", f"/harnesses/{quote(name, safe='')}/{asked}", body, wait_s):
        if not isinstance(said, Reply):
            failed[path] = said
        elif said.status != 404:
            return said
        else:
            reply = said
    if failed and (reply is None or any(isinstance(error, TimeoutError) for error in failed.values())):
        raise _why_silent(store, failed)
    return reply


def _ask(path: Path, owner: int, method: str, target: str, body: bytes, wait_s: float) -> Reply:
    if path.lstat().st_uid not in _trusted(owner):
        raise _foreign()
    with closing(_Connection(path, owner, wait_s)) as connection:
        response = connection.ask(method, target, body or _NO_BODY)
        return Reply(response.status, response.read().decode("utf-8", errors="replace"), run_of(path))
