"""`client_for`: the model client that a name, or a table of a run file, describes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from harnesses.agents.model.model_client import ModelClient
from harnesses.agents.model.price_table import Prices
from harnesses.agents.model.provider import ModelProvider
from harnesses.agents.model.providers.model_names import provider_for
from harnesses.agents.model.rate_limits import RateLimits
from harnesses.agents.model.retry_policy import RetryPolicy
from harnesses.errors import HarnessMisuse

_OF_PROVIDER = ("base_url", "key_file", "key_variable")


def client_for(
    model: str,
    *,
    base_url: str | None = None,
    key_file: Path | str | None = None,
    key_variable: str | None = None,
    fallback: Iterable[str | Mapping[str, str]] = (),
    escalate_after: int | None = 2,
    requests_per_minute: int | None = None,
    tokens_per_minute: int | None = None,
    concurrent_requests: int | None = None,
    tries: int = 3,
    prices: Prices = None,
    timeout_s: float = 300.0,
    max_wait_s: float = 21_600.0,
    fallback_after_s: float = 60.0,
) -> ModelClient:
    """Return a client for `provider:model`. Nothing is connected yet.

    Args:
        base_url, key_file, key_variable: of the model, and of those fallback models that have the same provider.
        fallback: further models: a name, or `{"model": …, "base_url": …, "key_file": …, "key_variable": …}`.
        requests_per_minute, tokens_per_minute, concurrent_requests: limits of each account for each model.
        tries: requests for one call that times out or is answered with something malformed.

    Raises:
        HarnessMisuse: an argument is invalid.
    """
    of_main: dict[str, Any] = {"base_url": base_url, "key_file": key_file, "key_variable": key_variable}
    models = [provider_for(model, **_given(of_main))]
    models += [_fallback(one, model, _given(of_main)) for one in fallback]
    limits = RateLimits(
        requests_per_minute=requests_per_minute, tokens_per_minute=tokens_per_minute, concurrent=concurrent_requests
    )
    return ModelClient(
        models,
        retry=RetryPolicy(tries=tries),
        limits=limits,
        prices=prices,
        timeout_s=timeout_s,
        max_wait_s=max_wait_s,
        fallback_after_s=fallback_after_s,
        escalate_after=escalate_after,
    )


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
