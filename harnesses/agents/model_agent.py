"""`ModelAgent`: an agent that asks a model, lets it use tools, and answers with what it says.

    agent = ModelAgent("anthropic:claude-sonnet-4-5", tools=[lookup], system="You trade carefully.", answer=Decision)
    decision = await self.run_agent(agent, market)

Invariant: a turn that was cut off by a crash is taken up at its last finished model or tool call.
"""

from __future__ import annotations

from typing import Any

from attrs import evolve

from harnesses.agent import Agent, AgentRun
from harnesses.agents.chat.chat_policy import ChatPolicy
from harnesses.agents.chat.errors import AnswerCutOff, AnswerInvalid, AnswerRefused, TurnFailed
from harnesses.agents.chat.first_request import system_message, task_message
from harnesses.agents.chat.turn import FirstRequest, NoTools, Turn, TurnOutcome, TurnSetting, as_usage
from harnesses.agents.chat.turn_input import TurnTask, read_task
from harnesses.agents.chat.typed_answer import AnswerType
from harnesses.agents.model.messages import ModelOptions, StopReason
from harnesses.agents.model.model_client import ModelClient
from harnesses.agents.model.token_estimate import estimate_text
from harnesses.features.feature import TurnResult
from harnesses.features.feature_record import Assignment
from harnesses.turn_events import TurnEvent

MAX_TOKENS = 8_192
"""Maximum output tokens of a model call, unless the options say otherwise."""


class ModelAgent(Agent[Any, Any, Any]):
    """An agent that asks a model."""

    def __init__(
        self,
        client: ModelClient,
        *,
        system: str = "",
        answer: Any = None,
        options: ModelOptions | None = None,
        chat: ChatPolicy | None = None,
        name: str = "",
    ) -> None:
        options = options or ModelOptions()
        self._options = options if options.max_tokens is not None else evolve(options, max_tokens=MAX_TOKENS)
        self._client = client
        self._system = system
        self._wanted = None if answer is None or answer is str else AnswerType.of(answer)
        self._chat = chat or ChatPolicy()
        super().__init__(self._turn, name=name or client.models[0][1], reports=(*client.reports, "tool_calls"))
        self.remedy = client.remedy

    async def _turn(self, run: AgentRun[Any, Any]) -> Any:
        task = read_task(run.input)

        def begin() -> FirstRequest:
            return self._first_request(run, task)

        first = await run.once("request", begin, idempotent=True)
        outcome = await Turn(run, self._setting(run), first).take()
        result = self._answer(run.input, outcome)
        run.tell(TurnEvent[Any].complete(result))
        return result

    def _first_request(self, run: AgentRun[Any, Any], task: TurnTask) -> FirstRequest:
        system = system_message(self._system, task.objective, run.constraints)
        message = task_message(task, run.context, run.step_number, self._chat.context_tokens, estimate_text)
        return FirstRequest(messages=(system, message))

    def _setting(self, run: AgentRun[Any, Any]) -> TurnSetting:
        failures = run.input.turn - 1 if isinstance(run.input, Assignment) else 0
        return TurnSetting(
            client=self._client,
            policy=self._chat,
            box=NoTools(),
            options=self._options,
            wanted=self._wanted,
            failures=failures,
        )

    def _answer(self, input: object, outcome: TurnOutcome) -> Any:
        """Return the answer of the agent.

        Raises:
            TurnFailed: there is none.
        """
        is_assignment = isinstance(input, Assignment) and self._wanted is None
        if outcome.problem and not (is_assignment and outcome.stop_reason is not StopReason.OTHER):
            raise _error_of(outcome)(f"agent {self.name!r}: {outcome.problem}")
        if is_assignment:
            return TurnResult(
                message=outcome.text,
                stop_reason=outcome.stop_reason.value,
                tokens=outcome.usage.total_tokens,
                usage=as_usage(outcome.usage, outcome.cost, outcome.tool_calls),
            )
        return outcome.text if self._wanted is None else outcome.answer


def _error_of(outcome: TurnOutcome) -> type[TurnFailed]:
    by_reason = {StopReason.REFUSAL: AnswerRefused, StopReason.MAX_TOKENS: AnswerCutOff}
    return by_reason.get(outcome.stop_reason, AnswerInvalid)
