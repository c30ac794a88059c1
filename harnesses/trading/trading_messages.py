"""What an operator may tell a trading harness, as messages `{"do": …, "reason": …}`. Pure.

    do                what happens                                                                ends with
    stop              open orders are cancelled, positions kept; a last step, then it ends        starting it again
    stop entries      only what makes a position smaller; open purchases are cancelled            resume entries
    flatten           open orders are cancelled, everything is sold, halted                       reset
    resume entries    ends `stop entries`
    reset             ends a halt; the high-water mark is the equity now
    adopt             the venue's account is taken over as the book, whatever the book said

Anything else is recorded as refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any, cast

from attrs import evolve

from harnesses.trading.account_model import Command
from harnesses.trading.risk import Risk, flatten, reset, resume_entries, stop_entries


class Verb(StrEnum):
    """What an operator may want done."""

    STOP = "stop"
    STOP_ENTRIES = "stop entries"
    FLATTEN = "flatten"
    RESUME_ENTRIES = "resume entries"
    RESET = "reset"
    ADOPT = "adopt"


_LONGEST = 500
"""Characters of a message that are repeated in the record."""


def command_from(message: object) -> Command:
    """Return the command that a message is; one that is none comes back refused."""
    if not isinstance(message, Mapping):
        return Command(repr(message)[:_LONGEST], refused='expected {"do": …, "reason": …}')
    fields = cast(Mapping[str, Any], message)
    do, reason = str(fields.get("do", ""))[:_LONGEST], str(fields.get("reason", ""))[:_LONGEST]
    if do not in tuple(Verb):
        return Command(do, reason, refused=f"expected one of {', '.join(Verb)}")
    return Command(do, reason)


def obey(risk: Risk, command: Command, time: datetime) -> tuple[Risk, Command]:
    """Return the risk after a command, and the command, refused if there was nothing to do."""
    why = command.reason or "an operator said so"
    after = risk
    match command.do:
        case Verb.STOP_ENTRIES:
            after = stop_entries(risk, why, time)
        case Verb.FLATTEN:
            return flatten(risk, why, time), command
        case Verb.RESUME_ENTRIES:
            after = resume_entries(risk, time)
        case Verb.RESET:
            after = reset(risk, time)
        case _:
            return risk, command
    return after, command if after != risk else evolve(command, refused="there was nothing to do")
