"""`ModelTries`: a call of one model: waits for the gate of the account, sends the request, tries again where that helps."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from decimal import Decimal
from random import Random
from typing import TypeAlias

import trio
from attrs import define, evolve, field, frozen

from harnesses.agents.model.account_gate import AccountGate, Closure, OnWait, Place
from harnesses.agents.model.errors import (
    ProviderError,
    ProviderTimeout,
    RateLimited,
    TransportFailed,
    UsageLimitReached,
)
from harnesses.agents.model.messages import (
    Message,
    ModelRequest,
    ModelResponse,
    ModelUsage,
    StreamEvent,
    StreamRestarted,
    ToolCallDelta,
)
from harnesses.agents.model.price_table import ModelPrice
from harnesses.agents.model.provider import ModelProvider
from harnesses.agents.model.retry_policy import Reaction, RetryPolicy, reaction_to
from harnesses.agents.model.sound_answer import SoundCalls, sound_answer
from harnesses.agents.model.token_estimate import estimate_text, estimate_tokens
from harnesses.diagnostics.program_log import get_logger

Tell: TypeAlias = Callable[[StreamEvent | StreamRestarted], None]
"""Called with each streamed event; must neither wait nor raise."""


Hold: TypeAlias = Callable[[bool], Awaitable[None]]
"""Called before a request waits at the gate (False), and before it is sent (True)."""


async def _hold_nothing(is_sent: bool) -> None: ...


_DEADLINE_S = 0.1
"""A deadline is moved only by more than this, since that takes time for each part of an answer."""


@frozen
class PricedModel:
    """A model of a client."""

    provider: ModelProvider
    """Sends the requests."""
    name: str
    """The provider's name of the model."""
    price: ModelPrice | None
    """Its row of the price table; None if it has none."""

    @property
    def label(self) -> str:
        """`provider:model`, for messages and records."""
        return f"{self.provider.id}:{self.name}"


@define
class CallMeter:
    """What is known of a call in progress, or of an interrupted one."""

    usage: ModelUsage = field(factory=ModelUsage)
    """Tokens as the provider reports them, plus an upper estimate of what none has reported."""
    cost: Decimal = Decimal(0)
    """Of `usage`, in US dollars; 0 if the model has no price."""
    attempts: int = 0
    """Requests sent."""
    waited_s: float = 0.0
    """Seconds spent waiting before requests."""
    hold: Hold = _hold_nothing
    """Sees to it that what the call may cost is reserved."""
    _new: tuple[ModelUsage, Decimal] = (ModelUsage(), Decimal(0))

    def add(self, model: PricedModel, usage: ModelUsage) -> None:
        """Add the tokens of a try, and their cost."""
        cost = Decimal(0) if model.price is None else model.price.cost(usage)
        self.usage, self.cost = self.usage + usage, self.cost + cost
        self._new = self._new[0] + usage, self._new[1] + cost

    def take(self) -> tuple[ModelUsage, Decimal]:
        """Return the tokens that were added since the last call of this, and their cost."""
        new, self._new = self._new, (ModelUsage(), Decimal(0))
        return new


@frozen(kw_only=True)
class TryLimits:
    """How long a call waits, in seconds."""

    timeout_s: float
    """For the next part of an answer."""
    max_wait_s: float
    """For an outage, a rate limit or a quota to end."""
    fallback_after_s: float
    """From the start of an outage or a rate limit, if there is a model to fall back on."""


@define
class _Request:
    """One request in progress."""

    model: PricedModel
    request: ModelRequest
    tell: Tell | None
    timeout_s: float
    streamed: list[str] = field(factory=list[str])

    async def send(self) -> ModelResponse:
        """Send the request once.

        Raises:
            ProviderError: it failed.
        """
        with trio.move_on_after(self.timeout_s) as scope:
            return await self._stream(scope)
        raise ProviderTimeout(
            f"{self.model.label}: the provider has not answered: expected the next part of its answer within "
            f"{self.timeout_s:g} s, got none; raise `timeout_s`, or check the provider's status page",
            provider=self.model.provider.id,
        )

    async def _stream(self, scope: trio.CancelScope) -> ModelResponse:
        response: ModelResponse | None = None
        sound: SoundCalls | None = None
        async with self.model.provider.stream(self.request) as events:
            async for event in events:
                deadline = trio.current_time() + self.timeout_s
                if deadline > scope.deadline + _DEADLINE_S:
                    scope.deadline = deadline
                if isinstance(event, ModelResponse):
                    event = response = sound_answer(self.request, event, sound)
                elif isinstance(event, ToolCallDelta):
                    sound = sound or SoundCalls(self.request)
                    event = sound.delta(event)
                if self.tell is not None:
                    self.tell(event)
                if not isinstance(event, ModelResponse):
                    self.streamed.append(event.arguments if isinstance(event, ToolCallDelta) else event.text)
        if response is None:
            raise TransportFailed(
                f"{self.model.label}: the stream has ended early: expected the whole answer, got a part of it; try again",
                provider=self.model.provider.id,
            )
        return response

    def cut_usage(self) -> ModelUsage:
        """Return an upper estimate of the tokens of a request whose answer was cut, or never came."""
        return _estimated(estimate_tokens(self.request), estimate_text("".join(self.streamed)))

    def usage_of(self, response: ModelResponse) -> ModelUsage:
        """Return the tokens of an answer: as the provider reports them, an upper estimate of what it does not report."""
        told = response.usage
        read = 0 if told.input_tokens else estimate_tokens(self.request)
        written = 0 if told.output_tokens else estimate_text(_content(response.message))
        return told + _estimated(read, written)


