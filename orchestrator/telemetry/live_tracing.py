"""Spans of a living program, sent as they end: a follower of committed records, like the log.

The law: it cannot hurt the run. It reads from where this run began, a page at a time, and sends from a thread of its own; an
exporter that is slow is waited for, and nothing piles up, as the records are in the store. One that fails, or hangs at the
end, loses spans, and how many is counted and said; they can be sent again from the store, and are the same.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TypeAlias

import trio

from harnesses.diagnostics.error_groups import leaves
from orchestrator.recording.recorder import Recorder
from orchestrator.store.store_protocol import Store
from orchestrator.telemetry.otlp_export import BATCH
from orchestrator.telemetry.spans import Span, Traces
from orchestrator.telemetry.telemetry_meter import aside
from orchestrator.text.terminal_text import say

_PAGE = 512
_PAUSE_S = 1.0
"""Between two looks for what is new: spans come in batches."""
Send: TypeAlias = Callable[[Sequence[Span]], bool]
"""Sends spans, and returns whether they were taken. Called in a thread."""


class TraceFollower:
    """Sends a span for every attempt and step of a run.

    Args:
        close: is called in the thread when all is sent.
    """

    def __init__(self, store: Store, send: Send, close: Callable[[], object] = lambda: None) -> None:
        self._store = store
        self._send = send
        self._close = close
        self._after = store.last_seq()
        self._traces = Traces()
        self._thread = trio.CapacityLimiter(1)
        self._scope = trio.CancelScope(shield=True)
        self._ended = threading.Event()
        self._pending = 0
        self._failure: str | None = None
        self.sent = 0
        self.dropped = 0

    async def run(self, recorder: Recorder) -> None:
        """Follow until the recorder has ended and its last record was told. Shielded: what was recorded is told."""
        with self._scope:
            try:
                while not await self._catch_up(recorder):
                    with trio.move_on_after(_PAUSE_S):
                        await recorder.wait_ended()
                await aside(self._close, self._thread)
            except Exception as error:
                self._failure = f"{next(leaves(error))}"
                say(f"traces: not sent any further: {self._failure}; the run goes on")
            finally:
                self._ended.set()
        self._tell()

    async def finish(self, seconds: float) -> None:
        """Return when the last span is sent, or has not been within so many seconds: real ones, whatever Trio's clock."""
        # A thread of its own: harnesses may have taken all the others, and this is waited for under a shield.
        own = trio.CapacityLimiter(1)
        if not self._ended.is_set() and not await trio.to_thread.run_sync(self._ended.wait, seconds, limiter=own):
            self.dropped += self._pending
            self._scope.cancel()

    async def _catch_up(self, recorder: Recorder) -> bool:
        """Send what has ended by now; return whether that was all."""
        ended = recorder.ended
        while True:
            if not await aside(self._send_page, self._thread):
                return ended

    def _send_page(self) -> bool:
        """Send the spans of some records; return whether there may be more."""
        records = self._store.records(after=self._after, limit=_PAGE)
        made = [span for record in records if self._is_ours(record.run) for span in self._traces.take(record)]
        for first in range(0, len(made), BATCH):
            self._send_some(made[first : first + BATCH])
        if records:
            self._after = records[-1].seq
        return len(records) == _PAGE

    def _is_ours(self, run: str) -> bool:
        return not run or run == self._store.run

    def _send_some(self, spans: Sequence[Span]) -> None:
        self._pending = len(spans)
        try:
            taken = self._send(spans)
        except Exception as error:
            taken = False
            self._failure = self._failure or repr(error)[:300]
        if taken:
            self.sent += len(spans)
        else:
            if not self.dropped:
                say(f"traces: the exporter has not taken spans: {self._failure or 'it says no more'}; the run goes on")
            self.dropped += len(spans)
        self._pending = 0

    def _tell(self) -> None:
        if self._scope.cancelled_caught:
            say("traces: the exporter does not end: what is missing can be sent with `orchestrator traces`")
        elif self.dropped:
            say(f"traces: {self.dropped} spans were not taken: they can be sent with `orchestrator traces`")
