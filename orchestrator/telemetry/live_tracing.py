"""Traces of a running program: a follower of committed records, like the log, that sends spans as they end.

Invariant: it cannot affect the run. It reads from where this run began, a page at a time, and sends in a thread of its own. A
slow exporter is waited for, and nothing accumulates, since the records are in the store. One that fails, or hangs at the end,
loses spans; their number is counted and printed. They can be sent again from the store, with the same ids; spans of agents'
own are not in the store, and those that are lost are counted by themselves.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import TypeAlias

import trio

from harnesses.agent_spans import AgentSpan
from harnesses.diagnostics.error_groups import leaves
from orchestrator.recording.recorder import Recorder
from orchestrator.store.store_protocol import Store
from orchestrator.telemetry.gen_ai_spans import told_span
from orchestrator.telemetry.otlp_export import BATCH
from orchestrator.telemetry.span import Span
from orchestrator.telemetry.spans import Traces
from orchestrator.telemetry.telemetry_meter import aside
from orchestrator.text.terminal_text import say

_PAGE = 512
_MOST_TOLD = 10_000
"""Spans of agents' own that wait to be sent; beyond it further ones are dropped, and counted."""
_PAUSE_S = 1.0
"""Seconds between two checks for new records: spans are sent in batches."""
Send: TypeAlias = Callable[[Sequence[Span]], bool]
"""Sends spans, and returns whether they were accepted. Called in a thread."""


class TraceFollower:
    """Sends a span for every attempt and step of a run.

    Args:
        close: called in the thread when everything is sent.
    """

    def __init__(self, store: Store, send: Send, close: Callable[[], object] = lambda: None) -> None:
        self._store = store
        self._send = send
        self._close = close
        self._after = store.last_seq()
        self._traces = Traces()
        self._told: deque[Span] = deque()
        self._thread = trio.CapacityLimiter(1)
        self._scope = trio.CancelScope(shield=True)
        self._ended = threading.Event()
        self._pending = 0
        self._failure: str | None = None
        self.sent = 0
        self.dropped = 0
        self.lost = 0
        """Spans of agents' own that were dropped before they were sent."""

    def take(self, harness: str, attempt: int, step: int, told: AgentSpan) -> None:
        """Take a span of an agent's own, made by `AgentRun.span`. Neither waits nor raises; see `told_span`."""
        span = told_span(self._store.run, harness, attempt, step, told)
        if span is None:
            return
        if self._ended.is_set() or len(self._told) >= _MOST_TOLD:
            self.lost += 1
        else:
            self._told.append(span)

    async def run(self, recorder: Recorder) -> None:
        """Follow until the recorder has ended and its last record was processed. Shielded, so that nothing is missed."""
        with self._scope:
            try:
                while not await self._catch_up(recorder):
                    with trio.move_on_after(_PAUSE_S):
                        await recorder.wait_ended()
                await aside(self._close, self._thread)
            except Exception as error:
                self._failure = f"{next(leaves(error))}"
                say(f"traces: sending failed, no more spans: {self._failure}; the run goes on")
            finally:
                self._ended.set()
        self.lost += len(self._told)
        self._tell()

    async def finish(self, seconds: float) -> None:
        """Wait until the last span is sent, at most `seconds` of real time, whatever Trio's clock."""
        # Its own limiter: harnesses may hold all threads of the default one, and this wait is shielded.
        own = trio.CapacityLimiter(1)
        if not self._ended.is_set() and not await trio.to_thread.run_sync(self._ended.wait, seconds, limiter=own):
            self.dropped += self._pending
            self._scope.cancel()

    async def _catch_up(self, recorder: Recorder) -> bool:
        """Send the spans that have ended by now; return whether there were no more."""
        ended = recorder.ended
        while True:
            if not await aside(self._send_page, self._thread):
                return ended

    def _send_page(self) -> bool:
        """Send the spans of one page of records; return whether there may be more."""
        records = self._store.records(after=self._after, limit=_PAGE)
        made = [span for record in records if self._is_ours(record.run) for span in self._traces.take(record)]
        made += [self._told.popleft() for _ in range(len(self._told))]
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
                say(f"traces: the exporter did not accept spans: {self._failure or 'it gives no reason'}; the run goes on")
            self.dropped += len(spans)
        self._pending = 0

    def _tell(self) -> None:
        if self._scope.cancelled_caught:
            say("traces: the exporter does not end: missing spans can be sent with `orchestrator traces`")
        elif self.dropped:
            say(f"traces: {self.dropped} spans were not accepted: they can be sent with `orchestrator traces`")
        if self.lost:
            say(f"traces: {self.lost} spans that agents made themselves were dropped: the exporter was slower, or had failed")
