"""`ChatPolicy`: the limits of an agent's turn."""

from __future__ import annotations

from typing import Any

from attrs import Attribute, field, frozen

from harnesses.agents.argument_checks import FLAG, optional, validator, whole_from
from harnesses.errors import HarnessMisuse


def _at_least(least: int) -> Any:
    def check(owner: object, attribute: Attribute[Any], value: object) -> None:
        if type(value) is not int or value < least:
            raise HarnessMisuse(f"chat: {attribute.name}: expected a whole number from {least} up, got {value!r}; correct it")

    return check


def _check_share(owner: object, attribute: Attribute[Any], value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0.1 <= value <= 1:
        raise HarnessMisuse(f"chat: {attribute.name}: expected a share from 0.1 to 1, got {value!r}; correct it")


@frozen(kw_only=True)
class ChatPolicy:
    """The limits of an agent's turn."""

    max_rounds: int = field(default=4, validator=_at_least(0))
    """Maximum rounds of tool calls. Then the model is asked once for its answer, without tools."""
    max_parallel_tools: int = field(default=8, validator=_at_least(1))
    """Maximum tool calls at the same time; further ones of a round wait."""
    max_corrections: int = field(default=2, validator=_at_least(0))
    """How often a typed answer that does not fit is asked for again."""
    max_continuations: int = field(default=2, validator=_at_least(0))
    """How often the model is asked to go on with an answer that was cut off at its maximum length."""
    context_tokens: int = field(default=8_000, validator=_at_least(0))
    """Maximum tokens, as estimated, of state, recent steps and knowledge in the first message; the newest steps are kept."""
    compact_at: float = field(default=0.8, validator=_check_share)
    """Share of the model's context window at which older rounds of the conversation are summarised."""
    context_window: int | None = field(default=None, validator=validator("chat", optional(whole_from(1))))
    """Context window in tokens, for models that the price table does not know; None for that of the table."""
    stream: bool = field(default=True, validator=validator("chat", FLAG))
    """Whether the model's answer is streamed to those who follow the harness."""
