"""Decides what follows each answer of the model within a turn. Pure.

    stop reason    tool calls   next move
    refusal        any          GiveUp
    any other      an answer    Finish; UseTools with the problem if a typed answer does not fit
    any other      yes          UseTools, while rounds are left; later ones are ignored
    max_tokens     no           Say, to go on, `max_continuations` times; then GiveUp
    paused         no           Say, to go on, while rounds are left; then GiveUp
    any other      no text      Say, once; then GiveUp
    any other      no           Finish; Say with the problem if a typed answer does not fit

A typed answer that does not fit is asked for `max_corrections` times; then GiveUp.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NoReturn, TypeAlias

from attrs import evolve, field, frozen

from harnesses.agents.chat.chat_policy import ChatPolicy
from harnesses.agents.chat.own_secrets import PROBLEM, is_withheld
from harnesses.agents.chat.typed_answer import ANSWER_TOOL, AnswerType
from harnesses.agents.model.messages import ModelResponse, StopReason, ToolCall

GO_ON = "Your answer was cut off at its maximum length. Go on exactly where it stopped; repeat nothing."
GO_ON_PAUSED = "Go on exactly where you stopped; repeat nothing."
SAY_SOMETHING = "Your answer was empty. Give your answer now."
LAST_ROUND = "You have used all your rounds of tool calls. Give your final answer now, from what you know."
AGAIN = "Your answer could not be used: {why}. This is a new try: what you did before stays done. Give your answer again."
CUT_OFF = "the call was cut off at the maximum length of your answer and was not made: make it shorter"


@frozen(kw_only=True)
class Progress:
    """What has happened in a turn so far, as far as it decides what follows."""

    tool_rounds: int = 0
    """Rounds of tool calls that were made."""
    continuations: int = 0
    """How often the model was asked to continue an answer that was cut off."""
    corrections: int = 0
    """How often the model was asked for another typed answer."""
    is_asked_again: bool = False
    """Whether the model has said nothing before, and was asked again."""
    text: str = ""
    """Earlier parts of an answer that was cut off."""


@frozen
class UseTools:
    """Make the calls and tell the model their results."""

    progress: Progress
    """What has happened once the calls are made."""
    problems: Mapping[int, str] = field(factory=dict[int, str])
    """Error messages for the model about calls that are not made, by position."""


@frozen
class Say:
    """Say something to the model and ask it again."""

    progress: Progress
    """What has happened once the message is sent."""
    text: str
    """The message to the model."""


@frozen
class Finish:
    """The turn has its answer."""

    text: str
    """The text of the answer."""
    answer: Any = None
    """The typed answer, if one is wanted."""


@frozen
class GiveUp:
    """The turn ends without a usable answer."""

    stop_reason: StopReason
    """Why the model stopped."""
    why: str
    """What is wrong, for the error message."""
    text: str = ""
    """What the model wrote, as far as it got."""


Move: TypeAlias = UseTools | Say | Finish | GiveUp


def decide(response: ModelResponse, progress: Progress, policy: ChatPolicy, wanted: AnswerType | None) -> Move:
    """Decide what follows an answer of the model.

    Args:
        wanted: the type of a typed answer; None for text.
    """
    message, stop = response.message, response.stop_reason
    text = progress.text + message.text
    if stop is StopReason.REFUSAL:
        return GiveUp(stop, f"the model refused to answer: {message.text or 'it gave no reason'}", text)
    given = _given(message.calls, wanted)
    if wanted is not None and given is not None:
        read = _refuse if is_withheld(message.calls[given]) else wanted.read_call
        return _judge(read, message.calls[given].arguments, progress, policy, text, given)
    if message.calls and progress.tool_rounds < policy.max_rounds:
        problems = {} if stop is not StopReason.MAX_TOKENS else _cut_off(message.calls)
        problems |= {place: PROBLEM for place, call in enumerate(message.calls) if is_withheld(call)}
        return UseTools(evolve(progress, tool_rounds=progress.tool_rounds + 1, text=""), problems)
    if stop is StopReason.MAX_TOKENS:
        if not message.text or progress.continuations >= policy.max_continuations:
            return GiveUp(stop, "the answer was cut off at its maximum length; raise max_tokens", text)
        return Say(evolve(progress, continuations=progress.continuations + 1, text=text), GO_ON)
    if stop is StopReason.PAUSED:
        if progress.tool_rounds >= policy.max_rounds:
            return GiveUp(stop, "the provider interrupted the answer in each round; raise max_rounds", text)
        return Say(evolve(progress, tool_rounds=progress.tool_rounds + 1, text=text), GO_ON_PAUSED)
    if wanted is not None:
        return _judge(wanted.read_text, text, progress, policy, text, None)
    if text.strip():
        return Finish(text)
    if progress.is_asked_again:
        return GiveUp(StopReason.END_TURN, "the answer is empty, also after the model was asked again")
    return Say(evolve(progress, is_asked_again=True), SAY_SOMETHING)


def _given(calls: tuple[ToolCall, ...], wanted: AnswerType | None) -> int | None:
    """Return the place of the call that gives the typed answer."""
    if wanted is None:
        return None
    return next((place for place, call in enumerate(calls) if call.name == ANSWER_TOOL), None)


def _judge(read: Any, said: str, progress: Progress, policy: ChatPolicy, text: str, place: int | None) -> Move:
    """Finish with a typed answer, or have it corrected."""
    try:
        return Finish(text, read(said))
    except ValueError as error:
        if progress.corrections >= policy.max_corrections:
            return GiveUp(StopReason.OTHER, str(error), text)
        corrected = evolve(progress, corrections=progress.corrections + 1, text="")
        return Say(corrected, str(error)) if place is None else UseTools(corrected, {place: str(error)})


def _refuse(arguments: str) -> NoReturn:
    raise ValueError(PROBLEM)


def _cut_off(calls: tuple[ToolCall, ...]) -> dict[int, str]:
    """Return the problem of the last call, if it is not whole."""
    try:
        json.loads(calls[-1].arguments or "{}")
    except (ValueError, RecursionError):
        return {len(calls) - 1: CUT_OFF}
    return {}
