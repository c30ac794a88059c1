"""`ModelAgent`: an agent that asks a model, lets it use tools, and answers with what it says.

    agent = ModelAgent("anthropic:claude-sonnet-4-5", tools=[lookup], system="You trade carefully.", answer=Decision)
    decision = await self.run_agent(agent, market)

Invariant: a turn that a crash interrupted continues after its last finished model or tool call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias, Unpack, cast

import trio
from attrs import evolve, fields

from harnesses.agent import Agent, AgentRun, unheld
from harnesses.agents.argument_checks import NAME, PATH, SECONDS, TEXT, Rule, check, instance_of, optional
from harnesses.agents.chat.chat_policy import ChatPolicy
from harnesses.agents.chat.conversation import Conversation
from harnesses.agents.chat.errors import AnswerCutOff, AnswerEmpty, AnswerInvalid, AnswerRefused, TurnFailed
from harnesses.agents.chat.first_request import system_message, task_message
from harnesses.agents.chat.turn import FirstRequest, Turn, TurnOutcome, TurnSetting, as_usage
from harnesses.agents.chat.turn_input import TurnTask, check_own_record, hash_task, read_task
from harnesses.agents.chat.typed_answer import AnswerType
from harnesses.agents.model.cassette import Cassette
from harnesses.agents.model.messages import ModelOptions, StopReason
from harnesses.agents.model.model_client import ModelClient
from harnesses.agents.model.providers.client_names import ClientOptions, client_for
from harnesses.agents.model.providers.model_names import provider_for
from harnesses.agents.model.token_estimate import estimate_text
from harnesses.agents.model.transcript import Transcript, as_record, carried_on, from_record
from harnesses.agents.sandbox import Sandbox, as_sandbox
from harnesses.agents.tools.function_tool import function_tool
from harnesses.agents.tools.recorded_tools import recorded_tools
from harnesses.agents.tools.tool import Tool, ToolSetting, ToolSource
from harnesses.agents.tools.tool_policy import ToolPolicy
from harnesses.agents.tools.tool_runner import open_tools
from harnesses.budgets.budget import UNLIMITED, Budget
from harnesses.errors import BudgetExhausted, HarnessMisuse
from harnesses.features.agent_text import last_fence
from harnesses.features.feature import TurnResult
from harnesses.features.feature_record import Assignment
from harnesses.turn_events import TurnEvent

MAX_TOKENS = 8_192
"""Maximum output tokens of a model call, unless the options say otherwise."""
_NEW_DIRECTORY = "The working directory is new: changes that you made in earlier tries are not in it."
_TOOLS = "functions, tools and servers of tools"
_OF_CALLS = {each.name for each in fields(ModelOptions)}
AnyTool: TypeAlias = Tool | ToolSource | Callable[..., Any]


class ModelAgentOptions(ClientOptions, total=False):
    """Further options of a `ModelAgent`."""

    cassette: Cassette | Path | str | None
    """A recording of answers; a path is replayed, unless there is a key for the model."""
    options: ModelOptions
    """Temperature, maximum output tokens and the like; by default at most `MAX_TOKENS`."""
    chat: ChatPolicy
    """The limits of a turn."""
    max_rounds: int
    """Short for `ChatPolicy.max_rounds`."""
    stream: bool
    """Short for `ChatPolicy.stream`."""
    session: str | None
    """Name of a conversation that goes on over all calls of the agent in a harness; empty if each call stands alone."""
    directory: Path | str | None
    """Where its tools work, if the input does not say."""
    sandbox: Sandbox | Literal["bwrap"] | None
    """The sandbox for commands and servers that its tools start; no turn begins below the level that it demands."""
    tool_timeout_s: float
    """Maximum seconds of a tool call, for tools that have no limit of their own."""


_RULES: Mapping[str, Rule] = {
    "system": TEXT,
    "name": NAME,
    "policy": optional(instance_of(ToolPolicy, "write policy=ToolPolicy(allow=[…])")),
    "budget": optional(instance_of(Budget, "write budget=Budget(tokens=…)")),
    "options": optional(instance_of(ModelOptions, "write options=ModelOptions(temperature=…)")),
    "chat": instance_of(ChatPolicy, "write chat=ChatPolicy(max_rounds=…)"),
    "session": optional(TEXT),
    "directory": optional(PATH),
    "tool_timeout_s": SECONDS,
    "cassette": optional(Rule("a Cassette or a path", lambda value: isinstance(value, Cassette) or PATH.holds(value))),
}


class ModelAgent(Agent[Any, Any, Any]):
    """An agent that asks a model, and lets it use tools.

    The input is any storable value, or an `Assignment`, whose prompt, directory and session are used. The answer is the
    model's text; a value of the type `answer`; or for an `Assignment` a `TurnResult`.

    Args:
        model: `provider:model`, or a client.
        tools: functions, tools, or sources of tools such as `McpServer`.
        system: system prompt, before the objective and the constraints of the harness.
        answer: type of the answer, which the model is asked for until it fits; None for text.
        policy: which tool calls are made, need approval, or are denied.
        budget: the most that one turn may spend in tokens, money and tool calls, in addition to the harness's own budget.
        name: the agent's name, part of the keys of its records: do not change it while a turn is in progress.

    Raises:
        HarnessMisuse: an argument is invalid.
    """

    charges_turns = True

    def __init__(
        self,
        model: str | ModelClient,
        *,
        tools: Iterable[AnyTool] = (),
        system: str = "",
        answer: Any = None,
        policy: ToolPolicy | None = None,
        budget: Budget | None = None,
        name: str = "model",
        **options: Unpack[ModelAgentOptions],
    ) -> None:
        if unknown := options.keys() - ModelAgentOptions.__annotations__.keys():
            known = ", ".join(ModelAgentOptions.__annotations__)
            hint = f"write options=ModelOptions({own[0]}=…)" if (own := sorted(unknown & _OF_CALLS)) else "correct it"
            raise HarnessMisuse(f"ModelAgent: unknown option {min(unknown)!r}: expected some of {known}; {hint}")
        given_all = {"system": system, "policy": policy, "budget": budget, "name": name, **options}
        for argument, rule in _RULES.items():
            if argument in given_all:
                check("ModelAgent", argument, given_all[argument], rule)
        self.client = _client_of(model, options)
        """What makes the model calls."""
        self._other: tuple[str, ModelClient] | None = None
        super().__init__(self._take_turn, name=name, reports=(*self.client.reports, "tool_calls"))
        self.remedy = self.client.remedy
        self._tools: Sequence[Tool | ToolSource] = _tools_of(tools)
        cassette = _cassette_of(options)
        if cassette is not None and cassette.is_used_for(self.client.models):
            self.client = self.client.through(cassette.provider)
            self._tools = recorded_tools(cassette, self._tools)
        self._system, self._policy, self._budget, self._more = system, policy, _checked(budget), options
        self._wanted = None if answer is None or answer is str else AnswerType.of(answer)
        self._chat = _chat_of(options)
        self._sandbox = as_sandbox(options.get("sandbox"), "ModelAgent")
        directory = options.get("directory")
        self._directory = None if directory is None else Path(directory).absolute()
        given = options.get("options") or ModelOptions()
        self._options = given if given.max_tokens is not None else evolve(given, max_tokens=MAX_TOKENS)

    def client_for(self, run: AgentRun[Any, Any]) -> ModelClient:
        """Return what makes the model calls of a turn: its own client, unless the run asks for another model.

        Raises:
            HarnessMisuse: no such provider is known, or the budget of a turn limits money and the model has no price.
        """
        wanted = run.model_override
        if not wanted:
            return self.client
        if self._other is None or self._other[0] != wanted:
            self._other = wanted, self._asking(wanted)
        other = self._other[1]
        asked = Agent[Any, Any, Any](self._take_turn, name=self.name, reports=(*other.reports, "tool_calls"))
        asked.remedy = other.remedy
        if why := unheld([asked], run.limits.min(self._budget or UNLIMITED)):
            raise HarnessMisuse(f"agent {self.name!r}: {why}")
        return other

    def _asking(self, wanted: str) -> ModelClient:
        provider, _ = self.client.models[0]
        of, colon, model = wanted.partition(":")
        is_own = not colon or of == provider.id
        return self.client.asking(*((provider, model or wanted) if is_own else provider_for(wanted)))

    async def _take_turn(self, run: AgentRun[Any, Any]) -> Any:
        task, more = read_task(run.input), self._more
        self.client_for(run)  # A model that cannot be asked is refused before anything is on record.
        directory = task.directory or self._directory
        setting = ToolSetting(
            run=run, directory=directory, writable=task.writable, readable=task.readable, sandbox=self._sandbox
        )
        if self._sandbox is not None:
            await trio.to_thread.run_sync(self._sandbox.check)
        limits = {"timeout_s": more["tool_timeout_s"]} if "tool_timeout_s" in more else {}
        async with open_tools(self._tools, setting, self._policy, **limits) as box:

            async def begin() -> FirstRequest:
                async with run.turn():
                    return self._first_request(run, task)

            first: FirstRequest = await run.once("request", begin, idempotent=True)
            check_own_record(run, task, first.asked, self.name)
            talk = Conversation(list(first.messages), first.earlier)
            outcome = await self._finish(Turn(run, self._turn_setting(run, box), talk), run, first, talk)
        result = self._answer(run.input, first, talk, outcome)
        run.tell(TurnEvent[Any].complete(result))
        return result

    async def _finish(self, turn: Turn, run: AgentRun[Any, Any], first: FirstRequest, talk: Conversation) -> TurnOutcome:
        """Take the turn to its end, and attach its transcript to the step."""
        stop, error = "", ""
        try:
            outcome = await turn.take()
            stop, error = outcome.stop_reason.value, outcome.problem
        except BudgetExhausted:
            # The turn goes on once the budget is raised.
            raise
        except Exception as trouble:
            error = f"{type(trouble).__name__}: {trouble}"
            raise
        finally:
            if stop or error:
                talk.close()
                run.attach("transcript", as_record(self._transcript(run, first, talk, stop, error)))
        return outcome

    def _transcript(
        self, run: AgentRun[Any, Any], first: FirstRequest, talk: Conversation, stop: str, error: str
    ) -> Transcript:
        provider, model = self.client_for(run).models[0]
        return Transcript(
            agent=self.name,
            model=f"{provider.id}:{model}",
            messages=tuple(talk.said),
            scope=run.scope,
            session=first.session,
            turn=first.turn,
            work=first.work,
            stop_reason=stop,
            error=error,
            rounds=tuple(talk.rounds),
            compactions=tuple(talk.compactions),
        )

    def _first_request(self, run: AgentRun[Any, Any], task: TurnTask) -> FirstRequest:
        asked, system = hash_task(task), system_message(self._system, task.objective, run.constraints)
        given = self._more.get("session")
        session = task.session if given is None else given
        turns = tuple(map(from_record, run.session(session))) if session else ()
        earlier = carried_on(turns, task.work)
        if earlier and task.is_new_directory:
            task = evolve(task, prompt=f"{task.prompt}\n\n{_NEW_DIRECTORY}")
        message = task_message(task, run.context, run.step_number, self._chat.context_tokens, estimate_text)
        return FirstRequest(
            messages=(system, message),
            session=session,
            turn=turns[-1].turn + 1 if turns else 1,
            earlier=earlier,
            work=task.work,
            asked=asked,
        )

    def _turn_setting(self, run: AgentRun[Any, Any], box: Any) -> TurnSetting:
        return TurnSetting(
            client=self.client_for(run),
            policy=self._chat,
            box=box,
            options=self._options,
            wanted=self._wanted,
            failures=run.input.turn - 1 if isinstance(run.input, Assignment) else 0,
            budget=self._budget,
            is_try=self._is_try(run.input),
        )

    def _is_try(self, input: object) -> bool:
        return isinstance(input, Assignment) and self._wanted is None

    def _answer(self, input: object, first: FirstRequest, talk: Conversation, outcome: TurnOutcome) -> Any:
        """Return the answer of the agent.

        Raises:
            TurnFailed: there is none.
        """
        if outcome.problem and not (self._is_try(input) and outcome.stop_reason is not StopReason.OTHER):
            raise _error_of(outcome)(f"agent {self.name!r}: {outcome.problem}", session=first.session or None)
        if isinstance(input, Assignment) and self._wanted is None:
            return TurnResult(
                message=outcome.text,
                # Without a directory, the work is a text: what the answer has in its last fence.
                artifact=None if input.directory is not None else last_fence(outcome.text),
                session=first.session or None,
                stop_reason=outcome.stop_reason.value,
                tokens=talk.usage.total_tokens,
                usage=as_usage(talk.usage, talk.cost, talk.tool_calls),
                sandbox="" if self._sandbox is None else self._sandbox.describe(),
            )
        return outcome.text if self._wanted is None else outcome.answer


def _client_of(model: str | ModelClient, options: ModelAgentOptions) -> ModelClient:
    """Return the client for a model and those to fall back on. Nothing is connected yet."""
    given = {name: value for name, value in options.items() if name in ClientOptions.__annotations__}
    if isinstance(model, str):
        return client_for(model, **cast(ClientOptions, given))
    check("ModelAgent", "model", model, Rule("provider:model or a ModelClient", lambda value: isinstance(value, ModelClient)))
    if given:
        raise HarnessMisuse(f"ModelAgent: {min(given)}: expected none beside a ModelClient, got one; give it to the client")
    return model


def _cassette_of(options: ModelAgentOptions) -> Cassette | None:
    given = options.get("cassette")
    return given if given is None or isinstance(given, Cassette) else Cassette.auto(given)


def _tools_of(given: Any) -> list[Tool | ToolSource]:
    """Return the tools and sources of tools that the argument `tools` means."""
    if callable(given) or isinstance(given, str | Mapping) or not isinstance(given, Iterable):
        name = getattr(cast(object, given), "__name__", "")
        do = f"write [*{name}()] for what it returns, [{name}] for itself" if name else "write [*coding_tools()], [tool]"
        raise HarnessMisuse(f"ModelAgent: tools: expected a list of {_TOOLS}, got {given!r:.100}; {do}")
    return [_as_tool(one, f"ModelAgent: tools[{at}]") for at, one in enumerate(cast("Iterable[object]", given))]


def _as_tool(given: object, subject: str) -> Tool | ToolSource:
    if not isinstance(given, type):
        if hasattr(given, "invoke") or hasattr(given, "open"):
            return cast(Tool | ToolSource, given)
        if callable(given):
            return function_tool(given)
    if isinstance(given, type):
        do = f"write {given.__name__}(…)"
    elif isinstance(given, list | tuple):
        do = "unpack it with *, as in [*coding_tools()]"
    elif isinstance(given, str):
        do = f"write *{given}_tools() without quotes" if given in ("coding", "trading") else "pass the function, not its name"
    else:
        do = "correct it"
    raise HarnessMisuse(f"{subject}: expected one of {_TOOLS}, got {given!r:.100}; {do}")


def _chat_of(options: ModelAgentOptions) -> ChatPolicy:
    """Return the limits of a turn, with those that are given by themselves."""
    names = {each.name for each in fields(ChatPolicy)}
    given: dict[str, Any] = {name: value for name, value in options.items() if name in names}
    return evolve(options.get("chat") or ChatPolicy(), **given)


def _checked(budget: Budget | None) -> Budget | None:
    """Refuse a budget of a turn with limits that are not those of a turn."""
    if budget is not None:
        for name in ("steps", "turns", "working_time_s"):
            if getattr(budget, name) is not None:
                raise HarnessMisuse(
                    f"ModelAgent: budget: expected limits of tokens, money and tool_calls, got {name} too; "
                    "limit that in the budget of the harness"
                )
    return budget


def _error_of(outcome: TurnOutcome) -> type[TurnFailed]:
    by_reason = {
        StopReason.REFUSAL: AnswerRefused,
        StopReason.MAX_TOKENS: AnswerCutOff,
        StopReason.PAUSED: AnswerCutOff,
        StopReason.END_TURN: AnswerEmpty,
    }
    return by_reason.get(outcome.stop_reason, AnswerInvalid)
