"""Reads what a program says that it has used, line by line, and reports it as it comes.

The law: what was reported is what the program has told; what it tells twice is reported once.
"""

from __future__ import annotations

from collections.abc import Callable

from attrs import evolve

from harnesses.agents.agent_output import Reading, Reply, UsageReading, innermost
from harnesses.agents.stream_counts import Deeds, counter_for
from harnesses.budgets.usage import UNUSED, Usage, count_of


class MeteredReading:
    """A reading of one run of a program that reports what it reads.

    Args:
        report: is called with what was used since the last report, or with a thread and its total.
    """

    def __init__(self, inner: Reading, report: Callable[..., None]) -> None:
        self._inner = inner
        self._report = report
        innermost_one = innermost(inner)
        self._meter = innermost_one if isinstance(innermost_one, UsageReading) else None
        self._tells = counter_for(innermost_one)
        self._deeds = Deeds()
        self._told = UNUSED
        self._tool_calls = 0

    def line(self, text: str) -> str:
        """Take in a line, and report what is new in it, also if it is the last one; return what to log of it."""
        try:
            return self._inner.line(text)
        finally:
            self._look(text)

    def reply(self) -> Reply:
        """Return what was said; what a reading tells only now is reported now."""
        reply = self._inner.reply()
        if self._meter is None and (tokens := count_of(reply.tokens)):
            self._send(Usage(tokens=tokens).beyond(self._told))
            self._told = self._told.max(Usage(tokens=tokens))
        return evolve(reply, usage=self._told + Usage(tool_calls=self._tool_calls))

    def _look(self, text: str) -> None:
        if self._tells is not None:
            calls = sum(1 for deed in self._tells(text) if deed.is_tool and self._deeds.is_new(deed))
            self._tool_calls += calls
            self._send(Usage(tool_calls=calls))
        if self._meter is not None and (now := self._meter.usage) != self._told:
            thread = self._meter.thread
            new, self._told = (now if thread else now.beyond(self._told)), now
            self._send(new, thread)

    def _send(self, usage: Usage, thread: str = "") -> None:
        if usage:
            self._report(usage, thread=thread)
