"""`SdkProvider`: what the providers have in common: a credential, an SDK's client, limits, and the errors of calls.

A subclass says how its client is made, how a request is sent, and how its answer is read.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, aclosing, asynccontextmanager
from typing import Any, ClassVar, TypeVar, cast

import msgspec
import trio

from harnesses.agents.model.errors import AuthenticationFailed, MalformedResponse, ProviderError
from harnesses.agents.model.messages import ModelRequest, ModelResponse, StreamEvent
from harnesses.agents.model.providers.credentials import NO_KEY, Credential
from harnesses.agents.model.providers.provider_failures import Failure, error_of, resets_at
from harnesses.agents.model.providers.response_stream import (
    AnswerReader,
    CallLimits,
    ResponseStream,
    timed_out,
    transport_failed,
)
from harnesses.agents.model.providers.sdk_clients import sdk_client
from harnesses.agents.model.providers.server_address import checked_url, is_served_by
from harnesses.timing.clock import now_s


class SdkProvider(ABC):
    """A provider whose requests a vendor's SDK sends.

    Args:
        key: the credential. By default the vendor's own server is sent that of the environment, `key_variable` or the file
            that `<key_variable>_FILE` names; another server is sent none.
        base_url: the server; by default the vendor's. The environment does not choose it.
        limits: time and size limits of a request.
        id: the provider's id, if it is another server with the same protocol.
        needs_key: whether a call without a key fails at once; by default if one is expected.

    Raises:
        HarnessMisuse: `base_url` is none.
    """

    default_id: ClassVar[str]
    vendor_id: ClassVar[str]
    """The id of the vendor's own server: its models have the same prices and limits in each protocol."""
    key_variable: ClassVar[str]
    default_url: ClassVar[str]

    def __init__(
        self,
        *,
        key: Credential | None = None,
        base_url: str | None = None,
        limits: CallLimits | None = None,
        id: str | None = None,
        needs_key: bool | None = None,
    ) -> None:
        self.base_url = self.default_url if base_url is None else checked_url(base_url, id or self.default_id)
        """The server."""
        self.is_vendor = is_served_by(self.base_url, self.default_url)
        """Whether it is the vendor's own."""
        self.id = id or (self.vendor_id if self.is_vendor else self.default_id)
        self._key = Credential.of(self.key_variable) if key is None and self.is_vendor else key
        self._limits = limits or CallLimits()
        self._needs_key = self._key is not None if needs_key is None else needs_key

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id!r} at {self.base_url}>"

    @property
    def account(self) -> str:
        """The server and a digest of the key."""
        digest = "" if self._key is None else self._key.digest
        return f"{self.base_url} {digest}" if digest else self.base_url

    @property
    def price_ids(self) -> tuple[str, ...]:
        """The ids under which its models may have prices, the first one first."""
        return (self.default_id, self.id) if self.id == self.vendor_id else (self.id,)

    @property
    def key_name(self) -> str:
        """Where its key comes from; empty without one."""
        return "" if self._key is None else self._key.name

    @property
    def key_problem(self) -> str:
        """Why its key cannot be used; empty if it can be, or if there is none."""
        try:
            if self._key is not None:
                self._key.reveal()
        except AuthenticationFailed as error:
            return str(error)
        return ""

    @property
    def has_key(self) -> bool:
        """Whether a call can be made: there is a valid key, or none is needed."""
        return not self._needs_key or (self._key is not None and self._key.is_set)

    async def prepare(self) -> None:
        """Import the SDK and make its client, unless that is done: it takes seconds, in which no budget should be reserved."""
        if self.has_key:
            async with self._client():
                pass

    async def complete(self, request: ModelRequest) -> ModelResponse:
        """See `ModelProvider.complete`. The answer is streamed all the same, so that all time limits hold."""
        async with self.stream(request) as events:
            async for event in events:
                if isinstance(event, ModelResponse):
                    return event
        raise AssertionError("a stream ends with its response, or raises")

    @asynccontextmanager
    async def stream(self, request: ModelRequest) -> AsyncGenerator[AsyncIterator[StreamEvent], None]:
        """See `ModelProvider.stream`."""
        limits = self._limits
        whole_at = trio.current_time() + limits.whole_s
        reader = self._reader(request)
        async with AsyncExitStack() as stack:
            client = await stack.enter_async_context(self._client())
            response = await self._begin(stack, self._send(client, request), min(limits.first_byte_s, limits.whole_s))
            chunks = cast(AsyncIterator[bytes], response.iter_bytes())
            async with aclosing(ResponseStream(self.id, chunks, reader, limits, whole_at=whole_at)) as events:
                yield events

    async def _begin(self, stack: AsyncExitStack, sending: AbstractAsyncContextManager[Any], within_s: float) -> Any:
        """Send a request and return its response, whose body has not been read."""
        with trio.CancelScope(deadline=trio.current_time() + within_s):
            try:
                return await stack.enter_async_context(sending)
            except ProviderError:
                raise
            except Exception as error:
                raise self._failure(error) from error
        raise timed_out(self.id, "an answer to begin", within_s)

    def _failure(self, error: Exception) -> Exception:
        """Return the error of a call that the SDK has failed with."""
        response: Any = getattr(error, "response", None)
        status = getattr(error, "status_code", None)
        if response is None or not isinstance(status, int):
            is_ours = type(error).__module__.partition(".")[0] in ("anthropic", "openai", "httpx2", "httpcore2")
            return transport_failed(self.id, error) if is_ours else error
        body = as_mapping(getattr(error, "body", None))
        said = as_mapping(body.get("error")) or body
        return error_of(
            Failure(
                provider=self.id,
                message=str(said.get("message") or getattr(error, "message", "") or error),
                status=status,
                kinds=kinds_of(said),
                headers={name.lower(): value for name, value in response.headers.items()},
                resets_at=resets_at(said, now_s()),
                has_key=self._key is not None,
            ),
            now_s(),
        )

    def _client(self) -> AbstractAsyncContextManager[Any]:
        key = NO_KEY if self._key is None or not (self._needs_key or self._key.is_set) else self._key.reveal()
        return sdk_client(self.default_id, self.account, lambda: self._make_client(key))

    @abstractmethod
    def _make_client(self, key: str) -> Any:
        """Import the SDK and return its client, without retries of its own. Called in a worker thread."""

    def _connect(self, sdk: Any, make: Callable[..., Any], key: str) -> Any:
        """Return an SDK's client, which follows no redirect, and tells a foreign server nothing of the environment."""
        timeout = sdk.Timeout(None, connect=self._limits.connect_s)
        http = sdk.DefaultAsyncHttpxClient(base_url=self.base_url, timeout=timeout, follow_redirects=False)
        client = make(api_key=key, base_url=self.base_url, max_retries=0, timeout=timeout, http_client=http)
        if not self.is_vendor:
            # What the SDKs read by themselves: ANTHROPIC_CUSTOM_HEADERS, OPENAI_CUSTOM_HEADERS, _ORG_ID and _PROJECT_ID.
            client._custom_headers = {}
            client.organization = client.project = None
        return client

    @abstractmethod
    def _send(self, client: Any, request: ModelRequest) -> AbstractAsyncContextManager[Any]:
        """Return the context manager that sends a request and yields its streamed response."""

    @abstractmethod
    def _reader(self, request: ModelRequest) -> AnswerReader:
        """Return what reads the answer."""


T = TypeVar("T")


def decoded(decoder: msgspec.json.Decoder[T], data: bytes, provider: str) -> T:
    """Return an event of a stream.

    Raises:
        MalformedResponse: it is none of the provider's protocol.
    """
    try:
        return decoder.decode(data)
    except (msgspec.DecodeError, RecursionError) as error:
        raise MalformedResponse(
            f"{provider}: the answer is malformed: expected an event of its protocol, got {error}; try again",
            provider=provider,
        ) from error


def as_mapping(value: object) -> dict[str, Any]:
    """Return an object of JSON; {} for anything else."""
    return cast(dict[str, Any], value) if isinstance(value, dict) else {}


def kinds_of(said: dict[str, Any]) -> tuple[str, ...]:
    """Return the code and the type of an error's body."""
    return tuple(str(said[name]) for name in ("code", "type") if said.get(name))
