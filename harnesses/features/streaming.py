"""Agents that say what they are doing while they do it.

    text_delta*  tool_call_delta*  tool_started  tool_finished  message_complete  …  turn_complete

The law: a turn ends with `turn_complete`, which carries its result; a stream that ends without one has failed. Observers
see each event once, in order, and can neither break nor delay the turn.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable
from contextlib import aclosing, nullcontext
from enum import StrEnum
from typing import Any, TypeAlias, cast

from attrs import frozen

from harnesses.agent import Agent, AgentRun
from harnesses.features.errors import ChatFailed
from harnesses.features.feature import TurnResult
from harnesses.features.feature_record import Assignment, FeatureState

FeatureAgent: TypeAlias = Agent[FeatureState, Assignment, TurnResult]


class TurnEventKind(StrEnum):
    """What an agent may say on its way."""

    TEXT_DELTA = "text_delta"
    TOOL_CALL_DELTA = "tool_call_delta"
    TOOL_STARTED = "tool_started"
    TOOL_FINISHED = "tool_finished"
    MESSAGE_COMPLETE = "message_complete"
    TOOL_ROUND_LIMIT = "tool_round_limit"
    """It wanted more rounds of tools than it may have."""
    TURN_COMPLETE = "turn_complete"
    """The last one."""


@frozen(kw_only=True)
class TurnEvent:
    """Something that happened in a turn."""

    kind: TurnEventKind
    text: str = ""
    """The new part of the text, of a tool call's arguments, or all of a message; of a tool that is finished, what it said."""
    tool: str = ""
    call_id: str = ""
    error: str = ""
    """Why the tool failed."""
    rounds: int = 0
    """How many rounds of tools there may be, for `tool_round_limit`."""
    result: TurnResult | None = None
    """Of the turn, with `turn_complete`."""

    @classmethod
    def complete(cls, result: TurnResult) -> TurnEvent:
        """Make the event that ends a turn."""
        return cls(kind=TurnEventKind.TURN_COMPLETE, result=result)


TurnObserver: TypeAlias = Callable[[Assignment, TurnEvent], object]
"""Is told of each event of a turn, on a thread of its own."""
TurnStream: TypeAlias = Callable[[AgentRun[FeatureState, Assignment]], AsyncIterator[TurnEvent]]


class StreamingAgent(Agent[FeatureState, Assignment, TurnResult]):
    """An agent whose function is an async generator of `TurnEvent`.

    Where nobody asks for the stream, it is an agent like any other.
    """

    def __init__(
        self,
        stream: TurnStream,
        *,
        name: str = "Agent",
        is_complete: Callable[[FeatureState], bool] | None = None,
        reports: Iterable[str] = (),
    ) -> None:
        super().__init__(lambda run: _consume(stream, run), name=name, is_complete=is_complete, reports=reports)
        self.stream = stream


def observe(agent: FeatureAgent, tell: Callable[[TurnEvent], None]) -> FeatureAgent:
    """Return an agent that does what `agent` does, and tells of each event on its way; a plain agent has only the last one."""

    async def run(run: AgentRun[FeatureState, Assignment]) -> TurnResult:
        if isinstance(agent, StreamingAgent):
            return await _consume(agent.stream, run, tell)
        result = await agent.answer(run)
        tell(TurnEvent.complete(result))
        return result

    return Agent(run, name=agent.name, reports=getattr(agent, "reports", ()))


async def _consume(
    stream: TurnStream, run: AgentRun[FeatureState, Assignment], tell: Callable[[TurnEvent], None] | None = None
) -> TurnResult:
    """Return the result that ends a stream.

    Raises:
        ChatFailed: it has ended without one.
    """
    events = stream(run)
    # Only generators have to be closed; an iterator of another kind may have nothing to close.
    async with aclosing(cast(Any, events)) if isinstance(events, AsyncGenerator) else nullcontext():
        async for event in events:
            if tell is not None:
                tell(event)
            if event.kind is TurnEventKind.TURN_COMPLETE:
                if event.result is None:
                    break
                return event.result
    raise ChatFailed(
        f"feature {run.input.feature.id!r}: the agent's stream ended before its turn was complete: expected a turn_complete "
        "event with a result as its last one; have the agent yield it"
    )
