"""Reads the input of an agent call as the task of a turn.

Assignment                  its prompt, directory and session
text                        the text
any other storable value    its JSON
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any, cast

import msgspec
from attrs import frozen

from harnesses.agent import AgentRun
from harnesses.data.values import detach
from harnesses.effects.effect import Effect
from harnesses.errors import HarnessMisuse
from harnesses.features.feature_record import Assignment

_encode = msgspec.json.Encoder(decimal_format="string").encode


@frozen(kw_only=True)
class TurnTask:
    """What a turn has to do."""

    prompt: str
    """The text of the task, for the model."""
    objective: str = ""
    """The objective of the harness, for the system prompt; empty if there is none."""
    is_complete: bool = False
    """Whether the prompt has all that the agent needs of state and recent steps."""
    directory: Path | None = None
    """Where the tools work; None for the directory of the agent."""
    is_new_directory: bool = False
    """Whether the directory was made for this turn, without the changes of earlier ones."""
    session: str = ""
    """The conversation that the turn belongs to; empty if it stands alone."""
    work: str = ""
    """The try that the turn is made for; empty if it is for none."""
    writable: tuple[str, ...] = ()
    """Additional writable paths, as in `Assignment`."""
    readable: tuple[str, ...] = ()
    """Additional readable paths, as in `Assignment`."""


def read_task(input: object) -> TurnTask:
    """Return the task in the input of an agent call.

    An input with a method `as_task` is told as what that returns: without what is for programs only.
    """
    if isinstance(input, Assignment):
        return TurnTask(
            prompt=input.prompt,
            objective=input.objective,
            is_complete=True,
            directory=None if input.directory is None else Path(input.directory),
            is_new_directory=input.base is not None,
            session=input.session or f"{input.feature.id}:{input.turn}",
            work=f"{input.feature.id}:{input.turn}",
            writable=input.writable,
            readable=input.readable,
        )
    if isinstance(input, str):
        return TurnTask(prompt=input)
    as_task: Callable[[], object] | None = getattr(input, "as_task", None)
    return TurnTask(prompt=f"The input, as JSON:\n\n{as_json(input if as_task is None else as_task())}")


def hash_task(task: TurnTask) -> str:
    """Return what tells the input of one call of an agent from that of others."""
    return sha256(task.prompt.encode(errors="surrogatepass")).hexdigest()[:32]


def check_own_record(run: AgentRun[Any, Any], task: TurnTask, recorded: str, agent: str) -> None:
    """Check that a call has not got the record of another call of its agent.

    Calls without a key are told apart by the order in which they begin, which may be another one after a restart when they run
    side by side. An input that has changed although no other call is about is no error: the turn goes on.

    Args:
        recorded: hash of the task in the first request of the call.

    Raises:
        HarnessMisuse: the record is of another input, while another call runs or has the record of this one.
    """
    own = hash_task(task)
    if not recorded or recorded == own:
        return

    def belongs(other: Effect) -> bool:
        result: object = other.result
        return isinstance(result, dict) and cast(dict[str, Any], result).get("asked") == own

    if run.is_confused("request", belongs):
        raise HarnessMisuse(
            f"agent {agent!r}: its calls in this step may have begun in another order than before the restart: expected the "
            f"input on record for {run.scope!r}, got another; give each call a key of its own: run_agent(…, key=…)"
        )


def as_json(value: object) -> str:
    """Return a storable value as JSON text."""
    return str(_encode(detach(value)), "utf-8")
