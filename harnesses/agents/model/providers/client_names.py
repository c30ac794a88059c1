"""`client_for`: the model client that a name, or a table of a run file, describes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypedDict, Unpack, cast

from harnesses.agents.argument_checks import Rule, check
from harnesses.agents.model.model_client import ModelClient
from harnesses.agents.model.price_table import Prices
from harnesses.agents.model.provider import ModelProvider
from harnesses.agents.model.providers.model_names import provider_for
from harnesses.agents.model.rate_limits import RateLimits
from harnesses.agents.model.retry_policy import RetryPolicy
from harnesses.errors import HarnessMisuse

_OF_PROVIDER = ("base_url", "key_file", "key_variable")
_NAMES = {
    "call_timeout_s": "timeout_s",
    "escalate_after": "escalate_after",
    "fallback_after_s": "fallback_after_s",
    "max_wait_s": "max_wait_s",
    "prices": "prices",
}
"""What options are called by `ModelClient`."""


_FALLBACK = Rule(
    "a list of provider:model, or of dicts with model",
    lambda value: isinstance(value, list | tuple) and all(isinstance(one, str | Mapping) for one in cast(Any, value)),
)


class ClientOptions(TypedDict, total=False):
    """Options of a model client."""

    base_url: str | None
    """Address of a server that speaks the provider's protocol, such as a model on this machine."""
    key_file: Path | str | None
    """A file with the provider's key; by default its environment variable."""
    key_variable: str | None
    """The environment variable with the provider's key, if it is another than usual."""
    fallback: Iterable[str | Mapping[str, str]]
    """Further models, to ask while the first one is not available and to escalate to: a name, whose address and key are those
    of the first model if it has the same provider, or `{"model": …, "base_url": …, "key_file": …, "key_variable": …}`."""
    escalate_after: int | None
    """Failed tries at the same work after which the next model of the list is asked, by default 2; None for never."""
    requests_per_minute: int | None
    """Limit of each account for each model."""
    tokens_per_minute: int | None
    """Limit of each account for each model; input and output."""
    concurrent_requests: int | None
    """Requests in progress at the same time, of each account for each model."""
    tries: int
    """Requests for one call that times out or is answered with something malformed; by default 3."""
    prices: Prices
    """Prices that take precedence over the table of the package: rows, or a file of them."""
    call_timeout_s: float
    """Maximum seconds without an answer, or without the next part of it."""
    max_wait_s: float
    """Maximum seconds that a call waits for an outage, a rate limit or a quota to end."""
    fallback_after_s: float
    """Seconds that an outage or a rate limit lasts until the next model is asked."""


def client_for(model: str, **options: Unpack[ClientOptions]) -> ModelClient:
    """Return a client for `provider:model`. Nothing is connected yet.

    Raises:
        HarnessMisuse: an argument is invalid.
    """
    of_main = _given({name: options.get(name) for name in _OF_PROVIDER})
    models = [provider_for(model, **of_main)]
    check(f"model {model!r}", "fallback", options.get("fallback", ()), _FALLBACK)
    models += [_fallback(one, model, of_main) for one in options.get("fallback", ())]
    limits = RateLimits(
        requests_per_minute=options.get("requests_per_minute"),
        tokens_per_minute=options.get("tokens_per_minute"),
        concurrent=options.get("concurrent_requests"),
    )
    given: dict[str, Any] = {_NAMES[name]: value for name, value in options.items() if name in _NAMES}
    retry = RetryPolicy(tries=options["tries"]) if "tries" in options else None
    return ModelClient(models, retry=retry, limits=limits, **given)


def _given(options: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


def _fallback(one: str | Mapping[str, str], main: str, of_main: dict[str, Any]) -> tuple[ModelProvider, str]:
    if isinstance(one, str):
        has_same = one.partition(":")[0] == main.partition(":")[0]
        return provider_for(one, **(of_main if has_same else {}))
    options: dict[str, Any] = {key.replace("-", "_"): value for key, value in one.items()}
    name: str | None = options.pop("model", None)
    unknown = options.keys() - set(_OF_PROVIDER)
    if name is None or unknown:
        problem = "model" if name is None else min(unknown)
        raise HarnessMisuse(
            f"fallback of model {main!r}: {problem!r} is {'missing' if name is None else 'unknown'}: "
            f"expected model and some of {', '.join(_OF_PROVIDER)}, got {', '.join(one)}; correct it"
        )
    return provider_for(name, **options)
