"""Spans of agents, their model calls and their tool calls, from the records of a step. Pure.

    step ─── invoke_agent coder ─┬─ chat claude-…       effect `coder#1/round/1`
                                 └─ execute_tool edit   effect `coder#1/round/1/tool/1`

A turn is known from the effects of its agent, from its transcript, or, for agents that have neither, from its usage reports.
Invariant: only what an agent did is exported as `gen_ai`; steps and attempts are not.

Source: OpenTelemetry semantic conventions 1.41, gen-ai/gen-ai-spans.md and gen-ai/gen-ai-agent-spans.md.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Protocol, cast

from attrs import define, field
from msgspec.structs import replace

from harnesses.agent_spans import AgentSpan
from harnesses.effects.effect_scopes import agent_of
from orchestrator.telemetry.span import Span, Value, id_of, object_in, text_of

_ROUND = re.compile(r"((?:[^/]+/)*?[^/:#]+(?::[^/]*|#\d+)/)(?:request|round/(\d+)(?:/tool/(\d+)|(/summary(?:/call)?))?)")
"""Keys of the effects of a model agent: scope, number of the round, number of the tool call, and the rest."""
_TOKENS = {
    "gen_ai.usage.input_tokens": "input_tokens",
    "gen_ai.usage.output_tokens": "output_tokens",
    "gen_ai.usage.cache_read.input_tokens": "cached_tokens",
    "gen_ai.usage.cache_creation.input_tokens": "cache_write_tokens",
    "gen_ai.usage.reasoning.output_tokens": "reasoning_tokens",
}
_PROVIDERS = {"gemini": "gcp.gemini", "mistral": "mistral_ai", "xai": "x_ai"}
"""Conventional names of providers, where ours are others."""
_MOST_TOOLS = 1_000
"""Tool calls of one transcript that become spans, at most."""


class SpanScope(Protocol):
    """What spans of one attempt have in common."""

    @property
    def trace_id(self) -> str: ...

    @property
    def common(self) -> Mapping[str, Value]: ...

    def id_of(self, *what: object) -> str: ...


@define
class _Turn:
    """An agent's turn within the step in progress."""

    agent: str
    start_us: int
    end_us: int
    attributes: dict[str, Value] = field(factory=dict[str, Value])
    calls: dict[int, list[str]] = field(factory=dict[int, list[str]])
    """Ids of the tool calls of each round."""
    error: str | None = None

    def stretch(self, start_us: int, end_us: int) -> None:
        self.start_us, self.end_us = min(self.start_us, start_us), max(self.end_us, end_us)

    def add(self, attributes: Mapping[str, Value]) -> None:
        """Add numbers, replace anything else."""
        for name, value in attributes.items():
            before = self.attributes.get(name, 0)
            self.attributes[name] = before + value if isinstance(before, int) and isinstance(value, int) else value


