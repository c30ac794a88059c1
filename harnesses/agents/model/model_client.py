"""`ModelClient`: makes model calls with retries, shared rate limits, fallback models and prices.

    call ──► gate of the account ──► provider ──► answer, usage, cost
                 │ closed for too long   │ failed
                 ▼                       ▼
             next model ◄────── wait, try again or raise

Invariants: a request that the provider rejects is never repeated. A call either returns one whole answer, or raises; what was
streamed of a try that failed is followed by `StreamRestarted`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from decimal import Decimal
from ipaddress import ip_address
from random import Random
from typing import Any, cast
from urllib.parse import urlsplit

import trio
from attrs import evolve, frozen

from harnesses.agents.argument_checks import SECONDS_FROM_0, Rule, check, instance_of, optional
from harnesses.agents.model.account_gate import GateClosed, OnWait, account_gate
from harnesses.agents.model.errors import AuthenticationFailed, ProviderError
from harnesses.agents.model.messages import ModelRequest, ModelResponse, ModelUsage
from harnesses.agents.model.model_tries import CallMeter, ModelTries, PricedModel, Tell, TryLimits
from harnesses.agents.model.price_table import FREE, ModelPrice, Prices, PriceTable, price_table
from harnesses.agents.model.provider import ModelProvider
from harnesses.agents.model.rate_limits import RateLimits
from harnesses.agents.model.retry_policy import RetryPolicy, is_refused_model
from harnesses.agents.model.token_estimate import estimate_tokens
from harnesses.budgets.budget import Spend
from harnesses.diagnostics.program_log import at_work
from harnesses.errors import HarnessMisuse, NotReady

MAX_OUTPUT = 128_000
"""Output tokens assumed for a request without `max_tokens` to a model of unknown size."""


@frozen(kw_only=True)
class ModelCall:
    """A finished model call."""

    response: ModelResponse
    """The answer of the model."""
    model: str
    """`provider:model`, as configured."""
    usage: ModelUsage
    """Tokens as the provider reports them, plus an upper estimate of what none has reported."""
    cost: Decimal
    """Of `usage`, in US dollars; 0 if the model has no price."""
    attempts: int
    """Requests sent, to all models."""
    waited_s: float
    """Seconds spent waiting before requests."""
    reason: str = ""
    """Why another model than the first was asked; empty if it was not."""
    is_repeated: bool = False
    """Whether an earlier attempt at it was cut off or has failed: what that has used is charged, and not part of `usage`."""


def _are_models(value: Any) -> bool:
    return isinstance(value, Sequence) and all(
        isinstance(one, tuple) and len(cast(Any, one)) == 2 and hasattr(cast(Any, one)[0], "id") for one in cast(Any, value)
    )


_MODELS = Rule("a list of (provider, model)", _are_models, "write client_for('provider:model')")
_MODEL = Rule("a model's name without spaces", lambda value: isinstance(value, str) and value.split() == [value])


class ModelClient:
    """Makes model calls.

    Args:
        models: providers and names of models: the main one first, then those to fall back on or to escalate to.
        retry: delays and number of tries.
        limits: limits of the accounts; the tightest of all clients of an account apply.
        prices: rows or a file that take precedence over the table of the package.
        timeout_s: longest wait for the next part of an answer.
        max_wait_s: longest wait of one call for an outage, a rate limit or a quota to end.
        fallback_after_s: how long an outage or a rate limit lasts until the next model is asked.
        escalate_after: failed tries after which the next model is asked; None for never.

    Raises:
        HarnessMisuse: an argument is invalid.
    """

    def __init__(
        self,
        models: Sequence[tuple[ModelProvider, str]],
        *,
        retry: RetryPolicy | None = None,
        limits: RateLimits | None = None,
        prices: Prices = None,
        timeout_s: float = 300.0,
        max_wait_s: float = 21_600.0,
        fallback_after_s: float = 60.0,
        escalate_after: int | None = 2,
    ) -> None:
        check("ModelClient", "models", models, _MODELS)
        for place, (_, name) in enumerate(models):
            check("ModelClient", f"models[{place}]", name, _MODEL)
        check("ModelClient", "retry", retry, optional(instance_of(RetryPolicy, "write retry=RetryPolicy(tries=…)")))
        check("ModelClient", "limits", limits, optional(instance_of(RateLimits, "write limits=RateLimits(concurrent=…)")))
        if not models:
            raise HarnessMisuse("ModelClient: models: expected at least one provider and model, got none; name one")
        if escalate_after is not None and (type(escalate_after) is not int or escalate_after < 1):
            raise HarnessMisuse(f"ModelClient: escalate_after: expected 1 or more tries, got {escalate_after!r}; correct it")
        for name, seconds in (("timeout_s", timeout_s), ("max_wait_s", max_wait_s), ("fallback_after_s", fallback_after_s)):
            check("ModelClient", name, seconds, SECONDS_FROM_0)
        self.models = tuple(models)
        self.prices: PriceTable = price_table(prices)
        self._models = tuple(PricedModel(provider, name, self._price(provider, name)) for provider, name in models)
        self._retry = retry or RetryPolicy()
        self._limits = limits or RateLimits()
        self._try_limits = TryLimits(timeout_s=timeout_s, max_wait_s=max_wait_s, fallback_after_s=fallback_after_s)
        self._escalate_after = escalate_after
        self._random = Random(self._retry.seed)

    def through(self, wrap: Callable[[ModelProvider], ModelProvider]) -> ModelClient:
        """Return a copy of this client whose calls go through other providers, such as a cassette's."""
        twin = copy(self)
        twin.models = tuple((wrap(provider), name) for provider, name in self.models)
        twin._models = tuple(evolve(one, provider=wrap(one.provider)) for one in self._models)
        return twin

    def asking(self, provider: ModelProvider, model: str) -> ModelClient:
        """Return a client like this one that asks another model alone."""
        other = copy(self)
        other.models = ((provider, model),)
        other._models = (PricedModel(provider, model, self._price(provider, model)),)
        return other

    def _price(self, provider: ModelProvider, model: str) -> ModelPrice | None:
        ids: tuple[str, ...] = getattr(provider, "price_ids", (provider.id,))
        found = next((price for id in ids if (price := self.prices.find(id, model)) is not None), None)
        return FREE if found is None and is_local(provider.account) else found

    @property
    def patience_s(self) -> float:
        """How long a call waits for a model that is not available, in seconds: until the next one is asked, or for good."""
        limits = self._try_limits
        return limits.max_wait_s if len(self._models) == 1 else min(limits.fallback_after_s, limits.max_wait_s)

    @property
    def unpriced(self) -> tuple[str, ...]:
        """The models without a price: a limit on money cannot be enforced for them."""
        return tuple(model.label for model in self._models if model.price is None)

    @property
    def reports(self) -> tuple[str, ...]:
        """The budget limits that can be enforced for its calls."""
        return ("tokens",) if self.unpriced else ("tokens", "money")

    @property
    def remedy(self) -> str:
        """What to do if a budget of money cannot be enforced; empty if it can be."""
        if not self.unpriced:
            return ""
        label = self.unpriced[0]
        return (
            f"model {label!r} is not in the price table of {self.prices.version}: "
            f"pass prices={{{label!r}: {{'input': …, 'output': …}}}} in US dollars per million tokens, or limit tokens instead"
        )

    def context_window(self, index: int = 0) -> int | None:
        """Return the most input tokens of a model of this client; None if unknown."""
        price = self._models[index].price
        return None if price is None else price.context

    def most(self, request: ModelRequest) -> Spend:
        """Return an upper bound of the tokens and money of a call to any of the models: what to reserve before it."""
        read = estimate_tokens(request)
        bounds = [(read + (written := _most_output(model, request)), model.price, written) for model in self._models]
        money = max(Decimal(0) if price is None else price.most(read, written) for _, price, written in bounds)
        return Spend(tokens=max(tokens for tokens, _, _ in bounds), money=money)

    async def call(
        self,
        request: ModelRequest,
        *,
        tell: Tell | None = None,
        failures: int = 0,
        on_wait: OnWait | None = None,
        owner: str = "",
        meter: CallMeter | None = None,
    ) -> ModelCall:
        """Make a model call. The model of the request is replaced by those of the client.

        Args:
            tell: called with each streamed event; must neither wait nor raise.
            failures: tries of the same work that have failed so far, for escalation.
            on_wait: called with a reason and the expected seconds before each wait.
            owner: whose turn it is at the rate limit; by default the harness that calls.
            meter: filled with what is known of the call, also when it is cut off.

        Raises:
            NotReady: an outage, a rate limit or a used-up quota lasts longer than `max_wait_s`.
            ProviderError: the call failed for another reason, on the last model that was asked.
        """
        first = 0 if self._escalate_after is None else min(failures // self._escalate_after, len(self._models) - 1)
        order = (*self._models[first:], *self._models[:first])
        reasons = [f"{failures} tries have failed"] if first else []
        meter = CallMeter() if meter is None else meter
        for left, model in enumerate(order, 1 - len(order)):
            tries = self._tries(model, request, owner or harness_at_work(), meter, tell, on_wait, has_fallback=left < 0)
            try:
                response = await tries.run()
            except (GateClosed, ProviderError) as error:
                why = _why_fall_back(model, error)
                if not left or not why:
                    if isinstance(error, ProviderError):
                        _note_failure(model, request, error)
                    raise self._final(model, error) from error
                _note_failure(model, request, error.closure.error if isinstance(error, GateClosed) else error)
                reasons.append(why)
            else:
                return ModelCall(
                    response=response,
                    model=model.label,
                    usage=meter.usage,
                    cost=meter.cost,
                    attempts=meter.attempts,
                    waited_s=meter.waited_s,
                    reason="; ".join(reasons),
                )
        raise AssertionError(order)

    def _tries(
        self,
        model: PricedModel,
        request: ModelRequest,
        owner: str,
        meter: CallMeter,
        tell: Tell | None,
        on_wait: OnWait | None,
        *,
        has_fallback: bool,
    ) -> ModelTries:
        provider = model.provider
        return ModelTries(
            model=model,
            request=request,
            tokens=estimate_tokens(request) + (request.options.max_tokens or 0),
            gate=account_gate(provider.id, provider.account, model.name, self._retry, self._limits),
            policy=self._retry,
            limits=self._try_limits,
            random=self._random,
            owner=owner,
            meter=meter,
            has_fallback=has_fallback,
            tell=tell,
            on_wait=on_wait,
        )

    def _final(self, model: PricedModel, error: GateClosed | ProviderError) -> Exception:
        if not isinstance(error, GateClosed):
            return error
        return NotReady(
            f"model {model.label!r} is not available: expected an answer within {self._try_limits.max_wait_s:g} s, "
            f"got: {error}; start again when the provider is back, or name fallback models"
        )


def _note_failure(model: PricedModel, request: ModelRequest, error: ProviderError) -> None:
    """Tell a provider that records that a call of it has failed for good; a replay needs no key."""
    note: Callable[[ModelRequest, ProviderError], None] | None = getattr(model.provider, "note_failure", None)
    if note is not None and not isinstance(error, AuthenticationFailed):
        note(evolve(request, model=model.name), error)


def _most_output(model: PricedModel, request: ModelRequest) -> int:
    size = None if model.price is None else model.price.max_output
    return request.options.max_tokens or size or MAX_OUTPUT


def harness_at_work() -> str:
    """Return the name of the harness that calls; empty outside of any."""
    fields = at_work.get()
    return "" if fields is None else str(fields().get("harness", ""))


def _why_fall_back(model: PricedModel, error: GateClosed | ProviderError) -> str:
    """Return why the next model is asked; empty if the error is about the request itself."""
    if isinstance(error, GateClosed):
        return f"{model.label}: not available for {trio.current_time() - error.closure.since:.0f} s: {error}"
    return f"{model.label}: {error}" if error.retryable or is_refused_model(error) else ""


def is_local(account: str) -> bool:
    """Return whether the base URL with which an account begins is on this machine."""
    host = urlsplit(account.split()[0] if account.split() else "").hostname or ""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
