"""Reads the input of an agent call as the task of a turn, and makes the turn's result into the answer of the agent.

Assignment, or another input with a `prompt`     its prompt, directory and session; answered with a TurnResult
text                                             the text
any other storable value                         its JSON, as data
"""

from __future__ import annotations

from pathlib import Path

import msgspec
from attrs import frozen

from harnesses.data.values import detach
from harnesses.features.feature_record import Assignment

_encode = msgspec.json.Encoder(decimal_format="string").encode


@frozen(kw_only=True)
class TurnTask:
    """What a turn has to do."""

    prompt: str
    objective: str = ""
    is_complete: bool = False
    """Whether the prompt has all that the agent needs of state and recent steps."""
    directory: Path | None = None
    session: str | None = None
    """The conversation to go on with."""
    writable: tuple[str, ...] = ()
    readable: tuple[str, ...] = ()


def read_task(input: object) -> TurnTask:
    """Return the task in the input of an agent call."""
    if isinstance(input, Assignment):
        return TurnTask(
            prompt=input.prompt,
            objective=input.objective,
            is_complete=True,
            directory=None if input.directory is None else Path(input.directory),
            session=input.session,
            writable=input.writable,
            readable=input.readable,
        )
    if isinstance(input, str):
        return TurnTask(prompt=input)
    return TurnTask(prompt=f"The input, as JSON:\n\n{as_json(input)}")


def as_json(value: object) -> str:
    """Return a storable value as JSON text."""
    return str(_encode(detach(value)), "utf-8")
