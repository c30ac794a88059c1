"""The conversation with a model: messages, requests, responses and stream events, as plain values.

    ModelRequest  = messages + tools + options ──provider──► TextDelta* ThinkingDelta* ToolCallDelta* … ModelResponse

Invariant: every value except the stream events can be stored as JSON and read back to an equal value.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import TypeAlias

from attrs import field, frozen

from harnesses.agents.argument_checks import TEXT, TEXTS, Rule, optional, validator, whole_from
from harnesses.errors import HarnessMisuse


class Role(StrEnum):
    """The author of a message."""

    SYSTEM = "system"
    """The system prompt."""
    USER = "user"
    """Text for the model, by the agent or its user."""
    ASSISTANT = "assistant"
    """An answer of the model."""
    TOOL = "tool"
    """Results of the tool calls in the message before it."""


@frozen(kw_only=True)
class Thinking:
    """A part of the model's reasoning. It is sent back unchanged in the next request of the same turn."""

    text: str = ""
    """The reasoning as text; empty if the provider does not show it."""
    proof: str = ""
    """Opaque data of the provider that proves or replaces the text. Not called a signature, which would be redacted."""


@frozen(kw_only=True)
class ToolCall:
    """A tool call that the model asks for."""

    id: str
    """Id of the call, unique within the conversation; the provider's."""
    name: str
    """Name of the tool."""
    arguments: str = "{}"
    """JSON as the model wrote it, which may be malformed."""


@frozen(kw_only=True)
class ToolResult:
    """The answer to a tool call."""

    call_id: str
    """`ToolCall.id` of the call that it answers."""
    name: str
    """Name of the tool."""
    text: str
    """The result, or the error, as the model reads it."""
    is_error: bool = False
    """Whether the call failed."""


@frozen(kw_only=True)
class Message:
    """One message. An assistant message holds its parts in this order: thinking, text, tool calls."""

    role: Role
    """Who wrote the message."""
    text: str = ""
    """Its text; may be empty."""
    thinking: tuple[Thinking, ...] = ()
    """The model's reasoning, in order; only in assistant messages."""
    calls: tuple[ToolCall, ...] = ()
    """Only in assistant messages."""
    results: tuple[ToolResult, ...] = ()
    """Only in tool messages."""


@frozen(kw_only=True)
class ToolDefinition:
    """The description of a tool that a model gets."""

    name: str
    """At most 64 characters of `[A-Za-z0-9_-]`."""
    description: str
    """What the tool does, for the model."""
    input_schema: str
    """JSON Schema of the arguments, an object."""


_TEMPERATURE = Rule("0 to 2", lambda value: isinstance(value, int | float) and 0 <= value <= 2)


@frozen(kw_only=True)
class ModelOptions:
    """Options of a request; None leaves the choice to the provider.

    Raises:
        HarnessMisuse: an option is out of range.
    """

    temperature: float | None = field(default=None, validator=validator("ModelOptions", optional(_TEMPERATURE)))
    """0.0 to 2.0."""
    max_tokens: int | None = field(default=None, validator=validator("ModelOptions", optional(whole_from(1))))
    """Maximum output tokens, above 0."""
    stop: tuple[str, ...] = field(default=(), validator=validator("ModelOptions", TEXTS))
    """Texts at which the model stops writing; OpenAI's Responses API rejects them."""
    reasoning: str | None = field(default=None, validator=validator("ModelOptions", optional(TEXT)))
    """Reasoning effort: `low`, `medium` or `high`."""
    tool_choice: str | None = field(default=None, validator=validator("ModelOptions", optional(TEXT)))
    """`auto`, `none`, `required`, or the name of a tool."""


@frozen(kw_only=True)
class ModelRequest:
    """A request to a model.

    Raises:
        HarnessMisuse: the model is blank, or there is no message.
    """

    model: str
    """The provider's name of the model."""
    messages: tuple[Message, ...] = field(converter=tuple[Message, ...])
    """The conversation, oldest message first; at least one."""
    tools: tuple[ToolDefinition, ...] = field(default=(), converter=tuple[ToolDefinition, ...])
    """The tools that the model may call."""
    options: ModelOptions = ModelOptions()
    """Temperature, output limit and the like."""
    metadata: Mapping[str, str] = field(factory=dict[str, str])
    """Ids for the provider's own records, such as a user id."""

    def __attrs_post_init__(self) -> None:
        if not self.model.strip():
            raise HarnessMisuse(f"model request: model: expected a name, got {self.model!r}; name one")
        if not self.messages:
            raise HarnessMisuse(f"model request to {self.model}: expected at least one message, got none; add one")


class StopReason(StrEnum):
    """Why a model stopped."""

    END_TURN = "end_turn"
    """The answer is complete."""
    MAX_TOKENS = "max_tokens"
    """The answer was cut off at `max_tokens`."""
    TOOL_USE = "tool_use"
    """The model waits for the results of its tool calls."""
    PAUSED = "paused"
    """The provider interrupted a long answer; the next request continues it."""
    REFUSAL = "refusal"
    """The provider's safety system, or the model, refused."""
    OTHER = "other"
    """Any other reason that the provider names."""


@frozen(kw_only=True)
class ModelUsage:
    """Tokens of one model call."""

    input_tokens: int = 0
    """All tokens read, cached ones included."""
    output_tokens: int = 0
    """All tokens written, reasoning included."""
    cached_tokens: int = 0
    """The part of `input_tokens` that was read from the provider's cache."""
    cache_write_tokens: int = 0
    """The part of `input_tokens` that was written to the provider's cache."""
    reasoning_tokens: int = 0
    """The part of `output_tokens` spent on reasoning."""
    estimated_tokens: int = 0
    """The part of all tokens that no provider has reported: an upper estimate."""

    @property
    def total_tokens(self) -> int:
        """All tokens read and written."""
        return self.input_tokens + self.output_tokens

    def __add__(self, other: ModelUsage) -> ModelUsage:
        return ModelUsage(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cached_tokens=self.cached_tokens + other.cached_tokens,
            cache_write_tokens=self.cache_write_tokens + other.cache_write_tokens,
            reasoning_tokens=self.reasoning_tokens + other.reasoning_tokens,
            estimated_tokens=self.estimated_tokens + other.estimated_tokens,
        )


@frozen(kw_only=True)
class ModelResponse:
    """The answer of a model."""

    provider: str
    """Id of the provider, such as `anthropic`."""
    model: str
    """The model that answered, as the provider names it."""
    message: Message
    """An assistant message."""
    stop_reason: StopReason
    """Why the model stopped."""
    usage: ModelUsage = ModelUsage()
    """Tokens as the provider reports them; zeros if it does not."""
    response_id: str = ""
    """The provider's id of the response; empty if it has none."""


@frozen
class TextDelta:
    """The next part of the text."""

    text: str
    """The text to append."""


@frozen
class ThinkingDelta:
    """The next part of the reasoning."""

    text: str
    """The text to append."""


@frozen
class ToolCallDelta:
    """The next part of a tool call's arguments; the first one of a call may be empty."""

    call_id: str
    """`ToolCall.id` of the call."""
    name: str
    """Name of the tool."""
    arguments: str
    """The piece of JSON to append."""


StreamEvent: TypeAlias = TextDelta | ThinkingDelta | ToolCallDelta | ModelResponse
"""An event of a streamed response. The `ModelResponse` is the last one, and comes exactly once."""


@frozen
class StreamRestarted:
    """What this response has streamed so far is superseded: the request failed in mid-stream, and is made again.

    Sent to listeners of a call; a provider never yields it.
    """

    reason: str
    """Why the request failed."""
