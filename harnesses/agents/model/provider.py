"""`ModelProvider`: what a model provider offers, implemented by one module for each provider."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from harnesses.agents.model.messages import ModelRequest, ModelResponse, StreamEvent


class ModelProvider(Protocol):
    """A model provider. Calls run under Trio; cancelling one closes its connection.

    If it has a method `async def prepare()`, that is called before each call, before budget is reserved: do there once what
    takes long and sends nothing, such as importing an SDK.
    """

    @property
    def id(self) -> str:
        """The provider's id, such as `anthropic`; also the key of shared rate limits and of prices."""
        ...

    @property
    def account(self) -> str:
        """What separates this account's rate limits from others': base URL and a digest of the key, never the key."""
        ...

    async def complete(self, request: ModelRequest) -> ModelResponse:
        """Send a request once and return the whole answer.

        Raises:
            ProviderError: the call failed; its class says how.
        """
        ...

    def stream(self, request: ModelRequest) -> AbstractAsyncContextManager[AsyncIterator[StreamEvent]]:
        """Send a request once and iterate over the parts of the answer in order; the last one is the `ModelResponse`.

        Raises:
            ProviderError: the call failed, on entering or while iterating. A stream that ends without its response has failed.
        """
        ...
