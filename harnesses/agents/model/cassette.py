"""`Cassette`: records the model and tool calls of a run in a file, and replays them offline.

    agent = ModelAgent("anthropic:claude-…", cassette=Cassette.record("turn.jsonl"))     calls the model and records it
    agent = ModelAgent("anthropic:claude-…", cassette=Cassette.replay("turn.jsonl"))     answers from the file

Invariants: a replayed run connects to nothing and needs no key and no SDK. A request that was not recorded raises, with the
nearest recorded one and the difference. Identical requests are answered in the order of the recording.

What a call returned in the end is recorded, its failure too if it failed for good: a replay goes on as the run did.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager
from enum import StrEnum
from pathlib import Path
from typing import Any, cast

import msgspec
import trio
from attrs import frozen

from harnesses.agents.argument_checks import PATH, PATTERNS, TEXTS, check, optional
from harnesses.agents.model import errors
from harnesses.agents.model.cassette_file import CassetteFile, CassetteMiss, Json
from harnesses.agents.model.errors import ProviderError
from harnesses.agents.model.messages import (
    ModelRequest,
    ModelResponse,
    StreamEvent,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
)
from harnesses.agents.model.provider import ModelProvider
from harnesses.errors import HarnessMisuse

__all__ = ["Cassette", "CassetteMiss", "CassetteMode"]


class CassetteMode(StrEnum):
    """What a cassette does."""

    REPLAY = "replay"
    """Answer from the file."""
    RECORD = "record"
    """Call the model and the tools, and append to the file."""
    AUTO = "auto"
    """Replay, unless there is a key for the model: then call it, and record nothing."""


class Cassette:
    """A recording of model and tool calls. Several agents and harnesses may share one.

    Args:
        path: the file.
        ignored: regular expressions of what differs from run to run, such as paths of temporary folders, with what replaces
            it. It is replaced in what is recorded, and in what is looked up.
        live: names of tools that are called in a replay too, besides those that only change files: commands that write some.

    Raises:
        HarnessMisuse: there is no such mode.
    """

    def __init__(
        self,
        path: Path | str,
        mode: CassetteMode | str = CassetteMode.REPLAY,
        *,
        ignored: Mapping[str, str] | None = None,
        live: Iterable[str] = (),
    ) -> None:
        for name, value, rule in (("path", path, PATH), ("live", live, TEXTS), ("ignored", ignored, optional(PATTERNS))):
            check("cassette", name, value, rule)
        self.path = Path(path)
        if mode not in set(CassetteMode):
            modes = ", ".join(CassetteMode)
            raise HarnessMisuse(f"cassette {path}: mode: expected one of {modes}, got {mode!r:.100}; correct it")
        self.mode = CassetteMode(mode)
        self.live = frozenset(live)
        self._file = CassetteFile(self.path, dict(ignored or {}))

    def __repr__(self) -> str:
        return f"<Cassette {self.path} {self.mode}>"

    @classmethod
    def record(cls, path: Path | str, *, ignored: Mapping[str, str] | None = None, live: Iterable[str] = ()) -> Cassette:
        """Return a cassette that records. It appends: delete the file to record anew."""
        return cls(path, CassetteMode.RECORD, ignored=ignored, live=live)

    @classmethod
    def replay(cls, path: Path | str, *, ignored: Mapping[str, str] | None = None, live: Iterable[str] = ()) -> Cassette:
        """Return a cassette that answers from its file."""
        return cls(path, CassetteMode.REPLAY, ignored=ignored, live=live)

    @classmethod
    def auto(cls, path: Path | str, *, ignored: Mapping[str, str] | None = None, live: Iterable[str] = ()) -> Cassette:
        """Return a cassette that replays, unless there is a key for the model."""
        return cls(path, CassetteMode.AUTO, ignored=ignored, live=live)

    def is_used_for(self, models: Iterable[tuple[ModelProvider, str]]) -> bool:
        """Return whether to record or replay: always, except that `auto` is not used for models that all have a key.

        Args:
            models: providers with the names of their models. A provider that does not tell whether it has a key has one.
        """
        return self.mode is not CassetteMode.AUTO or not all(getattr(provider, "has_key", True) for provider, _ in models)

    @property
    def is_replaying(self) -> bool:
        """Whether answers come from the file, when it is used."""
        return self.mode is not CassetteMode.RECORD

    def provider(self, provider: ModelProvider) -> ModelProvider:
        """Return a provider whose calls are recorded or replayed."""
        return _Replaying(provider, self._file) if self.is_replaying else _Recording(provider, self._file)

    def add(self, asked: object, answered: object) -> None:
        """Record an exchange."""
        self._file.add(asked, answered)

    def take(self, asked: object, subject: str) -> Json:
        """Return the recorded answer to a question.

        Args:
            subject: what is asked, for the error.

        Raises:
            CassetteMiss: there is none.
        """
        return self._file.take(asked, subject)


def _question(provider: str, request: ModelRequest) -> dict[str, Any]:
    """Return the key of a request, without empty fields, so that recordings stay valid when requests get new fields."""
    body: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(request))
    del body["metadata"]
    return {"model": {"provider": provider, **cast(dict[str, Any], _without_empty(body))}}


def _without_empty(value: Json) -> Json:
    if isinstance(value, list):
        return [_without_empty(item) for item in value]
    if isinstance(value, dict):
        kept = {key: _without_empty(item) for key, item in value.items()}
        return {key: item for key, item in kept.items() if item is not None and item is not False and item not in ("", [], {})}
    return value


@frozen
class _Recording:
    """A provider whose answers are recorded."""

    _provider: ModelProvider
    _file: CassetteFile

    @property
    def id(self) -> str:
        return self._provider.id

    @property
    def account(self) -> str:
        return self._provider.account

    async def prepare(self) -> None:
        prepare = getattr(self._provider, "prepare", None)
        if prepare is not None:
            await prepare()

    def note_failure(self, request: ModelRequest, error: ProviderError) -> None:
        """Record that a call has finally failed."""
        kind = next(each.__name__ for each in type(error).__mro__ if each.__module__ == ProviderError.__module__)
        self._file.add(_question(self.id, request), {"error": kind, "message": str(error), "status": error.status})

    async def complete(self, request: ModelRequest) -> ModelResponse:
        response = await self._provider.complete(request)
        self._file.add(_question(self.id, request), response)
        return response

    @asynccontextmanager
    async def stream(self, request: ModelRequest) -> AsyncGenerator[AsyncIterator[StreamEvent], None]:
        async with self._provider.stream(request) as events:
            yield _WrittenDown(events, self._file, _question(self.id, request))


@frozen
class _WrittenDown:
    """The events of an answer that is recorded when it is whole."""

    _events: AsyncIterator[StreamEvent]
    _file: CassetteFile
    _asked: dict[str, Any]

    def __aiter__(self) -> AsyncIterator[StreamEvent]:
        return self

    async def __anext__(self) -> StreamEvent:
        event = await anext(self._events)
        if isinstance(event, ModelResponse):
            self._file.add(self._asked, event)
        return event


@frozen
class _Replaying:
    """A provider whose answers come from the file."""

    _provider: ModelProvider
    _file: CassetteFile

    @property
    def id(self) -> str:
        return self._provider.id

    @property
    def account(self) -> str:
        return f"cassette {self._file.path}"

    async def complete(self, request: ModelRequest) -> ModelResponse:
        await trio.lowlevel.checkpoint()
        answer = self._file.take(_question(self.id, request), f"a request to {self.id}:{request.model}")
        if isinstance(answer, dict) and "error" in answer:
            raise _error_of(answer, self.id)
        return msgspec.convert(answer, ModelResponse)

    @asynccontextmanager
    async def stream(self, request: ModelRequest) -> AsyncGenerator[AsyncIterator[StreamEvent], None]:
        yield _Replayed(_events(await self.complete(request)))


def _error_of(answer: dict[str, Any], provider: str) -> ProviderError:
    kind: Any = getattr(errors, str(answer["error"]), None)
    is_known = isinstance(kind, type) and issubclass(kind, ProviderError)
    made: ProviderError = (kind if is_known else ProviderError)(
        str(answer.get("message")), provider=provider, status=answer.get("status")
    )
    made.is_final = True
    return made


def _events(response: ModelResponse) -> Iterator[StreamEvent]:
    """Yield a recorded answer as events: each part of it at once."""
    message = response.message
    yield from (ThinkingDelta(thinking.text) for thinking in message.thinking if thinking.text)
    if message.text:
        yield TextDelta(message.text)
    yield from (ToolCallDelta(call.id, call.name, call.arguments) for call in message.calls)
    yield response


@frozen
class _Replayed:
    """The events of a recorded answer."""

    _events: Iterator[StreamEvent]

    def __aiter__(self) -> AsyncIterator[StreamEvent]:
        return self

    async def __anext__(self) -> StreamEvent:
        await trio.lowlevel.checkpoint()
        for event in self._events:
            return event
        raise StopAsyncIteration
