"""The verbs `send` and `trading`: messages of an operator to a harness, in its durable mailbox."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any, Literal, get_args

import msgspec
from cyclopts import Parameter

from harnesses.data.record_size import MAX_RECORD_BYTES
from orchestrator.cli import std_streams as streams
from orchestrator.cli.exit_codes import ExitCode
from orchestrator.cli.verb_options import USUAL, Common, Name, Words, WordsOrDash, print_all
from orchestrator.errors import UsageError
from orchestrator.operating.operator_messages import post
from orchestrator.text.command_hints import ways_to_start
from orchestrator.text.value_lines import json_line

Order = Literal["stop", "stop-entries", "resume-entries", "flatten", "reset", "adopt"]
TRADING: Mapping[str, str] = MappingProxyType({order: order.replace("-", " ") for order in get_args(Order)})
"""What an operator may tell a trading harness: the word on the command line, and the one in the message."""

_BEGINS_JSON = ("{", "[", '"')


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
