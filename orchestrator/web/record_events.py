"""Records as server-sent events, in order of `seq`: first what is stored, then what is recorded, without a gap or a repeat.

Each event has the `seq` of its record as its id, its kind as its name, and the line of the log as its data. A client that
reconnects sends the last id that it saw, and gets what follows. One that reads too slowly is not waited for: with `behind`,
what is more than so many records old is left out, and an event `missed` tells which.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection, Mapping
from functools import partial

import trio
from attrs import evolve, frozen

from harnesses.errors import near, one_of
from orchestrator.control.control_server import Response
from orchestrator.errors import UsageError
from orchestrator.events import current_kind
from orchestrator.log import json_line_of
from orchestrator.records import Record
from orchestrator.text.json_text import json_line
from orchestrator.text.log_line import KINDS
from orchestrator.web.api_route import Asked
from orchestrator.web.site import Site

CONTENT_TYPE = "text/event-stream"
_PAGE, _PAGES = 500, 32
"""Records of a page, and pages that are kept."""
_WAIT_S = 0.25
"""Seconds between two looks for new records."""
_ALIVE_S = 15.0
"""Seconds of silence after which a comment is sent, so that proxies keep the connection."""


@frozen
class Wanted:
    """Which records a client asks for."""

    after: int
    harness: str = ""
    """Only records of this harness; empty for all."""
    kinds: Collection[str] = ()
    """Only records of these kinds; empty for all."""
    behind: int | None = None
    """How many records the client may be behind before it is told what it missed; None for any number."""

    def has(self, record: Record) -> bool:
        """Whether a record is asked for."""
        return self.harness in ("", record.harness) and (not self.kinds or record.kind in self.kinds)


def follow(asked: Asked) -> Response:
    """Return the records that are asked for as a stream of events.

    Raises:
        UsageError: a number is none, or there is no such kind of record.
    """
    last = asked.headers.get("last-event-id", "")
    options = {**asked.options, **({"after": last} if last else {})}
    numbers = evolve(asked, options=options)
    wanted = Wanted(numbers.number("after", 0) or 0, options.get("harness", ""), _kinds_of(options), numbers.number("behind"))
    site = asked.site
    return Response(200, b"", CONTENT_TYPE, stream=lambda: events(site, wanted))


def _kinds_of(options: Mapping[str, str]) -> tuple[str, ...]:
    kinds = tuple(map(current_kind, filter(None, options.get("kinds", "").split(","))))
    for kind in kinds:
        if kind not in KINDS:
            raise UsageError(f"kinds: unknown kind {kind!r:.100}: {one_of(KINDS, '')}{near(kind, KINDS)}")
    return kinds


async def events(site: Site, wanted: Wanted) -> AsyncGenerator[bytes]:
    """Yield events until the client is gone."""
    after, silent_s = wanted.after, 0.0
    while True:
        missed, after, page = await trio.to_thread.run_sync(partial(_page, site, wanted, after), abandon_on_cancel=True)
        if missed:
            yield f"event: missed\nid: {missed[1]}\ndata: {json_line({'from': missed[0], 'to': missed[1]})}\n\n".encode()
        if page:
            silent_s = 0.0
            yield page
        elif not missed:
            await trio.sleep(_WAIT_S)
            silent_s += _WAIT_S
            if silent_s >= _ALIVE_S:
                silent_s = 0.0
                yield b": nothing new\n\n"


def _page(site: Site, wanted: Wanted, after: int) -> tuple[tuple[int, int] | None, int, bytes]:
    """Return which records are left out, the last `seq` that was read, and a page of events."""
    missed = None
    if wanted.behind is not None:
        last = site.reader.last_seq()
        if last - after > wanted.behind:
            missed = after + 1, last - wanted.behind
            after = last - wanted.behind
    key = after, wanted.harness, tuple(wanted.kinds)
    if (known := site.event_pages.get(key)) is not None:
        return missed, *known
    records = site.reader.records(after=after, limit=_PAGE)
    if not records:
        return missed, after, b""
    page = records[-1].seq, "".join(_event(record) for record in records if wanted.has(record)).encode()
    # Those who follow are at about the same record: each page is read and written once for all of them.
    if len(site.event_pages) >= _PAGES:
        site.event_pages.clear()
    site.event_pages[key] = page
    return missed, *page


def _event(record: Record) -> str:
    return f"id: {record.seq}\nevent: {record.kind}\ndata: {json_line_of(record)}\n\n"
