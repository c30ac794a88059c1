"""A proxy between a store and its server that loses an answer, or everything, when it is told to."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Literal


class Proxy:
    """Forwards connections from a port of its own to the server at `port`."""

    def __init__(self, port: int) -> None:
        self._to = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._trigger: tuple[bytes, Literal["request", "answer"]] | None = None
        self._requests, self._answers = threading.Event(), threading.Event()
        self.thaw()
        self._sockets: list[socket.socket] = []
        self._serve(self._accept)

    def lose(self, text: bytes, what: Literal["request", "answer"]) -> None:
        """Break the connection on which the next request with `text` comes: before the server gets it, or once it answers."""
        self._trigger = text, what

    @property
    def has_lost(self) -> bool:
        """Whether what was to be lost is lost."""
        return self._trigger is None

    def freeze(self, what: Literal["both", "requests", "answers"] = "both") -> None:
        """Forward nothing more, or nothing in one direction, and say nothing of it."""
        if what != "answers":
            self._requests.clear()
        if what != "requests":
            self._answers.clear()

    def thaw(self) -> None:
        """Forward everything again."""
        self._requests.set()
        self._answers.set()

    def end(self) -> None:
        """Close every connection, and accept none."""
        self.thaw()
        # Closing it alone would leave it open for the thread that waits in `accept`.
        _close(self._listener, *self._sockets)

    def _accept(self) -> None:
        while True:
            client, _ = self._listener.accept()
            server = socket.create_connection(("127.0.0.1", self._to))
            self._sockets += [client, server]
            answer_lost = threading.Event()
            self._serve(lambda client=client, server=server, lost=answer_lost: self._forward(client, server, lost))
            self._serve(lambda client=client, server=server, lost=answer_lost: self._answer(client, server, lost))

    def _forward(self, client: socket.socket, server: socket.socket, answer_lost: threading.Event) -> None:
        while sent := client.recv(1 << 16):
            self._requests.wait()
            if self._trigger is not None and self._trigger[0] in sent:
                (_, what), self._trigger = self._trigger, None
                if what == "request":
                    break
                answer_lost.set()
            server.sendall(sent)
        _close(client, server)

    def _answer(self, client: socket.socket, server: socket.socket, answer_lost: threading.Event) -> None:
        while said := server.recv(1 << 16):
            self._answers.wait()
            if answer_lost.is_set():
                break
            client.sendall(said)
        _close(client, server)

    @staticmethod
    def _serve(work: Callable[[], None]) -> None:
        def until_closed() -> None:
            with suppress(OSError):
                work()

        threading.Thread(target=until_closed, daemon=True).start()


def _close(*sockets: socket.socket) -> None:
    for one in sockets:
        with suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)
        one.close()
