"""The records of one store as events, for all who follow them: each is read once and written once.

    look    for the newest record: once in `WAIT_S`, whoever asks first
    page    the records from a place on to the next multiple of `_PAGE`, or to the newest: followers meet at the same places

Invariant: a page has every record between its two places that is in the store, so that pages which join have no gap and no
repeat.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Sequence
from functools import partial
from math import inf
from typing import TypeAlias

import trio
from attrs import define, field

from orchestrator.log import json_lines_of
from orchestrator.records import Record
from orchestrator.store.sqlite.sqlite_reader import SqliteReader

WAIT_S = 0.25
"""Seconds between two looks for new records."""
_PAGE, _PAGES = 500, 32
"""Records of a page at most, and pages that are kept."""
Selection: TypeAlias = tuple[str, Collection[str]]
"""The harness and the kinds of records that are asked for; empty for all."""


@define(eq=False)
class _Page:
    records: Sequence[Record]
    _lines: dict[int, bytes] = field(factory=dict[int, bytes])
    texts: dict[Selection, bytes] = field(factory=dict[Selection, bytes])
    """What was told of it, by what was asked for."""

    def text(self, selection: Selection) -> bytes:
        harness, kinds = selection
        wanted = [one for one in self.records if harness in ("", one.harness) and (not kinds or one.kind in kinds)]
        new = [one for one in wanted if one.seq not in self._lines]
        for record, line in zip(new, json_lines_of(new), strict=True):
            self._lines[record.seq] = f"id: {record.seq}\nevent: {record.kind}\ndata: {line}\n\n".encode()
        text = self.texts[selection] = b"".join(self._lines[one.seq] for one in wanted)
        return text


@define(eq=False)
class EventFeed:
    """Reads the records of a store for those who follow them.

    Args:
        reader: reads the store.
    """

    reader: SqliteReader
    _last_seq: int = 0
    _looked_at: float = -inf
    _pages: OrderedDict[tuple[int, int], _Page] = field(factory=OrderedDict[tuple[int, int], _Page])
    _lock: trio.Lock = field(factory=trio.Lock)

    async def last_seq(self) -> int:
        """Return the `seq` of the newest record at the last look."""
        async with self._lock:
            if trio.current_time() >= self._looked_at + WAIT_S:
                self._last_seq = await trio.to_thread.run_sync(self.reader.last_seq, abandon_on_cancel=True)
                self._looked_at = trio.current_time()
            return self._last_seq

    async def wait(self) -> None:
        """Wait until it is time for another look."""
        await trio.sleep_until(self._looked_at + WAIT_S)

    async def page(self, after: int, last: int, selection: Selection) -> tuple[int, bytes]:
        """Return the end of the page that begins after a record, `last` at most, and the events of it that are asked for."""
        until = min(last, after - after % _PAGE + _PAGE)
        async with self._lock:
            page = self._pages.get((after, until))
            text = None if page is None else page.texts.get(selection)
            if text is None:
                text = await trio.to_thread.run_sync(partial(self._make, after, until, selection), abandon_on_cancel=True)
            return until, text

    def _make(self, after: int, until: int, selection: Selection) -> bytes:
        page = self._pages.get((after, until))
        if page is None:
            records = self.reader.records(after=after, limit=until - after)
            page = self._pages[after, until] = _Page([record for record in records if record.seq <= until])
            if len(self._pages) > _PAGES:
                self._pages.popitem(last=False)
        return page.text(selection)
