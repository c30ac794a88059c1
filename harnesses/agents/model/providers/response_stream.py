"""`ResponseStream`: reads a streamed answer from a connection, within time and size limits.

    connection ──chunks──► EventDecoder ──data of server-sent events──► AnswerReader ──► deltas …, ModelResponse

Invariants: the last event is the whole answer, and comes exactly once; an answer that was cut off raises. When the stream is
left early or cancelled, its connection is closed.

Server-sent events are decoded here and not by the SDKs, whose streams end silently when the connection is cut, and leave
generators to the garbage collector when they are cancelled.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Generator, Iterator
from contextlib import contextmanager, suppress
from math import inf
from typing import Any, Protocol

import trio
from attrs import define, field, frozen

from harnesses.agents.model.errors import MalformedResponse, ProviderError, ProviderTimeout, TransportFailed
from harnesses.agents.model.messages import ModelResponse, StreamEvent
from harnesses.agents.model.providers.provider_failures import shown
from harnesses.errors import HarnessMisuse

_DRAIN_S = 0.2
"""How long the end of a connection is waited for after the whole answer: then it can be used again."""
_DRAIN_CHUNKS = 16


@frozen(kw_only=True)
class CallLimits:
    """Time and size limits of one request.

    Raises:
        HarnessMisuse: one is not above 0.
    """

    connect_s: float = 10.0
    """For the connection to be made."""
    first_byte_s: float = 120.0
    """For the answer to begin, from when the request is sent."""
    between_s: float = 60.0
    """From one part of the answer to the next."""
    whole_s: float = 1_800.0
    """For the whole answer."""
    answer_bytes: int = 32 << 20
    """Maximum size of an answer, as it is sent."""

    def __attrs_post_init__(self) -> None:
        for name in ("connect_s", "first_byte_s", "between_s", "whole_s", "answer_bytes"):
            if not 0 < getattr(self, name) < inf:
                raise HarnessMisuse(f"call limits: {name}: expected above 0, got {getattr(self, name)!r}; correct it")


class AnswerReader(Protocol):
    """Reads the events of one answer in a provider's protocol."""

    @property
    def is_complete(self) -> bool:
        """Whether the whole answer has been read."""
        ...

    def read(self, data: bytes) -> Iterator[StreamEvent]:
        """Read the next event, and yield what it adds to the answer.

        Raises:
            ProviderError: the event is malformed, or says that the request failed.
        """
        ...

    def end(self) -> bool:
        """Return whether the answer is whole, now that the connection is closed without a mark of its end."""
        ...

    def finish(self) -> ModelResponse:
        """Return the whole answer; called once, when it is complete."""
        ...


class Decoder(Protocol):
    """Divides the body of an answer into events."""

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Yield the events that are complete with this chunk."""
        ...


@define
class EventDecoder:
    """Decodes server-sent events: returns their data, and ignores their names and ids. Lines end with a line feed."""

    _line: bytearray = field(factory=bytearray)
    _data: list[bytes] = field(factory=list[bytes])

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Yield the data of the events that are complete with this chunk."""
        head, feed, tail = chunk.rpartition(b"\n")
        self._line += head if feed else tail
        if not feed:
            return
        lines = bytes(self._line).split(b"\n")
        self._line = bytearray(tail)
        for line in lines:
            if line.startswith(b"data:"):
                self._data.append(line[5:].strip())
            elif line in (b"", b"\r") and self._data:
                yield b"\n".join(self._data)
                self._data.clear()


