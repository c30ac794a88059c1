"""Makes one HTTP request for a feed, and decides what its response means.

    2xx                    use the body
    429                    ask later: after Retry-After, or else after `rate_limited_s`
    408, 425, 5xx          ask later: after Retry-After, or else at the next poll
    no answer in time      ask later
    anything else          error: waiting does not help

Nothing is retried here: the harness polls once a period anyway.
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
"""Maximum seconds accepted from a Retry-After; a longer wait is cut to this."""


@frozen
class Answer:
    """The response of a server."""

    status: int
    content_type: str
    retry_after: str
    """The Retry-After header; empty if missing."""
    body: bytes


@frozen
class Later:
    """There is no usable answer now; ask again later."""

    why: str
    wait_s: float = 0.0
    """Seconds from now during which not to ask."""


def judge(answer: Answer, where: str, now: datetime, rate_limited_s: float) -> Answer | Later:
    """Return an answer that has a body, or when to ask again. No I/O.

    Raises:
        FeedUnavailable: asking again would not help.
    """
    if 200 <= answer.status < 300:
        return answer
    if answer.status in _LATER or 500 <= answer.status < 600:
        default_s = rate_limited_s if answer.status == TOO_MANY_REQUESTS else 0.0
        return Later(f"status {answer.status}", wait_for(answer.retry_after, now, default_s))
    raise FeedUnavailable(
        f"{where} refused: expected status 200, was {answer.status}: {answer.body[:200].decode('utf-8', 'replace')!r}; "
        "check the address and the credentials in its headers"
    )


def wait_for(retry_after: str, now: datetime, default_s: float) -> float:
    """Return the seconds that a Retry-After asks for, a number or a date; `default_s` if it is empty or invalid. No I/O.

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
    """Makes HTTP requests. Each poll uses its own client, so that no connection stays open between polls.

    Args:
        timeout_s: maximum seconds for one request, from connecting to the end of the body.
        max_bytes: maximum size of a body.
    """

    def __init__(self, headers: Mapping[str, str], timeout_s: float, max_bytes: int) -> None:
        self._httpx: Any = load_extra("httpx2", "http", "PollingFeed")
        self._headers = dict(headers)
        self._timeout_s = timeout_s
        self._max_bytes = max_bytes
        self._tls: Any = None

    def client(self) -> Any:
        """Return a new client, to be used as a context manager under Trio."""
        if self._tls is None:  # The certificates take 30 ms and more, so they are read only once.
            self._tls = self._httpx.create_ssl_context()
        return self._httpx.AsyncClient(headers=self._headers, timeout=None, verify=self._tls)

    async def get(self, client: Any, url: str) -> Answer | Later:
        """Return the server's response whatever its status, or `Later` with the reason if there is none."""
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
        with trio.CancelScope() as scope:  # Leaving the loop by `break` would leave the generators below it open.
            async for chunk in response.aiter_bytes():
                body += chunk
                if len(body) > self._max_bytes:
                    scope.cancel()
        return bytes(body) if len(body) <= self._max_bytes else None


def _why(error: BaseException) -> str:
    """Return the message of an error, or of its cause if it has none, such as a failed TLS handshake."""
    behind: BaseException | None = error
    while behind is not None and not str(behind):
        behind = behind.__cause__ or behind.__context__
    return "" if behind is None else f": {behind}"
