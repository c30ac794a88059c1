"""The transcript of a turn of a command-line agent, from the events that its output reports. No I/O but the clock.

Invariant: it is bounded, however much the program says: later messages and tool calls are left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from attrs import define, evolve, field

from harnesses.agent import AgentRun
from harnesses.agents.command.agent_output import ReadEvent, Reply
from harnesses.agents.model.messages import Message, ModelUsage, Role, Thinking, ToolCall, ToolResult
from harnesses.agents.model.transcript import KIND, ModelRound, Transcript, as_record
from harnesses.budgets.usage import Usage, count_of
from harnesses.timing.clock import now_us
from harnesses.turn_events import TurnEvent, TurnEventKind

_MOST_MESSAGES = 2_000
_MOST_TOOLS = 1_000


@define
class CommandTranscript:
    """Collects the transcript of one turn."""

    agent: str
    messages: list[Message] = field(factory=list[Message])
    _thinking: list[str] = field(factory=list[str])
    _tools: dict[str, dict[str, Any]] = field(factory=dict[str, dict[str, Any]])
    """When each tool call began and ended, by its id."""
    _started_us: int = field(factory=now_us)

    def take(self, told: object) -> None:
        """Take an event of the turn."""
        if isinstance(told, TurnEvent):
            self._take(cast("ReadEvent", told))  # type: ignore[redundant-cast]

    def _take(self, event: ReadEvent) -> None:
        match event.kind:
            case TurnEventKind.THINKING_DELTA:
                self._thinking = [*self._thinking, event.text][-_MOST_MESSAGES:]
            case TurnEventKind.MESSAGE_COMPLETE:
                self._say(text=event.text)
            case TurnEventKind.TOOL_STARTED:
                self._call(ToolCall(id=event.call_id, name=event.tool, arguments=event.text))
            case TurnEventKind.TOOL_FINISHED:
                self._finish(event)
            case _:
                pass

    def attach_to(self, run: AgentRun[Any, Any], reply: Reply, *, error: str) -> None:
        """Attach the transcript to the step in progress."""
        # A whole id looks like a secret, and would be redacted.
        session = f"{self.agent}/{reply.session[-8:]}" if reply.session else ""
        earlier = run.session(session) if session else ()
        if reply.message and not any(said.role is Role.ASSISTANT for said in self.messages):
            self._say(text=reply.message)
        # What a program reports of a whole conversation includes its earlier turns.
        usage = reply.usage.since(_total_of(earlier)) if reply.is_total else reply.usage
        transcript = Transcript(
            agent=self.agent,
            model=reply.model,
            messages=tuple(self.messages),
            scope=run.scope,
            session=session,
            turn=len(earlier) + 1,
            stop_reason="" if error else reply.stop_reason,
            error=error,
            rounds=(_round_of(reply.model, len(self.messages) - 1, usage),) if usage else (),
        )
        times = {"started_us": self._started_us, "ended_us": now_us(), "tools": list(self._tools.values())}
        run.attach(KIND, {**as_record(transcript), **times})

    def _say(self, **said: Any) -> None:
        if len(self.messages) < _MOST_MESSAGES:
            thinking = (Thinking(text="".join(self._thinking)),) if self._thinking else ()
            self.messages.append(Message(role=Role.ASSISTANT, thinking=thinking, **said))
        self._thinking = []

    def _call(self, call: ToolCall) -> None:
        if len(self._tools) >= _MOST_TOOLS:
            return
        self._tools[call.id] = {"id": call.id, "name": call.name, "start_us": now_us()}
        last = self.messages[-1] if self.messages else None
        if last is None or last.role is not Role.ASSISTANT:
            self._say(calls=(call,))
        else:
            self.messages[-1] = evolve(last, calls=(*last.calls, call))

    def _finish(self, event: ReadEvent) -> None:
        known = self._tools.get(event.call_id)
        if known is None or "end_us" in known:
            return
        known |= {"end_us": now_us(), "is_error": bool(event.error)}
        result = ToolResult(call_id=event.call_id, name=event.tool, text=event.text or event.error, is_error=bool(event.error))
        last = self.messages[-1]
        if last.role is Role.TOOL:
            self.messages[-1] = evolve(last, results=(*last.results, result))
        elif len(self.messages) < _MOST_MESSAGES:
            self.messages.append(Message(role=Role.TOOL, results=(result,)))


def _round_of(model: str, message: int, usage: Usage) -> ModelRound:
    used = ModelUsage(input_tokens=usage.input_tokens, output_tokens=usage.output_tokens, cached_tokens=usage.cached_tokens)
    return ModelRound(model=model, message=message, usage=used, cost=usage.money)


def _total_of(turns: Sequence[Mapping[str, object]]) -> Usage:
    def of(name: str) -> int:
        return sum(count_of(turn.get(name)) for turn in turns)

    return Usage(input_tokens=of("input_tokens"), output_tokens=of("output_tokens"), cached_tokens=of("cached_tokens"))
