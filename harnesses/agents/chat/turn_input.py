"""Reads the input of an agent call as the task of a turn.

Assignment                  its prompt, directory and session
text                        the text
any other storable value    its JSON
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
    is_new_directory: bool = False
    """Whether the directory was made for this turn, without the changes of earlier ones."""
    session: str = ""
    """The conversation that the turn belongs to; empty if it stands alone."""
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
            is_new_directory=input.base is not None,
            session=input.session or f"{input.feature.id}:{input.turn}",
            writable=input.writable,
            readable=input.readable,
        )
    if isinstance(input, str):
        return TurnTask(prompt=input)
    return TurnTask(prompt=f"The input, as JSON:\n\n{as_json(input)}")


def as_json(value: object) -> str:
    """Return a storable value as JSON text."""
    return str(_encode(detach(value)), "utf-8")
