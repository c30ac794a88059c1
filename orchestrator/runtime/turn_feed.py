"""`TurnFeed`: the streamed events of the agents of one harness, for those who follow them.

    agent ──tell()──► open streams ──redacted──► the last `MOST_EVENTS` events ──► followers, each at its own place

Invariants: telling neither waits nor raises, whoever follows. Events are shown without secrets: of a text in pieces, as much
is released as cannot be part of a secret. A follower that is too slow misses the oldest events, and gets their number. While
nobody follows, nothing is searched and no event is kept.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from typing import Any, cast

import trio
from attrs import define, evolve, field, frozen

from harnesses.diagnostics.program_log import get_logger
from harnesses.redaction.redactor import redact, redact_text
from harnesses.redaction.stream_redactor import CONTEXT, StreamRedactor
from harnesses.turn_events import TurnEvent, TurnEventKind
from orchestrator.recording.attempt import unwind_if_stopping
from orchestrator.recording.commit_queue import Condition

MOST_EVENTS = 1_000
"""Events that are kept for followers."""
MOST_STREAMS = 64
"""Texts in pieces at the same time; a further one is searched piece by piece."""
_ENDS = (TurnEventKind.MESSAGE_COMPLETE, TurnEventKind.MESSAGE_RESTARTED, TurnEventKind.TURN_COMPLETE)
_DELTAS = frozenset((TurnEventKind.TEXT_DELTA, TurnEventKind.THINKING_DELTA, TurnEventKind.TOOL_CALL_DELTA))
_LOGGER = "orchestrator.turns"


@frozen(kw_only=True)
class AgentEvent:
    """An event of an agent's turn, as those who follow a harness get it: without secrets."""

    seq: int
    """Number of the event among those of the harness in this program, from 1."""
    harness: str
    """Name of the harness."""
    step: int
    """Number of the step in progress."""
    agent: str
    """Name of the agent."""
    call: str
    """The call of the agent within the step, such as `coder#1`."""
    event: TurnEvent[Any]
    """What happened."""
    dropped: int = 0
    """Events before this one that the follower has missed, because it was too slow."""


@define(eq=False)
class _Stream:
    """A text in pieces."""

    last: TurnEvent[Any]
    """Its last piece."""
    pieces: deque[str] = field(factory=deque[str])
    """The last text that arrived while there was no subscriber."""
    size: int = 0
    redactor: StreamRedactor | None = None

    def take(self, text: str) -> None:
        """Keep a piece as context of later ones."""
        self.pieces.append(text)
        self.size += len(text)
        while self.size - len(self.pieces[0]) > CONTEXT:
            self.size -= len(self.pieces.popleft())

    def feed(self, text: str) -> str:
        """Return what can be shown with this piece."""
        if self.redactor is None:
            self.redactor = StreamRedactor()
            self.redactor.feed("".join(self.pieces))
            self.pieces.clear()
        return self.redactor.feed(text)

    def finish(self) -> str:
        """Return the rest."""
        return "" if self.redactor is None else self.redactor.finish()


