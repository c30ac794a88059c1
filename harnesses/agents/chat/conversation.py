"""`Conversation`: what has been said in a turn, and what the model is sent of it."""

from __future__ import annotations

from decimal import Decimal

from attrs import define, field

from harnesses.agents.model.messages import Message, ModelUsage, Role, ToolDefinition, ToolResult
from harnesses.agents.model.model_client import ModelCall
from harnesses.agents.model.token_estimate import estimate_message, estimate_text
from harnesses.agents.model.transcript import Compaction, ModelRound

NOT_MADE = "the turn ended before this call"


@define
class Conversation:
    """The messages of a turn, with those of earlier turns of its session."""

    said: list[Message]
    """What was said in this turn; the first is the system prompt, the second the task."""
    earlier: tuple[Message, ...] = ()
    """What was said in earlier turns, without system prompts."""
    rounds: list[ModelRound] = field(factory=list[ModelRound])
    """The model calls of this turn, those for summaries included."""
    compactions: list[Compaction] = field(factory=list[Compaction])
    """The summaries that replaced older messages, oldest first."""
    tool_calls: int = 0
    """Number of tool calls in this turn."""
    _known: int = 0
    """Tokens of the conversation at the last model call, as the provider counted them."""
    _since: int = 0
    """Position of the first message after that."""

    @property
    def messages(self) -> tuple[Message, ...]:
        """The messages that are sent to the model."""
        if not self.compactions:
            return (self.said[0], *self.earlier, *self.said[1:])
        last = self.compactions[-1]
        return (self.said[0], Message(role=Role.USER, text=last.summary), *self.said[last.message :])

    @property
    def usage(self) -> ModelUsage:
        """Tokens of all model calls."""
        return sum((each.usage for each in self.rounds), ModelUsage())

    @property
    def cost(self) -> Decimal:
        """Cost of all model calls, in US dollars."""
        return sum((each.cost for each in self.rounds), Decimal(0))

    def say(self, text: str) -> None:
        """Append a message to the model."""
        self.close()
        self.said.append(Message(role=Role.USER, text=text))

    def close(self) -> None:
        """Answer the calls of the last message, if it has any: no provider accepts a call without its result."""
        calls = self.said[-1].calls
        if calls:
            results = tuple(ToolResult(call_id=call.id, name=call.name, text=NOT_MADE, is_error=True) for call in calls)
            self.said.append(Message(role=Role.TOOL, results=results))

    def hear(self, call: ModelCall) -> None:
        """Append an answer of the model."""
        self._add(call)
        self.said.append(call.response.message)
        answer = call.response.usage
        # A provider that does not count what it reads does not count the conversation.
        self._known = answer.input_tokens and answer.input_tokens + answer.output_tokens
        self._since = len(self.said)

    def unhear(self) -> None:
        """Forget the last answer, so that the model is asked for it anew."""
        self.said.pop()
        self._known = 0

    def compact(self, compaction: Compaction, call: ModelCall | None) -> None:
        """Replace what was said before `compaction.message`.

        Args:
            call: the call that made the summary; None if there was none.
        """
        if call is not None:
            self._add(call)
        self.compactions.append(compaction)
        self._known = self._since = 0

    def _add(self, call: ModelCall) -> None:
        round = ModelRound(
            model=call.model,
            message=len(self.said),
            usage=call.usage,
            cost=call.cost,
            attempts=call.attempts,
            reason=call.reason,
            is_repeated=call.is_repeated,
        )
        self.rounds.append(round)

    def tokens(self, tools: tuple[ToolDefinition, ...]) -> int:
        """Return about how many input tokens the next model call has."""
        if self._known:
            return self._known + sum(map(estimate_message, self.said[self._since :]))
        defined = sum(estimate_text(tool.name + tool.description + tool.input_schema) for tool in tools)
        return defined + sum(map(estimate_message, self.messages))
