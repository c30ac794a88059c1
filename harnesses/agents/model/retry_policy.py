"""What a failed model call is answered with: fail, another try, or a wait that costs no try. Pure, except for the jitter.

AuthenticationFailed, RequestRejected           FAIL   at once
ProviderTimeout, MalformedResponse              TRY    after a short delay, `tries` in all
TransportFailed in mid-stream                   TRY
TransportFailed before it, ProviderUnavailable  WAIT   an outage: one request at a time probes whether it is over
RateLimited, UsageLimitReached                  WAIT   until the time that the provider names
"""

from __future__ import annotations

from enum import Enum
from random import Random

from attrs import Attribute, field, frozen

from harnesses.agents.argument_checks import Rule, optional, validator
from harnesses.agents.model.errors import (
    MalformedResponse,
    ProviderError,
    ProviderTimeout,
    ProviderUnavailable,
    RateLimited,
    RequestRejected,
    TransportFailed,
)
from harnesses.errors import HarnessMisuse


class Reaction(Enum):
    """What follows a failed request."""

    FAIL = "fail"
    """The call fails."""
    TRY = "try"
    """The request is sent again, after a delay, `RetryPolicy.tries` times in all."""
    WAIT = "wait"
    """The call waits for the provider; this does not count as a try."""


_REACTIONS: tuple[tuple[type[ProviderError], Reaction], ...] = (
    (RateLimited, Reaction.WAIT),
    (ProviderUnavailable, Reaction.WAIT),
    (TransportFailed, Reaction.WAIT),
    (ProviderTimeout, Reaction.TRY),
    (MalformedResponse, Reaction.TRY),
)


def reaction_to(error: ProviderError, *, has_streamed: bool = False) -> Reaction:
    """Decide what follows a failed request.

    Args:
        has_streamed: whether a part of the answer had arrived: each try of such a request costs money.
    """
    if error.is_final:
        return Reaction.FAIL
    if has_streamed and isinstance(error, TransportFailed):
        return Reaction.TRY
    found = next((reaction for kind, reaction in _REACTIONS if isinstance(error, kind)), None)
    return found or (Reaction.TRY if error.retryable else Reaction.FAIL)


def is_refused_model(error: ProviderError) -> bool:
    """Return whether the provider does not offer the model to this account."""
    return isinstance(error, RequestRejected) and error.status == 404


def _check_seconds(owner: object, attribute: Attribute[float], value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e9:
        raise HarnessMisuse(f"RetryPolicy: {attribute.name}: expected seconds above 0, got {value!r}; correct it")


def _check_tries(owner: object, attribute: Attribute[int], value: object) -> None:
    if type(value) is not int or value < 1:
        raise HarnessMisuse(f"RetryPolicy: {attribute.name}: expected a whole number from 1 up, got {value!r}; correct it")


def _is_whole(value: object) -> bool:
    return type(value) is int


@frozen(kw_only=True)
class RetryPolicy:
    """How often and after which delays requests are repeated. Delays are exponential with full jitter.

    Source of full jitter: https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/
    """

    tries: int = field(default=3, validator=_check_tries)
    """Requests in all for one call that times out, or is answered with something malformed."""
    base_s: float = field(default=0.2, validator=_check_seconds)
    """Longest delay before the second try; it doubles with each further one."""
    cap_s: float = field(default=5.0, validator=_check_seconds)
    """Longest delay between two tries."""
    probe_base_s: float = field(default=1.0, validator=_check_seconds)
    """Longest delay before the first probe of an outage; it doubles with each probe that fails."""
    probe_cap_s: float = field(default=60.0, validator=_check_seconds)
    """Longest delay between two probes, unless the provider names a time."""
    seed: int | None = field(default=None, validator=validator("RetryPolicy", optional(Rule("a whole number", _is_whole))))
    """Makes the delays repeatable."""

    def try_delay_s(self, failed: int, random: Random) -> float:
        """Return the delay after so many failed tries."""
        return _full_jitter(self.base_s, self.cap_s, failed, random)

    def probe_delay_s(self, failed: int, random: Random) -> float:
        """Return the delay before a probe, after so many failed requests."""
        return _full_jitter(self.probe_base_s, self.probe_cap_s, failed, random)


def _full_jitter(base_s: float, cap_s: float, failed: int, random: Random) -> float:
    return random.uniform(0.0, min(cap_s, base_s * 2.0 ** min(failed - 1, 60)))