class AgentTurns:
    """The turns of agents within the step in progress of one attempt."""

    def __init__(self, scope: SpanScope) -> None:
        self._scope = scope
        self._turns: dict[str, _Turn] = {}
        self._reported: dict[str, _Turn] = {}
        """Turns known from usage reports, by agent."""
        self._held: dict[str, _Turn] = {}
        """Those of the last step, until a transcript could have come."""

    @property
    def is_pending(self) -> bool:
        """Whether there are turns of which no span was returned yet."""
        return bool(self._turns or self._reported or self._held)

    @property
    def is_holding(self) -> bool:
        """Whether turns of the last step are held; see `release`."""
        return bool(self._held)

    def effect(self, span: Span, key: str, step: int, arguments: object, outcome: Mapping[str, Any]) -> Span:
        """Return the span of an effect that has ended: a model call or a tool call of an agent by its conventional name."""
        found = _ROUND.fullmatch(key)
        if found is None:
            return span
        scope, number, tool, rest = found.groups()
        turn = self._turns.get(scope)
        if turn is None:
            turn = self._turns[scope] = _Turn(text_of(agent_of(scope)), span.start_us, span.end_us)
        turn.stretch(span.start_us, span.end_us)
        result = object_in(outcome, "result")
        if number is None:
            if session := text_of(result.get("session") or ""):
                turn.attributes["gen_ai.conversation.id"] = session
            return replace(span, parent_id=self._id(step, scope))
        span = replace(span, parent_id=self._id(step, scope))
        if tool is not None:
            return _tool_span(span, arguments, result, turn.calls.get(int(number), [])[int(tool) - 1 : int(tool)])
        call = object_in(result, "call") if rest == "/summary" else result
        if rest == "/summary":
            return span
        return self._chat(span, turn, int(number), call)

    def _chat(self, span: Span, turn: _Turn, number: int, call: Mapping[str, Any]) -> Span:
        response = object_in(call, "response")
        provider, model = _model_of(call)
        said: dict[str, Value] = {"gen_ai.operation.name": "chat"}
        used = tokens_in(object_in(call, "usage"))
        if model:
            named: dict[str, Value] = {"gen_ai.provider.name": provider, "gen_ai.request.model": model}
            turn.add(named)
            said |= named
        for name, where in (("gen_ai.response.model", "model"), ("gen_ai.response.id", "response_id")):
            if value := text_of(response.get(where) or ""):
                said[name] = value
        if reason := text_of(response.get("stop_reason") or ""):
            said["gen_ai.response.finish_reasons"] = (reason,)
        turn.add(used)
        turn.calls[number] = [text_of(one.get("id") or "") for one in _objects(object_in(response, "message").get("calls"))]
        return replace(span, name=f"chat {model}".strip(), attributes={**span.attributes, **said, **used}, is_client=True)

    def charge(self, agent: str, usage: Mapping[str, Any], time_us: int) -> None:
        """Take a usage report of an agent."""
        if not agent:
            return
        turn = self._reported.get(agent)
        if turn is None:
            turn = self._reported[agent] = _Turn(agent, time_us, time_us)
        turn.stretch(time_us, time_us)
        turn.add(tokens_in(usage))

    def end_step(self, step: int, parent_id: str, start_us: int, took_us: int, error: str | None = None) -> list[Span]:
        """Return the spans of turns known from their effects. Those known from usage reports alone are held; see `release`.

        Args:
            took_us: how long agents worked in this step; 0 if it is not known.
        """
        if not self.is_pending:
            return []
        turns, self._turns = self._turns, {}
        for turn in turns.values():
            self._reported.pop(turn.agent, None)
        self._held, self._reported = self._reported, {}
        is_alone = len(self._held) == 1 and not turns
        for turn in self._held.values():
            began = turn.end_us - took_us if is_alone else turn.start_us
            turn.start_us = max(min(turn.start_us, began), start_us)
        made: list[Span] = []
        for scope, turn in turns.items():
            above = [one for one in turns if one != scope and scope.startswith(one)]
            parent = self._id(step, max(above, key=len)) if above else parent_id
            made.append(self._span(turn, self._id(step, scope), parent, error))
        return made

    def transcript(self, fields: Mapping[str, Any], step: int, parent_id: str) -> list[Span]:
        """Return the spans of a turn of an agent without effects, of its transcript, which comes after the step."""
        agent, scope = text_of(fields.get("agent") or ""), text_of(fields.get("scope") or "")
        start, end = fields.get("started_us"), fields.get("ended_us")
        if not isinstance(start, int) or not isinstance(end, int):
            return []
        self._held.pop(agent, None)
        provider, model = _model_of(fields)
        turn = _Turn(agent, start, max(start, end), error=text_of(fields["error"]) if fields.get("error") else None)
        turn.add(tokens_in(fields))
        named = (
            ("provider.name", provider),
            ("request.model", model),
            ("conversation.id", text_of(fields.get("session") or "")),
        )
        turn.attributes |= {f"gen_ai.{name}": value for name, value in named if value}
        own = self._id(step, scope or agent)
        tools = [self._tool(tool, own, number) for number, tool in enumerate(_objects(fields.get("tools"))[:_MOST_TOOLS])]
        return [*(tool for tool in tools if tool is not None), self._span(turn, own, parent_id, turn.error)]

    def _tool(self, tool: Mapping[str, Any], parent_id: str, number: int) -> Span | None:
        start, end = tool.get("start_us"), tool.get("end_us")
        if not isinstance(start, int) or not isinstance(end, int):
            return None
        span = Span(
            trace_id=self._scope.trace_id,
            span_id=self._scope.id_of("tool", parent_id, number),
            parent_id=parent_id,
            name="",
            start_us=start,
            end_us=max(start, end),
            attributes=self._scope.common,
        )
        return _tool_span(span, [tool.get("name")], {"is_error": tool.get("is_error")}, [text_of(tool.get("id") or "")])

    def release(self, step: int, parent_id: str) -> list[Span]:
        """Return the spans of turns known from usage reports alone."""
        held, self._held = self._held, {}
        return [self._span(turn, self._id(step, turn.agent), parent_id, None) for turn in held.values()]

    def _id(self, step: int, scope: str) -> str:
        return self._scope.id_of("agent", step, scope)

    def _span(self, turn: _Turn, span_id: str, parent_id: str, error: str | None) -> Span:
        said: dict[str, Value] = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": turn.agent}
        if error:
            said["error.type"] = error.partition(":")[0]
        return Span(
            trace_id=self._scope.trace_id,
            span_id=span_id,
            parent_id=parent_id,
            name=f"invoke_agent {turn.agent}",
            start_us=turn.start_us,
            end_us=turn.end_us,
            attributes={**self._scope.common, **said, **turn.attributes},
            error=error,
        )


