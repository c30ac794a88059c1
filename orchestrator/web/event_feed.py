"""The records of one store as events, for all who follow them: each is read once and written once.

    look    for the newest record: once in `WAIT_S`, whoever asks first
    page    the records from a place on to the next multiple of `_PAGE`, or to the newest, but no more than about
            `_PAGE_BYTES`: followers meet at the same places

Invariant: a page has every record between its two places that is in the store, so that pages which join have no gap and no
repeat. The pages that are kept are `_KEPT_PAGES` with `KEPT_BYTES` at most, and the newest one.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Sequence
from math import inf
from typing import TypeAlias

import trio
from attrs import define, field

from orchestrator.log import json_lines_of
from orchestrator.records import Record
from orchestrator.store.sqlite.sqlite_reader import SqliteReader

WAIT_S = 0.25
"""Seconds between two looks for new records."""
_PAGE, _READ = 2000, 250
"""Records of a page at most, and those that are read at a time."""
_PAGE_BYTES = 2_000_000
"""Characters of the records of a page, after which no more are read."""
_LEAST_BYTES = 500
"""Of a record without its body, or of an answer without a record."""
KEPT_BYTES, _KEPT_PAGES = 32_000_000, 256
"""Of the pages that are kept: of their records, and of what was told of them."""
Selection: TypeAlias = tuple[str, Collection[str]]
"""The harness and the kinds of records that are asked for; empty for all."""


@define(eq=False)
class _Page:
    records: Sequence[Record]
    until: int
    """The `seq` of its end."""
    texts: dict[Selection, bytes] = field(factory=dict[Selection, bytes])
    """What was told of it, by what was asked for."""
    size: int = 0
    """Bytes, about."""

    def __attrs_post_init__(self) -> None:
        self.size = sum(map(_size, self.records))

    def text(self, selection: Selection) -> bytes:
        harness, kinds = selection
        wanted = [one for one in self.records if harness in ("", one.harness) and (not kinds or one.kind in kinds)]
        lines = zip(wanted, json_lines_of(wanted), strict=True)
        text = "".join([f"id: {one.seq}\nevent: {one.kind}\ndata: {line}\n\n" for one, line in lines]).encode()
        self.texts[selection] = text
        self.size += _LEAST_BYTES + len(text)
        return text


def _size(record: Record) -> int:
    return _LEAST_BYTES + len(record.body)


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

    @property
    def kept_bytes(self) -> int:
        """About how many bytes the pages have that are kept."""
        return sum(page.size for page in self._pages.values())

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
            if page is not None and selection in page.texts:
                return page.until, page.texts[selection]
            # Not abandoned: two threads would change the pages.
            return await trio.to_thread.run_sync(self._make, after, until, selection)

    def _make(self, after: int, until: int, selection: Selection) -> tuple[int, bytes]:
        page = self._pages.get((after, until)) or self._read(after, until)
        text = page.text(selection)
        self._pages[after, until] = page
        self._pages.move_to_end((after, until))
        while len(self._pages) > 1 and (len(self._pages) > _KEPT_PAGES or self.kept_bytes > KEPT_BYTES):
            self._pages.popitem(last=False)
        return page.until, text

    def _read(self, after: int, until: int) -> _Page:
        """Read a page; it ends before `until` where its records are large."""
        records, size, at = list[Record](), 0, after
        while at < until and size < _PAGE_BYTES:
            found = [one for one in self.reader.records(after=at, limit=min(_READ, until - at)) if one.seq <= until]
            records += found
            size += sum(map(_size, found))
            at = found[-1].seq if len(found) == min(_READ, until - at) else until
        return _Page(records, at)