class TurnFeed:
    """The streamed events of the agents of one harness."""

    def __init__(self, harness: str, *, redacted: bool = True) -> None:
        self._harness = harness
        self._redacted = redacted
        self._streams: dict[tuple[str, int, TurnEventKind, str], _Stream] = {}
        self._events: deque[AgentEvent] = deque(maxlen=MOST_EVENTS)
        self._news = Condition()
        self._followers = 0
        self._is_shown = False
        """Whether a display shows what agents say."""
        self._logs = logging.getLogger(_LOGGER).isEnabledFor(logging.DEBUG)
        self.seq = 0
        """Number of the last event that was shown."""
        self.text = ""
        """The end of the text that an agent is saying, for displays; kept only while somebody follows."""

    def tell(self, event: object, agent: str, call: str, step: int) -> None:
        """Publish an event of an agent. Neither waits nor raises."""
        if not isinstance(event, TurnEvent):
            return
        told: TurnEvent[Any] = cast(Any, event)
        if told.kind in _DELTAS:
            self._take_piece(told, agent, call, step)
            return
        if told.kind in _ENDS:
            self._end_streams(agent, call, step)
        if self._is_followed:
            self._show(self._clean(told), agent, call, step)

    @property
    def _is_followed(self) -> bool:
        return self._followers > 0 or self._logs

    def _take_piece(self, event: TurnEvent[Any], agent: str, call: str, step: int) -> None:
        key = (call, step, event.kind, event.call_id)
        stream = self._streams.get(key)
        if stream is None:
            if len(self._streams) >= MOST_STREAMS:
                self._streams.pop(next(iter(self._streams)))
            stream = self._streams[key] = _Stream(event)
        stream.last = event
        if not self._is_followed and stream.redactor is None:
            stream.take(event.text)
            return
        # A text of which a part was shown is searched to its end: a follower may return in the middle of a secret.
        text = stream.feed(event.text) if self._redacted else event.text
        if text and self._is_followed:
            self._show(evolve(event, text=text), agent, call, step)

    def _end_streams(self, agent: str, call: str, step: int) -> None:
        for key in [key for key in self._streams if key[0] == call]:
            stream = self._streams.pop(key)
            # What a step that was cut off has left is no part of this one.
            if self._is_followed and key[1] == step and (text := stream.finish()):
                self._show(evolve(stream.last, text=text), agent, call, step)

    def _clean(self, event: TurnEvent[Any]) -> TurnEvent[Any]:
        if not self._redacted:
            return event
        return evolve(event, text=redact_text(event.text), error=redact_text(event.error), result=redact(event.result))

    def _show(self, event: TurnEvent[Any], agent: str, call: str, step: int) -> None:
        self.seq += 1
        self._events.append(AgentEvent(seq=self.seq, harness=self._harness, step=step, agent=agent, call=call, event=event))
        if event.kind is TurnEventKind.TEXT_DELTA:
            self.text = f"{self.text}{event.text}"[-CONTEXT:]
        elif event.kind is not TurnEventKind.THINKING_DELTA:
            self.text = ""
        self._news.ring()
        if self._logs:
            fields = {"kind": event.kind.value, "tool": event.tool, "text": event.text or event.error}
            get_logger(_LOGGER).debug("turn event", agent=agent, call=call, **fields)

    # followers

    def saying(self) -> str:
        """Return the end of the text that an agent is saying; empty between two messages. The first call begins to follow."""
        if not self._is_shown:
            self._is_shown = True
            self.follow()
        return self.text

    def follow(self) -> None:
        """Begin to keep events; each call needs one of `leave`."""
        self._followers += 1

    def leave(self) -> None:
        """End what `follow` began."""
        self._followers -= 1
        if not self._followers:
            self._events.clear()
            self.text = ""

    def after(self, seq: int) -> list[AgentEvent]:
        """Return the kept events after one; the first has the number of those that were missed."""
        if seq >= self.seq or not self._events:
            return []
        kept = [event for event in self._events if event.seq > seq]
        missed = kept[0].seq - seq - 1
        return [evolve(kept[0], dropped=missed), *kept[1:]] if missed else kept

    def ring(self) -> None:
        """Let followers look whether the harness has ended."""
        self._news.ring()

    async def news(self, seq: int, is_done: Callable[[], bool]) -> None:
        """Wait for an event after one, or for the end of the harness."""
        await self._news.until(lambda: self.seq > seq or is_done())


class TurnEvents:
    """An async iterator over the events of a harness's agents from now on; ends when the harness has ended.

    It begins to follow when it is created, and ends with the iteration, with `close`, or at the end of its `with` block.
    """

    def __init__(self, feed: TurnFeed, is_done: Callable[[], bool]) -> None:
        self._feed = feed
        self._is_done = is_done
        self._seq = feed.seq
        self._page: list[AgentEvent] = []
        self._is_open = True
        feed.follow()

    def close(self) -> None:
        """End the iteration."""
        if self._is_open:
            self._is_open = False
            self._feed.leave()

    def __enter__(self) -> TurnEvents:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()

    def __aiter__(self) -> TurnEvents:
        return self

    async def __anext__(self) -> AgentEvent:
        if not self._page:
            await self._feed.news(self._seq, lambda: self._is_done() or not self._is_open)
            self._page = self._feed.after(self._seq)[::-1]
        if not self._page:
            self.close()
            await unwind_if_stopping()
            raise StopAsyncIteration
        await trio.lowlevel.checkpoint()
        found = self._page.pop()
        self._seq = found.seq
        return found
