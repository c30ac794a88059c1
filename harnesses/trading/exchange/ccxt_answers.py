"""What an exchange's answer to a request means for what was asked. Pure; knows the names of ccxt's errors, not ccxt.

The law: an order counts as refused only if nothing was sent, or if the exchange itself has answered that it was not taken.
No answer, half an answer, an answer of a machine in between, and "duplicate order" all leave it open.

    nothing was sent                               refused
    status 5xx, a timeout, a broken connection     unknown: Binance says so of its own 5xx
    "duplicate"                                    unknown: one of that id is there already, perhaps this very order
    418, 429, RateLimitExceeded, DDoSProtection    not now: not taken, may be asked again later
    InvalidNonce (-1021)                           wrong time: not taken, our idea of the venue's clock is off
    OrderNotFound                                  not found
    a definite error of ccxt's, with no status or 4xx   refused
    anything else                                  unknown

Source: https://developers.binance.com/docs/binance-spot-api-docs/rest-api/general-api-information, "HTTP Return Codes".
"""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum

_DEFINITE = frozenset(
    {"ArgumentsRequired", "AuthenticationError", "BadRequest", "InsufficientFunds", "InvalidOrder", "NotSupported"}
) | frozenset({"OperationRejected"})
_LATER = frozenset({"DDoSProtection", "RateLimitExceeded"})


class Verdict(StrEnum):
    """What an error says of what was asked for."""

    REFUSED = "refused"
    """It was not done, and would not be if it were asked again."""
    NOT_NOW = "not now"
    """It was not done; asked too often."""
    WRONG_TIME = "wrong time"
    """It was not done; it came too early or too late by the venue's clock."""
    NOT_FOUND = "not found"
    """The venue does not know what it was asked about."""
    UNKNOWN = "unknown"
    """It may have been done."""


class CallFailed(Exception):
    """A request to an exchange came to nothing, or nobody knows what it came to."""

    def __init__(self, verdict: Verdict, text: str, retry_after_s: float | None = None) -> None:
        super().__init__(text)
        self.verdict = verdict
        self.text = text
        self.retry_after_s = retry_after_s
        """What the venue wants us to wait; None if it does not say."""


def judge(kinds: Collection[str], text: str, *, status: int | None, sent: bool) -> Verdict:
    """Return what an error of ccxt means.

    Args:
        kinds: the names of the error's class and of those above it.
        text: what it says.
        status: of the HTTP response; None if there was none, or if it was not an error's.
        sent: whether anything was sent.
    """
    names = frozenset(kinds)
    if not sent:
        return Verdict.REFUSED
    if status is not None and not 400 <= status < 500:
        return Verdict.UNKNOWN
    if "DuplicateOrderId" in names or "duplicate" in text.lower():
        return Verdict.UNKNOWN
    if status in (418, 429) or (status is not None and names & _LATER):
        return Verdict.NOT_NOW
    if "InvalidNonce" in names and status is not None:
        return Verdict.WRONG_TIME
    if "OrderNotFound" in names:
        return Verdict.NOT_FOUND
    return Verdict.REFUSED if names & _DEFINITE else Verdict.UNKNOWN


def parse_retry_after(value: str | None) -> float | None:
    """Return the seconds that a `Retry-After` header says; None if it says none that can be waited for."""
    try:
        seconds = float(value or "nan")
    except ValueError:
        return None
    return seconds if 0 <= seconds < float("inf") else None
