"""Streaming agents, which report the events of a turn as they happen.

    text_delta*  tool_call_delta*  tool_started  tool_finished  message_complete  …  turn_complete

Invariants: a turn ends with `turn_complete`, which has its result; a stream that ends without it has failed. Observers receive
each event once, in order, and can neither break nor delay the turn.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable
from contextlib import aclosing, nullcontext
from typing import Any, TypeAlias, cast

from harnesses.agent import Agent, AgentRun
from harnesses.features.errors import ChatFailed
from harnesses.features.feature import TurnResult
from harnesses.features.feature_record import Assignment, FeatureState
from harnesses.turn_events import TurnEvent, TurnEventKind

FeatureAgent: TypeAlias = Agent[FeatureState, Assignment, TurnResult]


TurnObserver: TypeAlias = Callable[[Assignment, TurnEvent[TurnResult]], object]
"""Called with each event of a turn, on a separate thread."""
TurnStream: TypeAlias = Callable[[AgentRun[FeatureState, Assignment]], AsyncIterator[TurnEvent[TurnResult]]]


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


def observe(agent: FeatureAgent, tell: Callable[[TurnEvent[TurnResult]], None]) -> FeatureAgent:
    """Return an agent that behaves like `agent`, and passes its events to `tell` as well."""

    async def run(run: AgentRun[FeatureState, Assignment]) -> TurnResult:
        is_complete = False

        def watch(event: object) -> None:
            nonlocal is_complete
            if isinstance(event, TurnEvent):
                told = cast("TurnEvent[TurnResult]", event)
                is_complete = is_complete or told.kind is TurnEventKind.TURN_COMPLETE
                tell(told)

        result = await agent.answer(run.watched_by(watch))
        if not is_complete:
            tell(TurnEvent[TurnResult].complete(result))
        return result

    return Agent(run, name=agent.name, reports=getattr(agent, "reports", ()))


async def _consume(stream: TurnStream, run: AgentRun[FeatureState, Assignment]) -> TurnResult:
    """Return the result that ends a stream.

    Raises:
        ChatFailed: the stream ended without one.
    """
    events = stream(run)
    # Only generators must be closed; other iterators may not have a close method.
    async with aclosing(cast(Any, events)) if isinstance(events, AsyncGenerator) else nullcontext():
        async for event in events:
            run.tell(event)
            if event.kind is TurnEventKind.TURN_COMPLETE:
                if event.result is None:
                    break
                return event.result
    raise ChatFailed(
        f"feature {run.input.feature.id!r}: the agent's stream ended before its turn was complete: expected a turn_complete "
        "event with a result as its last one; have the agent yield it"
    )
