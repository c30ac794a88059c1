"""Records as server-sent events, in order of `seq`: first what is stored, then what is recorded, without a gap or a repeat.

Each event has the `seq` of its record as its id, its kind as its name, and the line of the log as its data. A client that
reconnects sends the last id that it saw, and gets what follows. One that reads too slowly is not waited for: with `behind`,
what is more than so many records old is left out, and an event `missed` tells which.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping

import trio
from attrs import evolve, frozen

from harnesses.errors import near, one_of
from orchestrator.control.control_server import Response
from orchestrator.errors import UsageError
from orchestrator.events import current_kind
from orchestrator.text.json_text import json_line
from orchestrator.text.log_line import KINDS
from orchestrator.web.api_route import Asked
from orchestrator.web.site import Site

CONTENT_TYPE = "text/event-stream"
_ALIVE_S = 15.0
"""Seconds of silence after which a comment is sent, so that proxies keep the connection."""


@frozen
class Wanted:
    """Which records a client asks for."""

    after: int
    harness: str = ""
    """Only records of this harness; empty for all."""
    kinds: tuple[str, ...] = ()
    """Only records of these kinds; empty for all."""
    behind: int | None = None
    """How many records the client may be behind before it is told what it missed; None for any number."""


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
    feed, after, spoke_at = site.feed, wanted.after, trio.current_time()
    while True:
        last, text = await feed.last_seq(), b""
        if wanted.behind is not None and last - after > wanted.behind:
            missed, after = {"from": after + 1, "to": last - wanted.behind}, last - wanted.behind
            yield f"event: missed\nid: {after}\ndata: {json_line(missed)}\n\n".encode()
            spoke_at = trio.current_time()
        if after < last:
            after, text = await feed.page(after, last, (wanted.harness, wanted.kinds))
        elif trio.current_time() >= spoke_at + _ALIVE_S:
            text = b": nothing new\n\n"
        if text:
            yield text
            spoke_at = trio.current_time()
        if after >= last:
            # All that is recorded until then comes at once: many small pages would cost the program more than this one.
            await feed.wait()
