"""`Turn`: the rounds of one turn, from the first request to the answer.

    request ─► round/1 ─► round/1/tool/1, round/1/tool/2 … ─► round/2 ─► …        keys of the records

Invariants: the first request, each finished model call and each finished tool call are on record before the next begins. A
turn that is taken up again continues with what is recorded: it asks for nothing that was answered, and pays for nothing twice.
All messages and all tool results are sent in each round.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from functools import partial
from typing import Any, Protocol

import trio
from attrs import define, evolve, field, frozen

from harnesses.agent import AgentRun
from harnesses.agent_spans import SpanValue
from harnesses.agents.chat.chat_policy import ChatPolicy
from harnesses.agents.chat.turn_moves import LAST_ROUND, Finish, GiveUp, Progress, Say, UseTools, decide
from harnesses.agents.chat.turn_stream import RoundStream
from harnesses.agents.chat.typed_answer import ANSWER_TOOL, AnswerType
from harnesses.agents.model.call_budget import reserved
from harnesses.agents.model.messages import (
    Message,
    ModelOptions,
    ModelRequest,
    ModelUsage,
    Role,
    StopReason,
    ToolCall,
    ToolDefinition,
    ToolResult,
)
from harnesses.agents.model.model_client import ModelCall, ModelClient
from harnesses.budgets.usage import Usage, money_of
from harnesses.features.turn_results import find_order, unwrap_group
from harnesses.turn_events import TurnEvent, TurnEventKind


class ToolBox(Protocol):
    """The tools of a turn."""

    @property
    def definitions(self) -> Sequence[ToolDefinition]:
        """What the model is told of them."""
        ...

    async def run(self, call: ToolCall, key: str) -> ToolResult:
        """Make a call once, and return its result, which may be an error."""
        ...


class NoTools:
    """A turn without tools."""

    definitions: Sequence[ToolDefinition] = ()

    async def run(self, call: ToolCall, key: str) -> ToolResult:
        await trio.lowlevel.checkpoint()
        return ToolResult(call_id=call.id, name=call.name, text=f"there is no tool {call.name!r}", is_error=True)


@frozen(kw_only=True)
class FirstRequest:
    """The messages with which a turn begins."""

    messages: tuple[Message, ...]


@frozen(kw_only=True)
class TurnOutcome:
    """How a turn ended."""

    text: str
    stop_reason: StopReason
    messages: tuple[Message, ...]
    """The whole conversation."""
    usage: ModelUsage
    """Of all model calls."""
    cost: Decimal
    """Of all model calls, in US dollars."""
    model_calls: int
    tool_calls: int
    tool_round_limit_reached: bool = False
    """Whether all rounds of tool calls were used, so that the model was asked for its answer."""
    answer: Any = None
    """The typed answer, if one was wanted."""
    problem: str = ""
    """Why there is no usable answer; empty if there is one."""


@define
class _Totals:
    usage: ModelUsage = field(factory=ModelUsage)
    cost: Decimal = Decimal(0)
    model_calls: int = 0
    tool_calls: int = 0


@frozen(kw_only=True)
class TurnSetting:
    """What a turn works with."""

    client: ModelClient
    policy: ChatPolicy
    box: ToolBox
    options: ModelOptions
    wanted: AnswerType | None = None
    failures: int = 0
    """Tries of the same work that have failed so far, for escalation."""


class Turn:
    """One turn of an agent."""

    def __init__(self, run: AgentRun[Any, Any], setting: TurnSetting, first: FirstRequest) -> None:
        self._run = run
        self._setting = setting
        self._messages = list(first.messages)
        self._totals = _Totals()
        self._limiter = trio.CapacityLimiter(setting.policy.max_parallel_tools)

    async def take(self) -> TurnOutcome:
        """Make rounds until the model has answered.

        Raises:
            BudgetExhausted: a limit is reached. Do not catch it.
            ProviderError: a model call failed for good.
            Waiting: a person must act first.
        """
        policy, progress, is_last, number = self._setting.policy, Progress(), False, 0
        while True:
            number += 1
            if not is_last and self._setting.box.definitions and progress.tool_rounds >= policy.max_rounds:
                is_last = True
                self._run.tell(TurnEvent[Any](kind=TurnEventKind.TOOL_ROUND_LIMIT, rounds=policy.max_rounds))
                if progress.tool_rounds:
                    self._say(LAST_ROUND)
            call = await self._ask(number, is_last=is_last)
            message = call.response.message
            self._messages.append(message)
            move = decide(call.response, progress, policy, self._setting.wanted)
            match move:
                case UseTools(progress, problems):
                    results = await self._use_tools(number, message.calls, problems)
                    self._messages.append(Message(role=Role.TOOL, results=results))
                case Say(progress, text):
                    self._say(text)
                case Finish(text, answer):
                    return self._outcome(text, call.response.stop_reason, limit=is_last, answer=answer)
                case GiveUp(stop_reason, why, text):
                    return self._outcome(text, stop_reason, limit=is_last, problem=why)

    def _say(self, text: str) -> None:
        self._messages.append(Message(role=Role.USER, text=text))

    # model calls

    async def _ask(self, number: int, *, is_last: bool) -> ModelCall:
        """Make the model call of a round, or return the recorded one."""
        run, key = self._run, f"round/{number}"
        request = self._request(is_last=is_last)
        model = self._setting.client.models[0]
        attributes = {"gen_ai.operation.name": "chat", "gen_ai.provider.name": model[0].id, "gen_ai.request.model": model[1]}
        with run.span(f"chat {model[1]}", attributes) as span:
            call: ModelCall = await run.once(key, partial(self._call, request, number), idempotent=True)
            response = call.response
            told: dict[str, SpanValue] = {
                "gen_ai.response.model": response.model,
                "gen_ai.response.id": response.response_id,
                "gen_ai.usage.input_tokens": call.usage.input_tokens,
                "gen_ai.usage.output_tokens": call.usage.output_tokens,
            }
            span.set(**told)
        totals = self._totals
        totals.usage, totals.cost, totals.model_calls = totals.usage + call.usage, totals.cost + call.cost, number
        run.tell(TurnEvent[Any](kind=TurnEventKind.MESSAGE_COMPLETE, text=response.message.text, rounds=number))
        return call

    def _request(self, *, is_last: bool) -> ModelRequest:
        setting, options = self._setting, self._setting.options
        tools = tuple(setting.box.definitions)
        if setting.wanted is not None:
            tools += (setting.wanted.definition,)
            if is_last or len(tools) == 1:
                options = evolve(options, tool_choice=ANSWER_TOOL)
        elif is_last:
            options = evolve(options, tool_choice="none")
        model = setting.client.models[0][1]
        return ModelRequest(model=model, messages=tuple(self._messages), tools=tools, options=options)

    async def _call(self, request: ModelRequest, number: int) -> ModelCall:
        """Make a model call within a reservation of what it may cost at most."""
        run, client, failures = self._run, self._setting.client, self._setting.failures
        tell = RoundStream(run.tell, number).tell if self._setting.policy.stream else None
        async with reserved(run, client, request) as meter:
            return await client.call(request, tell=tell, failures=failures, on_wait=self._log_wait, meter=meter)

    def _log_wait(self, reason: str, seconds: float) -> None:
        self._run.log(f"[waiting {seconds:.0f} s: {reason}]")

    # tool calls

    async def _use_tools(self, number: int, calls: Sequence[ToolCall], problems: Mapping[int, str]) -> tuple[ToolResult, ...]:
        """Make the calls of a round side by side; return their results in the order of the calls."""
        results: list[ToolResult | None] = [None] * len(calls)

        async def use(place: int, call: ToolCall) -> None:
            async with self._limiter:
                results[place] = await self._use(call, f"round/{number}/tool/{place + 1}", number)

        try:
            async with trio.open_nursery() as nursery:
                for place, call in enumerate(calls):
                    if place in problems:
                        results[place] = ToolResult(call_id=call.id, name=call.name, text=problems[place], is_error=True)
                    else:
                        self._totals.tool_calls += 1
                        nursery.start_soon(use, place, call)
        except ExceptionGroup as group:
            error = find_order(group) or unwrap_group(group)
            raise error from error.__cause__
        return tuple(result for result in results if result is not None)

    async def _use(self, call: ToolCall, key: str, number: int) -> ToolResult:
        started = TurnEvent[Any](
            kind=TurnEventKind.TOOL_STARTED, text=call.arguments, tool=call.name, call_id=call.id, rounds=number
        )
        self._run.tell(started)
        result = await self._setting.box.run(call, key)
        text, error = ("", result.text) if result.is_error else (result.text, "")
        self._run.tell(evolve(started, kind=TurnEventKind.TOOL_FINISHED, text=text, error=error))
        return result

    def _outcome(self, text: str, stop: StopReason, *, limit: bool, answer: Any = None, problem: str = "") -> TurnOutcome:
        totals = self._totals
        return TurnOutcome(
            text=text,
            stop_reason=stop,
            messages=tuple(self._messages),
            usage=totals.usage,
            cost=totals.cost,
            model_calls=totals.model_calls,
            tool_calls=totals.tool_calls,
            tool_round_limit_reached=limit,
            answer=answer,
            problem=problem,
        )


def as_usage(usage: ModelUsage, cost: Decimal, tool_calls: int = 0) -> Usage:
    """Return the usage of model calls in the form that budgets charge."""
    return Usage(
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cached_tokens=usage.cached_tokens,
        tool_calls=tool_calls,
        money=money_of(cost),
    )