def _tool_span(span: Span, arguments: object, result: Mapping[str, Any], ids: list[str]) -> Span:
    given = cast("list[object]", arguments) if isinstance(arguments, list) else []
    name = text_of(given[0]) if given and isinstance(given[0], str) else ""
    said: dict[str, Value] = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": name}
    if ids and ids[0]:
        said["gen_ai.tool.call.id"] = ids[0]
    error = span.error
    if result.get("is_error") is True:
        said["error.type"] = "tool_error"
        error = error or text_of(result.get("text") or "the tool failed")[:_SHORT]
    return replace(span, name=f"execute_tool {name}".strip(), attributes={**span.attributes, **said}, error=error)


_SHORT = 200


def tokens_in(usage: Mapping[str, Any]) -> dict[str, Value]:
    """Return the token counts of a usage record by their conventional names."""
    counts = ((name, usage.get(where)) for name, where in _TOKENS.items())
    return {name: count for name, count in counts if isinstance(count, int) and not isinstance(count, bool) and count > 0}


def _objects(value: object) -> list[Mapping[str, Any]]:
    parts = cast("list[object]", value) if isinstance(value, list) else []
    return [cast("dict[str, Any]", part) for part in parts if isinstance(part, dict)]


def _model_of(fields: Mapping[str, Any]) -> tuple[str, str]:
    """Return the conventional name of the provider, and the model, of a record that has `provider:model`."""
    provider, _, model = text_of(fields.get("model") or "").partition(":")
    return _PROVIDERS.get(provider, provider), model


def told_span(run: str, harness: str, attempt: int, step: int, told: AgentSpan) -> Span | None:
    """Return a span that an agent made by itself, below its step; None for a model call, whose span comes from its record."""
    if told.attributes.get("gen_ai.operation.name") == "chat":
        return None
    above = told.parent
    while above is not None and above.attributes.get("gen_ai.operation.name") == "chat":
        above = above.parent
    step_id = id_of(8, run, harness, attempt, "step", step)
    own: dict[str, Value] = {
        # Not more than its type promises is expected of an author's attributes.
        text_of(name): value if isinstance(value, bool | int | float) else text_of(value)
        for name, value in told.attributes.items()
    }
    return Span(
        trace_id=id_of(16, run, harness, attempt),
        span_id=_own_id(told),
        parent_id=step_id if above is None else _own_id(above),
        name=text_of(told.name),
        start_us=told.start_us,
        end_us=max(told.end_us, told.start_us),
        attributes={"orchestrator.harness": harness, "orchestrator.run": run, "orchestrator.attempt": attempt, **own},
        error=told.error,
    )


def _own_id(told: AgentSpan) -> str:
    return id_of(8, "told", told.scope, told.name, told.start_us, id(told))
