"""`RateLimits` of an account, and the token buckets that hold it to them. Time is an argument; no I/O.

A bucket holds a tenth of a minute's amount: what may be spent at once. It fills steadily. An amount that is larger than the
bucket is granted when it is full, and the bucket is then in debt.
"""

from __future__ import annotations

from attrs import Attribute, field, frozen

from harnesses.errors import HarnessMisuse

BURST = 0.1
"""The part of a minute's amount that may be spent at once."""


def _check_limit(owner: object, attribute: Attribute[int | None], value: object) -> None:
    if value is not None and (type(value) is not int or value < 1):
        raise HarnessMisuse(
            f"RateLimits: {attribute.name}: expected a whole number from 1 up, got {value!r}; leave it out for no limit"
        )


@frozen(kw_only=True)
class RateLimits:
    """Limits of one account for one model; None for no limit."""

    requests_per_minute: int | None = field(default=None, validator=_check_limit)
    """Requests sent, whether or not they succeed."""
    tokens_per_minute: int | None = field(default=None, validator=_check_limit)
    """Input and output tokens together."""
    concurrent: int | None = field(default=None, validator=_check_limit)
    """Requests in progress at the same time."""

    def min(self, other: RateLimits) -> RateLimits:
        """Return the tighter limit of each field."""
        return RateLimits(
            requests_per_minute=_tighter(self.requests_per_minute, other.requests_per_minute),
            tokens_per_minute=_tighter(self.tokens_per_minute, other.tokens_per_minute),
            concurrent=_tighter(self.concurrent, other.concurrent),
        )


def _tighter(one: int | None, other: int | None) -> int | None:
    return min((limit for limit in (one, other) if limit is not None), default=None)


class TokenBucket:
    """Grants amounts at a steady rate.

    Args:
        per_minute: what is granted in a minute.
        now: seconds on Trio's clock. The bucket is full at first.
    """

    __slots__ = ("_at", "_level", "_most", "_per_s")

    def __init__(self, per_minute: int, now: float) -> None:
        self._per_s = per_minute / 60.0
        self._most = self._level = max(1.0, per_minute * BURST)
        self._at = now

    def ready_at(self, amount: float, now: float) -> float:
        """Return when an amount can be taken: `now` if it can be already."""
        self._fill(now)
        missing = min(amount, self._most) - self._level
        return now if missing <= 1e-9 else now + missing / self._per_s

    def take(self, amount: float, now: float) -> None:
        """Take an amount, whether or not the bucket holds it."""
        self._fill(now)
        self._level -= amount

    def give_back(self, amount: float, now: float) -> None:
        """Return an amount that was taken and not used; a negative one was used in addition."""
        self._fill(now)
        self._level = min(self._most, self._level + amount)

    def _fill(self, now: float) -> None:
        self._level = min(self._most, self._level + (now - self._at) * self._per_s)
        self._at = now