class ResponseStream:
    """An answer as it comes.

    Args:
        provider: id of the provider, for messages.
        chunks: the parts of the body.
        whole_at: when the whole answer must be there, on Trio's clock.
        decoder: divides the body into events; by default server-sent events.
    """

    def __init__(
        self,
        provider: str,
        chunks: AsyncIterator[bytes],
        reader: AnswerReader,
        limits: CallLimits,
        *,
        whole_at: float = inf,
        decoder: Decoder | None = None,
    ) -> None:
        self._provider = provider
        self._chunks = chunks
        self._reader = reader
        self._limits = limits
        self._whole_at = whole_at
        self._decoder = decoder or EventDecoder()
        self._ready: deque[StreamEvent] = deque()
        self._begin = b""
        self._bytes = self._events = 0
        self._is_over = self._is_exhausted = False

    def __aiter__(self) -> AsyncIterator[StreamEvent]:
        return self

    async def __anext__(self) -> StreamEvent:
        while not self._ready:
            if self._is_over:
                raise StopAsyncIteration
            try:
                await self._pull()
            except BaseException:
                self._is_over = True
                raise
        return self._ready.popleft()

    async def _pull(self) -> None:
        """Read the next chunk, and what it says."""
        chunk = await self._next_chunk()
        if chunk is None:
            self._is_exhausted = self._is_over = True
            if not self._reader.end():
                raise self._cut_off()
            self._ready.append(self._reader.finish())
            return
        self._bytes += len(chunk)
        self._begin = self._begin or chunk[:200]
        if self._bytes > self._limits.answer_bytes:
            raise MalformedResponse(
                f"{self._provider}: the answer is too large: expected at most {self._limits.answer_bytes} bytes, got more; "
                "lower max_tokens",
                provider=self._provider,
            )
        for data in self._decoder.feed(chunk):
            self._events += 1
            self._ready.extend(self._reader.read(data))
            if self._reader.is_complete:
                self._ready.append(self._reader.finish())
                self._is_over = True
                return

    async def _next_chunk(self) -> bytes | None:
        limits, now = self._limits, trio.current_time()
        is_first = not self._bytes
        at = now + (limits.first_byte_s if is_first else limits.between_s)
        with trio.CancelScope(deadline=min(at, self._whole_at)), translated(self._provider):
            return await anext(self._chunks, None)
        what = "the whole answer" if at > self._whole_at else "its first part" if is_first else "its next part"
        raise timed_out(self._provider, what, limits.whole_s if at > self._whole_at else at - now)

    def _cut_off(self) -> ProviderError:
        if self._bytes and not self._events:
            return MalformedResponse(
                f"{self._provider}: the answer is malformed: expected server-sent events, got "
                f"{shown(self._begin.decode(errors='replace'), 100)!r}; check the base URL",
                provider=self._provider,
            )
        return TransportFailed(
            f"{self._provider}: the answer was cut off: expected its end, got {self._events} events and a closed connection; "
            "try again",
            provider=self._provider,
        )

    async def aclose(self) -> None:
        """Close the connection, unless the whole answer has been read and it can be used again."""
        if self._is_exhausted:
            return
        # Reading within a cancelled scope ends every generator between us and the socket.
        deadline = trio.current_time() + _DRAIN_S if self._reader.is_complete else -inf
        with trio.CancelScope(deadline=deadline), suppress(Exception):
            for _ in range(_DRAIN_CHUNKS):
                if await anext(self._chunks, None) is None:
                    return
        with trio.CancelScope(deadline=-inf), suppress(Exception):
            while await anext(self._chunks, None) is not None:
                pass


def timed_out(provider: str, what: str, seconds: float) -> ProviderTimeout:
    """Return the error of an answer that has not come in time."""
    return ProviderTimeout(
        f"{provider}: the answer is late: expected {what} within {seconds:g} s, got nothing; try again, or raise the limit",
        provider=provider,
    )


@contextmanager
def translated(provider: str) -> Generator[None, None, None]:
    """Turn what the HTTP client raises while it reads into errors of model calls."""
    try:
        yield
    except (trio.Cancelled, ProviderError):
        raise
    except Exception as error:
        raise transport_failed(provider, error) from error


def transport_failed(provider: str, error: BaseException) -> ProviderError:
    """Return the error of a connection that failed."""
    cause: Any = error.__cause__ or error
    if "Timeout" in type(cause).__name__:
        return ProviderTimeout(
            f"{provider}: the connection is late: expected it in time, got {type(cause).__name__}; try again",
            provider=provider,
        )
    return TransportFailed(
        f"{provider}: the connection failed: expected an answer, got {type(cause).__name__}: {shown(str(cause))}; "
        "check the network and the base URL, or try again",
        provider=provider,
    )
