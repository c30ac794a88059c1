"""`Turn`: the rounds of one turn, from the first request to the answer.

    request ─► round/1 ─► round/1/tool/1, round/1/tool/2 … ─► round/2 ─► …        keys of the records
                  └─ round/1/summary, if the conversation has grown too long

Invariants: the first request, each finished model call and each finished tool call are on record before the next begins. A
resumed turn continues with what is recorded: an answered request is neither sent nor paid again.
All messages and all tool results are sent in each round.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from decimal import Decimal
from functools import partial
from typing import Any

import trio
from attrs import evolve, frozen

from harnesses.agent import AgentRun
from harnesses.agent_spans import SpanValue
from harnesses.agents.chat.chat_policy import ChatPolicy
from harnesses.agents.chat.compaction import dropped, first_kept, reason_to_compact, summary_request, with_task
from harnesses.agents.chat.conversation import Conversation
from harnesses.agents.chat.own_secrets import VERBATIM, without_own_secrets
from harnesses.agents.chat.turn_moves import AGAIN, LAST_ROUND, Finish, GiveUp, Progress, Say, UseTools, decide
from harnesses.agents.chat.turn_stream import RoundStream
from harnesses.agents.chat.typed_answer import ANSWER_TOOL, AnswerType
from harnesses.agents.chat.wait_log import WaitLog
from harnesses.agents.model.call_budget import reserved
from harnesses.agents.model.errors import AuthenticationFailed, ContextTooLong, ProviderError
from harnesses.agents.model.messages import (
    Message,
    ModelOptions,
    ModelRequest,
    ModelResponse,
    ModelUsage,
    Role,
    StopReason,
    ToolCall,
    ToolDefinition,
    ToolResult,
)
from harnesses.agents.model.model_client import ModelCall, ModelClient
from harnesses.agents.model.transcript import Compaction
from harnesses.agents.tools.tool_runner import ToolBox, ToolOutcome
from harnesses.budgets.budget import Budget, Spend
from harnesses.budgets.usage import Usage, money_of
from harnesses.effects.effect import OPEN, EffectOutcome
from harnesses.errors import BudgetExhausted, Waiting
from harnesses.features.turn_results import find_order, unwrap_group
from harnesses.turn_events import TurnEvent, TurnEventKind

_DEFAULT_WINDOW = 32_000
"""Context window assumed for a model of unknown size once it has rejected a conversation as too long, in tokens."""


@frozen(kw_only=True)
class FirstRequest:
    """The messages with which a turn begins."""

    messages: tuple[Message, ...]
    """System prompt and task."""
    session: str = ""
    """The conversation that the turn belongs to; empty if it stands alone."""
    turn: int = 1
    """Number of the turn within its session."""
    earlier: tuple[Message, ...] = ()
    """What was said in earlier turns of the session."""
    work: str = ""
    """The try that the turn is made for; empty if it is for none."""
    asked: str = ""
    """Hash of the task; empty in records of earlier versions."""


@frozen(kw_only=True)
class Summary:
    """A recorded compaction."""

    compaction: Compaction
    """What was replaced, and by what."""
    call: ModelCall | None = None
    """The call that made the summary; None if it failed, and messages were left out instead."""


@frozen(kw_only=True)
class TurnOutcome:
    """How a turn ended."""

    text: str
    """The text of the last answer; empty if there is none."""
    stop_reason: StopReason
    """Why the model stopped last."""
    tool_round_limit_reached: bool = False
    """Whether all rounds of tool calls were used, so that the model was asked for its answer."""
    answer: Any = None
    """The typed answer, if one was wanted."""
    problem: str = ""
    """Why there is no usable answer; empty if there is one."""


@frozen(kw_only=True)
class TurnSetting:
    """What a turn works with."""

    client: ModelClient
    """Makes the model calls."""
    policy: ChatPolicy
    """The limits of the turn."""
    box: ToolBox
    """The tools of the turn, which make the tool calls."""
    options: ModelOptions
    """Options of each model call."""
    wanted: AnswerType | None = None
    """The type of a typed answer; None for text."""
    failures: int = 0
    """Tries of the same work that have failed so far, for escalation."""
    budget: Budget | None = None
    """The most that the turn may spend in tokens, money and tool calls."""
    is_try: bool = False
    """Whether an answer that was refused or cut off is the result of the turn, for its caller to judge."""

    def is_failure(self, stop: StopReason) -> bool:
        """Return whether a turn without a usable answer fails, and is tried again when the harness is."""
        return stop is StopReason.OTHER or (stop is not StopReason.REFUSAL and not self.is_try)


class Turn:
    """One turn of an agent.

    Args:
        conversation: the system prompt, the task, and what was said before.
    """

    def __init__(self, run: AgentRun[Any, Any], setting: TurnSetting, conversation: Conversation) -> None:
        self._run = run
        self._setting = setting
        self._talk = conversation
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
                    self._talk.say(LAST_ROUND)
            was_answered = self._is_recorded(f"round/{number}")
            response = (await self._round(number, is_last=is_last)).response
            if was_answered and self._is_blocked_by(response):
                # A person has started the harness again.
                self._talk.unhear()
                continue
            match decide(response, progress, policy, self._setting.wanted):
                case UseTools(progress, problems):
                    results = await self._use_tools(number, response.message.calls, problems)
                    self._talk.said.append(Message(role=Role.TOOL, results=results))
                case Say(progress, text):
                    # On record for those who read the conversation before it has ended.
                    self._talk.say(await self._run.once(f"round/{number}/said", lambda: text, idempotent=True))
                case Finish(text, answer):
                    stop = response.stop_reason
                    return TurnOutcome(text=text, stop_reason=stop, answer=answer, tool_round_limit_reached=is_last)
                case GiveUp(stop, why, text):
                    if self._setting.is_failure(stop) and await self._run.give_up(f"round/{number}/failed", why):
                        progress, is_last = Progress(), False
                        self._talk.say(await self._begin_again(f"round/{number}/again", why))
                        continue
                    return TurnOutcome(text=text, stop_reason=stop, problem=why, tool_round_limit_reached=is_last)

    def _is_blocked_by(self, response: ModelResponse) -> bool:
        """Return whether the harness is blocked by an answer: by a refusal, unless the caller judges it as a try."""
        return response.stop_reason is StopReason.REFUSAL and not self._setting.is_try

    async def _begin_again(self, key: str, why: str) -> str:
        """Charge a further turn for a new try, unless it is on record; return what the model is told."""
        further, is_recorded = Usage(turns=1), self._is_recorded(key)

        async def begin() -> str:
            async with self._run.turn():
                self._run.charge(further)
                return AGAIN.format(why=why)

        told: str = await self._run.once(key, begin, idempotent=True)
        if is_recorded:
            self._run.recall(further)
        return told

    # model calls

    async def _round(self, number: int, *, is_last: bool) -> ModelCall:
        """Have the model answer; summarise the conversation before that if it is too long."""
        tools, options = self._tools(is_last=is_last)
        is_replayed = self._is_recorded(f"round/{number}")
        window = self._setting.policy.context_window or self._setting.client.context_window()
        why = reason_to_compact(self._talk.tokens(tools), window, self._setting.policy.compact_at)
        if self._is_recorded(f"round/{number}/summary") or (why and not self._is_recorded(f"round/{number}")):
            await self._compact(number, window or _DEFAULT_WINDOW, why)
        try:
            call = await self._ask(f"round/{number}", number, tools, options)
        except ContextTooLong as error:
            if self._is_recorded(f"round/{number}/summary"):
                raise
            fitting = min(window or _DEFAULT_WINDOW, self._talk.tokens(tools))
            await self._compact(number, fitting, f"the model refused the conversation: {error}")
            call = await self._ask(f"round/{number}", number, tools, options)
        self._talk.hear(call)
        text, kind = call.response.message.text, TurnEventKind.MESSAGE_COMPLETE
        self._run.tell(TurnEvent[Any](kind=kind, text=text, rounds=number, is_replayed=is_replayed))
        return call

    def _tools(self, *, is_last: bool) -> tuple[tuple[ToolDefinition, ...], ModelOptions]:
        """Return the tools and options of the next model call."""
        setting, options = self._setting, self._setting.options
        tools = setting.box.definitions
        if setting.wanted is not None:
            tools += (setting.wanted.definition,)
            if is_last or len(tools) == 1:
                options = evolve(options, tool_choice=ANSWER_TOOL)
        elif is_last:
            options = evolve(options, tool_choice="none")
        return tools, options

    async def _ask(self, key: str, number: int, tools: tuple[ToolDefinition, ...], options: ModelOptions) -> ModelCall:
        """Make the model call of a round, or return the recorded one."""
        provider, model = self._setting.client.models[0]
        request = ModelRequest(model=model, messages=self._talk.messages, tools=tools, options=options)
        return await self._once(key, partial(self._call, request, number), provider.id, model)

    async def _once(self, key: str, call: Callable[[], Awaitable[ModelCall]], provider: str, model: str) -> ModelCall:
        """Make a model call within a span, and put it on record."""
        run, is_recorded, before = self._run, self._is_recorded(key), self._run.recorded(key)

        async def make() -> ModelCall:
            return evolve(await call(), is_repeated=before is not None and before.outcome in OPEN)

        asked: dict[str, SpanValue] = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": provider,
            "gen_ai.request.model": model,
        }
        with run.span(f"chat {model}", asked) as span:
            made: ModelCall = await run.once(key, make, idempotent=True, verbatim=VERBATIM)
            told: dict[str, SpanValue] = {
                "gen_ai.response.model": made.response.model,
                "gen_ai.response.id": made.response.response_id,
                "gen_ai.usage.input_tokens": made.usage.input_tokens,
                "gen_ai.usage.output_tokens": made.usage.output_tokens,
            }
            span.set(**told)
        if is_recorded:
            run.recall(as_usage(made.usage, made.cost))
        return made

    async def _call(self, request: ModelRequest, number: int) -> ModelCall:
        """Make a model call within a reservation of what it may cost at most.

        Args:
            number: number of the round, for those who follow the stream; 0 for a call that is not shown.
        """
        run, client, failures = self._run, self._setting.client, self._setting.failures
        most = client.most(request)
        self._check_budget(Spend(tokens=most.tokens, money=most.money))
        tell = RoundStream(run.tell, number).tell if number and self._setting.policy.stream else None
        waits, is_answered = WaitLog(run.log, client.patience_s), False
        try:
            async with reserved(run, client, request) as meter:
                call = await client.call(request, tell=tell, failures=failures, on_wait=waits.wait, meter=meter)
                is_answered = True
                return without_own_secrets(call)
        finally:
            waits.end(is_answered=is_answered)

    def _check_budget(self, more: Spend) -> None:
        """Check that the turn may spend more.

        Raises:
            BudgetExhausted: it may not.
        """
        if self._setting.budget is None:
            return
        talk = self._talk
        spent = Spend(tokens=talk.usage.total_tokens, money=money_of(talk.cost), tool_calls=talk.tool_calls)
        for name in ("tokens", "money", "tool_calls"):
            limit, used, next_one = (getattr(of, name) for of in (self._setting.budget, spent, more))
            if limit is not None and next_one and used + next_one > limit:
                raise BudgetExhausted(
                    f"the budget of the turn is spent: limit {limit} {name}, spent {used}, {next_one} more may be needed; "
                    "raise the budget of the agent and start again"
                )

    def _is_recorded(self, key: str) -> bool:
        effect = self._run.recorded(key)
        return effect is not None and effect.outcome is EffectOutcome.CONFIRMED

    # compaction

    async def _compact(self, number: int, window: int, why: str) -> None:
        """Replace the older part of the conversation by a summary, on record with the reason."""
        key = f"round/{number}/summary"
        is_recorded = self._is_recorded(key)
        summary: Summary = await self._run.once(key, partial(self._summarise, key, window, why), idempotent=True)
        if is_recorded and summary.call is not None:
            self._run.recall(as_usage(summary.call.usage, summary.call.cost))
        self._talk.compact(summary.compaction, summary.call)
        self._run.log(f"[{summary.compaction.reason}; it was summarised]")

    async def _summarise(self, key: str, window: int, why: str) -> Summary:
        talk, call = self._talk, None
        least = talk.compactions[-1].message if talk.compactions else 1
        kept, before = first_kept(talk.said, window, least=max(least, 1)), talk.tokens(())
        replaced = talk.messages[1 : len(talk.messages) - (len(talk.said) - kept)]
        try:
            provider, model = self._setting.client.models[0]
            request = summary_request(model, replaced, window)
            call = await self._once(f"{key}/call", partial(self._call, request, 0), provider.id, model)
            text = call.response.message.text
        except AuthenticationFailed:
            raise
        except ProviderError as error:
            why = f"{why}; no summary could be made: {error}"
            text = ""
        task = talk.said[1].text if kept > 1 else ""
        words = with_task(text or dropped(replaced), task)
        after = Compaction(reason=why, summary=words, message=kept, tokens_before=before)
        shortened = Conversation(said=talk.said, compactions=[after])
        return Summary(compaction=evolve(after, tokens_after=shortened.tokens(())), call=call)

    # tool calls

    async def _use_tools(self, number: int, calls: Sequence[ToolCall], problems: Mapping[int, str]) -> tuple[ToolResult, ...]:
        """Make the calls of a round: those that change nothing side by side, the others in order beside them.

        Returns:
            Their results, in the order of the calls.
        """
        told = {at: await self._refuse(calls[at], f"round/{number}/tool/{at + 1}", problems[at]) for at in problems}
        made = [at for at in range(len(calls)) if at not in problems]
        self._check_budget(Spend(tool_calls=len(made)))
        self._talk.tool_calls += len(made)

        waiting: list[Waiting] = []

        async def use(*places: int) -> None:
            for at in places:
                async with self._limiter:
                    if waiting:
                        return
                    try:
                        told[at] = await self._use(calls[at], f"round/{number}/tool/{at + 1}", number)
                    except Waiting as error:
                        # The calls that have begun end first: one that is cut off may have happened.
                        waiting.append(error)

        is_parallel = self._setting.box.is_parallel
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(use, *(at for at in made if not is_parallel(calls[at].name)))
                for at in made:
                    if is_parallel(calls[at].name):
                        nursery.start_soon(use, at)
        except ExceptionGroup as group:
            error = find_order(group) or unwrap_group(group)
            raise error from error.__cause__
        if waiting:
            raise waiting[0]
        return tuple(told[at] for at in range(len(calls)))

    async def _refuse(self, call: ToolCall, key: str, problem: str) -> ToolResult:
        """Put it on record that a call is not made; return what the model is told."""

        def refuse() -> ToolOutcome:
            return ToolOutcome(text=problem, is_error=True)

        outcome = await self._run.once(key, refuse, idempotent=True)
        return ToolResult(call_id=call.id, name=call.name, text=outcome.text, is_error=True)

    async def _use(self, call: ToolCall, key: str, number: int) -> ToolResult:
        started = TurnEvent[Any](
            kind=TurnEventKind.TOOL_STARTED,
            text=call.arguments,
            tool=call.name,
            call_id=call.id,
            rounds=number,
            is_replayed=(is_recorded := self._is_recorded(key)),
        )
        self._run.tell(started)
        result = await self._setting.box.run(call, key)
        if is_recorded:
            self._run.recall(Usage(tool_calls=1))
        text, error = ("", result.text) if result.is_error else (result.text, "")
        self._run.tell(evolve(started, kind=TurnEventKind.TOOL_FINISHED, text=text, error=error))
        return result


def as_usage(usage: ModelUsage, cost: Decimal, tool_calls: int = 0) -> Usage:
    """Return the usage of model calls in the form that budgets charge."""
    return Usage(
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cached_tokens=usage.cached_tokens,
        tool_calls=tool_calls,
        money=money_of(cost),
    )
