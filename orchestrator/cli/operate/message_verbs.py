"""The verbs `send` and `trading`: messages of an operator to a harness, in its durable mailbox.

A running program notices them within a moment; a dead one has them when it is started again. What types of messages a harness
accepts is known to the program that runs it alone: it is asked before anything is written.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal, get_args
from urllib.parse import quote

import msgspec
from attrs import frozen
from cyclopts import Parameter

from harnesses.data.record_size import MAX_RECORD_BYTES
from harnesses.timing.clock import now_us
from orchestrator.cli import std_streams as streams
from orchestrator.cli.exit_codes import ExitCode
from orchestrator.cli.verb_options import USUAL, Common, Name, Words, WordsOrDash, print_all
from orchestrator.codec import encode
from orchestrator.control.control_client import ask_soon
from orchestrator.errors import UsageError
from orchestrator.lifecycle import Status
from orchestrator.operating.store_writing import commit
from orchestrator.store.sqlite.sqlite_reader import SqliteReader
from orchestrator.store.store_protocol import Post
from orchestrator.text.command_hints import ways_to_start
from orchestrator.text.value_lines import json_line

OPERATOR = "@operator"
"""Who sends them; no harness can be called so."""

Order = Literal["stop", "stop-entries", "resume-entries", "flatten", "reset", "adopt"]
TRADING: Mapping[str, str] = MappingProxyType({order: order.replace("-", " ") for order in get_args(Order)})
"""What an operator may tell a trading harness: the word on the command line, and the one in the message."""

_BEGINS_JSON = ("{", "[", '"')
_CHECK_S = 2.0
"""How long the program that runs a harness has to say whether it accepts a message: one that hangs gets it unchecked."""


_UNCHECKED = ", unchecked (one of a type that it does not accept is set aside, and its output says so)"


def send(
    name: Name,
    message: Annotated[WordsOrDash, Parameter(metavar="MESSAGE")],
    /,
    *,
    text: bool = False,
    common: Common = USUAL,
) -> int:
    """Put a message into the mailbox of a harness.

    MESSAGE is JSON, or else plain text, which is sent as a string: 12 is a number, '"12"' and --text 12 are strings. - reads
    it from standard input, without the line feed at its end. Each call sends one more message.

    A running harness refuses what its `accepts` does not name (exit code 2). The store does not know these types: a message
    to a harness that does not run, or whose program takes no orders, is checked when it is read, and set aside if it does not
    match.

    Args:
        name: the name of the harness
        message: the message
        text: send MESSAGE as a string, whatever it looks like
    """
    return _post(name, message_of(read_message() if message == "-" else message, as_text=text), common)


def trading(
    what: Annotated[Order, Parameter(metavar="ORDER")],
    name: Name,
    /,
    *,
    reason: Words = "",
    common: Common = USUAL,
) -> int:
    """Tell a trading harness what to do.

    ORDER is one of:

        stop             cancel open orders, keep positions, and end after a last step
        stop-entries     only reduce positions; cancel open purchases
        resume-entries   end stop-entries
        flatten          cancel open orders, sell everything, and halt
        reset            end a halt; the high-water mark is the equity now
        adopt            replace the book with the venue's account

    Args:
        what: the order, see above
        name: the name of the harness
        reason: why; kept with it
    """
    return _post(name, {"do": TRADING[what], "reason": reason}, common)


def _post(name: str, message: object, common: Common) -> int:
    sent = post(common.store_path, name, message)
    if common.json:
        print_all([json_line(sent.fields)])
    start = ways_to_start(common.store_path, sent.name)
    then = "it runs, and has it within a moment" if sent.is_running else f"it does not run, and gets it when it does: {start}"
    streams.say(f"{sent.name} has message {sent.seq} in its mailbox{'' if sent.is_checked else _UNCHECKED}; {then}")
    return ExitCode.OK


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


def read_message() -> str:
    """Return what stands in standard input, without the line feed at its end.

    Raises:
        UsageError: it is no UTF-8, or more than one record may have.
    """
    given = b"" if sys.stdin is None else sys.stdin.buffer.read(MAX_RECORD_BYTES + 1)
    if len(given) > MAX_RECORD_BYTES:
        raise UsageError(
            f"message of standard input: expected at most {MAX_RECORD_BYTES:,} bytes, got more; send a path to it"
        )
    try:
        return given.decode().removesuffix("\n")
    except UnicodeDecodeError as error:
        raise UsageError(f"message of standard input: expected UTF-8, got {error}; send it as JSON or base64") from error


def message_of(text: str, *, as_text: bool) -> Any:
    """Return the message that an argument is: JSON, or the text itself.

    Raises:
        UsageError: it looks like JSON but is not valid.
    """
    if as_text:
        return text
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        if not text.lstrip().startswith(_BEGINS_JSON):
            return text
        raise UsageError(
            f"message {text!r:.200} looks like JSON but is not valid: {error}; correct it, or give --text to send it as it is"
        ) from error


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
    target = f"/harnesses/{quote(name, safe='')}/check"
    replies, _ = ask_soon(Path(store).resolve(), target, _CHECK_S, method="POST", body=body.encode())
    for reply in replies:
        if reply.status == 400:
            raise UsageError(str(reply.fields.get("error") or reply.text))
    return any(reply.status == 200 for reply in replies)
