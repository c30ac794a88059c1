"""Streaming agents, which report the events of a turn as they happen.

    text_delta*  tool_call_delta*  tool_started  tool_finished  message_complete  …  turn_complete

Invariants: a turn ends with `turn_complete`, which has its result; a stream that ends without it has failed. Observers receive
each event once, in order, and can neither break nor delay the turn.
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
    """The kind of an event of a turn."""

    TEXT_DELTA = "text_delta"
    TOOL_CALL_DELTA = "tool_call_delta"
    TOOL_STARTED = "tool_started"
    TOOL_FINISHED = "tool_finished"
    MESSAGE_COMPLETE = "message_complete"
    TOOL_ROUND_LIMIT = "tool_round_limit"
    """The agent reached the maximum number of tool rounds."""
    TURN_COMPLETE = "turn_complete"
    """The last event of a turn."""


@frozen(kw_only=True)
class TurnEvent:
    """An event of a turn."""

    kind: TurnEventKind
    text: str = ""
    """The new part of the text or of a tool call's arguments; the whole message; or the output of a finished tool."""
    tool: str = ""
    call_id: str = ""
    error: str = ""
    """Error of a failed tool."""
    rounds: int = 0
    """Maximum number of tool rounds, for `tool_round_limit`."""
    result: TurnResult | None = None
    """The result of the turn, for `turn_complete`."""

    @classmethod
    def complete(cls, result: TurnResult) -> TurnEvent:
        """Return the event that ends a turn."""
        return cls(kind=TurnEventKind.TURN_COMPLETE, result=result)


TurnObserver: TypeAlias = Callable[[Assignment, TurnEvent], object]
"""Called with each event of a turn, on a separate thread."""
TurnStream: TypeAlias = Callable[[AgentRun[FeatureState, Assignment]], AsyncIterator[TurnEvent]]


class StreamingAgent(Agent[FeatureState, Assignment, TurnResult]):
    """An agent whose function is an async generator of `TurnEvent`.

    Without an observer, it behaves like any other agent.
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
    """Return an agent that behaves like `agent` and reports its events; a plain agent reports only the last one."""

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
        ChatFailed: the stream ended without one.
    """
    events = stream(run)
    # Only generators must be closed; other iterators may not have a close method.
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
