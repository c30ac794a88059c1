"""One request, and what its answer means for a feed.

    2xx                    there is a body
    429                    later: when Retry-After says, or else after a time of our own
    408, 425, 5xx          later: when Retry-After says, or else when the feed is asked next
    no answer in time      later
    anything else          never: waiting does not mend it

Nothing is tried again here: that is for the harness, which asks once a period anyway.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

import trio
from attrs import frozen

from harnesses.diagnostics.extras import load_extra
from harnesses.trading.market.feed import FeedUnavailable

TOO_MANY_REQUESTS = 429
_LATER = frozenset({408, 425, TOO_MANY_REQUESTS})
LONGEST_WAIT_S = 3600.0
"""What a Retry-After may ask for; a feed that is asked to wait longer asks again after it."""


@frozen
class Answer:
    """What a server said."""

    status: int
    content_type: str
    retry_after: str
    """The header of that name; empty without one."""
    body: bytes


@frozen
class Later:
    """There is no use in an answer now."""

    why: str
    wait_s: float = 0.0
    """How long not to ask, from now."""


def judge(answer: Answer, where: str, now: datetime, rate_limited_s: float) -> Answer | Later:
    """Return an answer that has a body, or when to ask again. Pure.

    Raises:
        FeedUnavailable: asking again would not help.
    """
    if 200 <= answer.status < 300:
        return answer
    if answer.status in _LATER or 500 <= answer.status < 600:
        default_s = rate_limited_s if answer.status == TOO_MANY_REQUESTS else 0.0
        return Later(f"status {answer.status}", wait_for(answer.retry_after, now, default_s))
    raise FeedUnavailable(
        f"{where} refuses: expected status 200, was {answer.status}: {answer.body[:200].decode('utf-8', 'replace')!r}; "
        "check the address, and the rights that its headers give"
    )


def wait_for(retry_after: str, now: datetime, default_s: float) -> float:
    """Return the seconds that a Retry-After asks for, a number or a date; `default_s` if it says nothing. Pure.

    Source: RFC 9110, 10.2.3.
    """
    text = retry_after.strip()
    if text.isascii() and text.isdigit():
        return min(float(text), LONGEST_WAIT_S)
    try:
        when = parsedate_to_datetime(text)
    except ValueError:
        return default_s
    when = when if when.tzinfo is not None else when.replace(tzinfo=UTC)
    return min(max((when - now).total_seconds(), 0.0), LONGEST_WAIT_S)


class Http:
    """Makes requests. Each poll has a client of its own, so that nothing is left open between polls, or when they end.

    Args:
        timeout_s: for one request, from the connection to the end of the body.
        max_bytes: of a body.
    """

    def __init__(self, headers: Mapping[str, str], timeout_s: float, max_bytes: int) -> None:
        self._httpx: Any = load_extra("httpx2", "http", "PollingFeed")
        self._headers = dict(headers)
        self._timeout_s = timeout_s
        self._max_bytes = max_bytes
        self._tls: Any = None

    def client(self) -> Any:
        """Return a client, to be entered within Trio."""
        if self._tls is None:  # 30 ms and more: the certificates are read once
            self._tls = self._httpx.create_ssl_context()
        return self._httpx.AsyncClient(headers=self._headers, timeout=None, verify=self._tls)

    async def get(self, client: Any, url: str) -> Answer | Later:
        """Return what the server says, whatever it is, or why it says nothing."""
        try:
            with trio.fail_after(self._timeout_s):
                async with client.stream("GET", url) as response:
                    body = await self._body(response)
        except trio.TooSlowError:
            return Later(f"no answer within {self._timeout_s:g} s")
        except (self._httpx.RequestError, self._httpx.StreamError) as error:
            return Later(f"{type(error).__name__}{_why(error)}")
        if body is None:
            return Later(f"a body of more than {self._max_bytes} bytes")
        headers = response.headers
        return Answer(response.status_code, headers.get("content-type", ""), headers.get("retry-after", ""), body)

    async def _body(self, response: Any) -> bytes | None:
        body = bytearray()
        with trio.CancelScope() as scope:  # to leave the loop by `break` would leave the generators below it open
            async for chunk in response.aiter_bytes():
                body += chunk
                if len(body) > self._max_bytes:
                    scope.cancel()
        return bytes(body) if len(body) <= self._max_bytes else None


def _why(error: BaseException) -> str:
    """Return what an error says, or if it says nothing, what the one behind it does: a failed TLS handshake for instance."""
    behind: BaseException | None = error
    while behind is not None and not str(behind):
        behind = behind.__cause__ or behind.__context__
    return "" if behind is None else f": {behind}"
