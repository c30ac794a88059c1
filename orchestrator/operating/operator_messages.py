"""Messages of an operator to a harness, in its durable mailbox.

A running program notices them within a moment; a dead one has them when it is started again. What types of messages a harness
accepts is known to the program that runs it alone: it is asked before anything is written.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote

from attrs import frozen

from harnesses.timing.clock import now_us
from orchestrator.codec import encode
from orchestrator.control.control_client import Reply, ask_soon, question
from orchestrator.errors import OrchestratorError, UsageError
from orchestrator.lifecycle import Status
from orchestrator.operating.store_writing import commit, user_name
from orchestrator.store.file.server_copy import server_of
from orchestrator.store.sqlite.sqlite_reader import SqliteReader
from orchestrator.store.store_protocol import Post

OPERATOR = "@operator"
"""Who sends them; no harness can be called so."""
_CHECK_S = 2.0
"""How long the program that runs a harness has to say whether it accepts a message: one that hangs gets it unchecked."""


@frozen
class Sent:
    """A message in a mailbox."""

    seq: int
    name: str
    message: Any
    is_running: bool
    is_checked: bool
    """Whether the harness has said that it accepts it."""

    @property
    def fields(self) -> dict[str, Any]:
        return {
            "seq": self.seq,
            "harness": self.name,
            "message": self.message,
            "running": self.is_running,
            "checked": self.is_checked,
        }


def post(store: str, name: str, message: Any) -> Sent:
    """Put a message in the mailbox of a harness; return when it is on disk.

    Raises:
        UnknownHarness: there is no such harness.
        UsageError: it is completed, so that nobody will ever read it; or it runs, and does not accept such a message.
    """
    with closing(SqliteReader(store)) as reader:
        record = next((record for record in reader.harnesses() if record.name == name), None)
    if record is not None and record.status is Status.COMPLETED:
        raise UsageError(f"harness {name!r} is completed: expected one that goes on, for nobody would read it; check the name")
    body = encode(message)
    is_running = record is not None and record.owned
    is_checked = is_running and _is_accepted(store, name, body)
    seq: int = commit(store, Post(name, OPERATOR, now_us(), body))
    return Sent(seq, name, message, is_running, is_checked)


def _is_accepted(store: str, name: str, body: str) -> bool:
    """Return whether a program that runs a harness says that it accepts a message; false if none has an answer.

    Raises:
        UsageError: it says that it does not.
    """
    if server_of(store) is not None:
        try:
            reply = question(Path(store), name, "check", body, by=user_name())
        except OrchestratorError:
            return False  # it says nothing
        return _says_yes([] if reply is None else [reply])
    target = f"/harnesses/{quote(name, safe='')}/check"
    replies, _ = ask_soon(Path(store).resolve(), target, _CHECK_S, method="POST", body=body.encode())
    return _says_yes(replies)


def _says_yes(replies: Sequence[Reply]) -> bool:
    for reply in replies:
        if reply.status == 400:
            raise UsageError(str(reply.fields.get("error") or reply.text))
    return any(reply.status == 200 for reply in replies)
