"""Keeps the secrets that this program holds itself, such as the keys of providers, out of what a model asks for. Pure.

Arguments of tool calls and signed reasoning are recorded as the model wrote them, so that a resumed turn does
the same. The program's own secrets are never recorded: a call with one is withheld, and the model is told.
"""

from __future__ import annotations

import msgspec
from attrs import evolve

from harnesses.agents.model.messages import Thinking, ToolCall
from harnesses.agents.model.model_client import ModelCall
from harnesses.redaction.known_secrets import holds_known_secret
from harnesses.redaction.redactor import MARK, redact_text

VERBATIM = ("response.message.calls.arguments", "response.message.thinking.text", "response.message.thinking.proof")
"""Parts of a model call that are recorded as they are."""
WITHHELD = f'{{"withheld":"{MARK}"}}'
"""Stands for the arguments of a call that held a secret of the program."""
PROBLEM = (
    "the call was not made: its arguments held a secret of this program, such as the key of a model's provider, which is "
    "never recorded; make the call without it"
)


def without_own_secrets(made: ModelCall) -> ModelCall:
    """Return a model call without the program's own secrets in what is recorded as it is."""
    message = made.response.message
    calls = tuple(evolve(call, arguments=WITHHELD) if _holds(call.arguments) else call for call in message.calls)
    thinking = tuple(_without(part) for part in message.thinking)
    if (calls, thinking) == (message.calls, message.thinking):
        return made
    return evolve(made, response=evolve(made.response, message=evolve(message, calls=calls, thinking=thinking)))


def is_withheld(call: ToolCall) -> bool:
    """Return whether a call was withheld."""
    return call.arguments == WITHHELD


def _without(part: Thinking) -> Thinking:
    # A text that was changed no longer fits its proof.
    is_held = holds_known_secret(part.text) or holds_known_secret(part.proof)
    return Thinking(text=redact_text(part.text)) if is_held else part


def _holds(arguments: str) -> bool:
    if holds_known_secret(arguments):
        return True
    try:
        # A letter may be written as an escape.
        return holds_known_secret(str(msgspec.json.encode(msgspec.json.decode(arguments)), "utf-8"))
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        return False
