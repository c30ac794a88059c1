"""The verbs `send` and `trading`: messages of an operator to a harness, in its durable mailbox.

A running program notices them within a moment; a dead one has them when it is started again. What types of messages a harness
accepts is known to the program that runs it alone: it is asked before anything is written.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.parse import quote

import msgspec
from attrs import frozen

from harnesses.data.record_size import MAX_RECORD_BYTES
from harnesses.timing.clock import now_us
from orchestrator.cli import std_streams as streams
from orchestrator.cli.exit_codes import ExitCode
from orchestrator.cli.parsing import Add, add_common, add_verb, print_all, store_of, words
from orchestrator.cli.store_writing import commit
from orchestrator.cli.value_lines import json_line
from orchestrator.codec import encode
from orchestrator.control.control_client import ask_soon
from orchestrator.errors import UsageError
from orchestrator.lifecycle import Status
from orchestrator.store.sqlite.sqlite_reader import SqliteReader
from orchestrator.store.store_protocol import Post
from orchestrator.text.command_hints import ways_to_start

OPERATOR = "@operator"
"""Who sends them; no harness can be called so."""

TRADING: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "stop": ("stop", "cancel open orders, keep positions, and end after a last step"),
        "stop-entries": ("stop entries", "only make positions smaller; cancel open purchases"),
        "resume-entries": ("resume entries", "end stop-entries"),
        "flatten": ("flatten", "cancel open orders, sell everything, and halt"),
        "reset": ("reset", "end a halt; the high-water mark is the equity now"),
        "adopt": ("adopt", "take the venue's account over as the book"),
    }
)
"""What an operator may tell a trading harness: the word on the command line, the one in the message, and what it does."""

_BEGINS_JSON = ("{", "[", '"')
_CHECK_S = 2.0
"""How long the program that runs a harness has to say whether it accepts a message: one that hangs gets it unchecked."""


_SEND = """\
MESSAGE is JSON, or else plain text, which is sent as a string: 12 is a number, '"12"' and --text 12 are strings.
`-` is what stands in standard input, less the line feed at its end. Each call sends one more message.
A harness that runs refuses what its `accepts` does not name (exit code 2). The store does not know these types: what is sent
to one that does not run, or whose program takes no orders, is checked when it is read, and set aside if it is of another."""
_UNCHECKED = ", unchecked (one of a type that it does not accept is set aside, and its output says so)"


def add_verbs(add: Add) -> None:
    """Add the verbs."""
    send = add_verb(add, "send", "put a message in the mailbox of a harness", _send, _SEND)
    send.add_argument("name", metavar="NAME")
    send.add_argument("message", metavar="MESSAGE", type=words)
    send.add_argument("--text", action="store_true", help="send MESSAGE as a string, whatever it looks like")
    add_common(send)
    table = "\n".join(f"  {word:<15} {what}" for word, (_, what) in TRADING.items())
    trading = add_verb(add, "trading", "tell a trading harness what to do", _trading, table)
    trading.add_argument("what", metavar="VERB", choices=list(TRADING), help=", ".join(TRADING))
    trading.add_argument("name", metavar="NAME")
    trading.add_argument("--reason", metavar="TEXT", type=words, default="", help="why; kept with it")
    add_common(trading)


def _send(options: argparse.Namespace) -> int:
    text = read_message() if options.message == "-" else options.message
    message = message_of(text, as_text=options.text)
    return _post(options, message)


def _trading(options: argparse.Namespace) -> int:
    return _post(options, {"do": TRADING[options.what][0], "reason": options.reason})


def _post(options: argparse.Namespace, message: object) -> int:
    sent = post(store_of(options), options.name, message)
    if options.json:
        print_all([json_line(sent.fields)])
    start = ways_to_start(store_of(options), sent.name)
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
        UsageError: it begins like JSON and is none.
    """
    if as_text:
        return text
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        if not text.lstrip().startswith(_BEGINS_JSON):
            return text
        raise UsageError(
            f"message {text!r:.200} begins like JSON and is none: {error}; correct it, or give --text to send it as it is"
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