def _estimated(read: int, written: int) -> ModelUsage:
    return ModelUsage(input_tokens=read, output_tokens=written, estimated_tokens=read + written)


def _content(message: Message) -> str:
    return "".join((message.text, *(part.text for part in message.thinking), *(call.arguments for call in message.calls)))


@define
class ModelTries:
    """A call of one model.

    Args:
        tokens: upper estimate of its tokens.
        owner: whose turn it is at the gate.
        has_fallback: whether another model can be asked instead.
    """

    model: PricedModel
    request: ModelRequest
    tokens: int
    gate: AccountGate
    policy: RetryPolicy
    limits: TryLimits
    random: Random
    owner: str
    meter: CallMeter
    has_fallback: bool
    tell: Tell | None = None
    on_wait: OnWait | None = None
    _began: float = 0.0
    _failed: int = 0
    _answered: int | None = None
    """Answers of the account to other requests when this one last met an outage."""

    async def run(self) -> ModelResponse:
        """Return the answer.

        Raises:
            GateClosed: an outage, a rate limit or a quota lasts for too long.
            ProviderError: the call failed for another reason.
        """
        prepare: Callable[[], Awaitable[None]] | None = getattr(self.model.provider, "prepare", None)
        if prepare is not None:
            await prepare()
        self._began = trio.current_time()
        request = evolve(self.request, model=self.model.name)
        while True:
            place = await self._enter()
            one = _Request(self.model, request, self.tell, self.limits.timeout_s)
            try:
                return await self._send(one, place)
            except ProviderError as error:
                await self._recover(one, place, error)

    async def _enter(self) -> Place:
        """Wait until the request may go, with what it costs reserved: a crash before that costs nothing."""
        hold, is_open = self.meter.hold, self.gate.is_open_for(self.tokens)
        await hold(is_open)
        if is_open and not self.gate.is_open_for(self.tokens):
            await hold(False)
        since = trio.current_time()
        try:
            place = await self.gate.enter(self.owner, self.tokens, gives_up=self._gives_up, on_wait=self.on_wait)
        finally:
            self.meter.waited_s += trio.current_time() - since
        try:
            await hold(True)
        except BaseException:
            self.gate.release(place, is_sent=False)
            raise
        return place

    async def _send(self, one: _Request, place: Place) -> ModelResponse:
        self.meter.attempts += 1
        try:
            response = await one.send()
        except ProviderError:
            raise
        except BaseException:
            self.meter.add(self.model, one.cut_usage())
            self.gate.release(place, is_sent=True)
            raise
        used = one.usage_of(response)
        self.meter.add(self.model, used)
        self.gate.answer(place, used.total_tokens)
        if used.estimated_tokens and not self.gate.is_estimated:
            self.gate.is_estimated = True
            get_logger(__name__).warning("%s reports no usable token counts: they are estimated", self.model.label)
        return response

    async def _recover(self, one: _Request, place: Place, error: ProviderError) -> None:
        """Wait until the request may be tried again.

        Raises:
            ProviderError: it may not.
        """
        if one.streamed:
            self.meter.add(self.model, one.cut_usage())
        reaction = reaction_to(error, has_streamed=bool(one.streamed))
        if reaction is Reaction.FAIL:
            self.gate.answer(place, 0)
            raise error
        self.gate.fail(place, error, closes=reaction is Reaction.WAIT)
        if self._costs_try(reaction, error):
            self._failed += 1
            if self._failed >= self.policy.tries:
                raise error
        if one.streamed and self.tell is not None:
            self.tell(StreamRestarted(str(error)))
        if reaction is Reaction.TRY:
            await self._back_off(error)

    def _costs_try(self, reaction: Reaction, error: ProviderError) -> bool:
        """Return whether an error counts as a failed try: an outage does if the account answers other requests meanwhile."""
        if reaction is Reaction.TRY:
            return True
        is_outage = not isinstance(error, RateLimited)
        before, self._answered = self._answered, self.gate.answered if is_outage else None
        return is_outage and before is not None and self.gate.answered > before

    async def _back_off(self, error: ProviderError) -> None:
        delay = error.retry_after_s or self.policy.try_delay_s(self._failed, self.random)
        if self.on_wait is not None:
            self.on_wait(f"{self.model.label}: {error}", delay)
        self.meter.waited_s += delay
        await trio.sleep(delay)

    def _gives_up(self, closure: Closure) -> float:
        """Return until when to wait for a closed gate."""
        if not self.has_fallback:
            return max(closure.since, self._began) + self.limits.max_wait_s
        if isinstance(closure.error, UsageLimitReached):
            return closure.since
        return closure.since + min(self.limits.fallback_after_s, self.limits.max_wait_s)
