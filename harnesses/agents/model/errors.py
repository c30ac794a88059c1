"""Errors of model calls. Only the retryable ones are retried.

HarnessError
└── ProviderError
    ├── AuthenticationFailed    401, 403: the key is missing, wrong or expired; the harness is blocked
    ├── RequestRejected         400, 404, 413, 422: the request is invalid; the harness is blocked
    │   └── ContextTooLong      it has more tokens than the model takes
    ├── RateLimited             429, retryable, with `retry_after_s` if the provider gives it
    │   └── UsageLimitReached   the plan's quota is used up until `resets_at`
    ├── ProviderTimeout         408, 504, or no answer in time; retryable
    ├── TransportFailed         the connection failed or was cut in mid-stream; retryable
    ├── ProviderUnavailable     500, 502, 503, 529: an outage; retryable
    └── MalformedResponse       the answer is not what the protocol says; retryable
"""

from __future__ import annotations

from typing import ClassVar

from harnesses.errors import HarnessError, NotReady, Waiting


class ProviderError(HarnessError):
    """A model call failed.

    Args:
        provider: id of the provider.
        status: HTTP status; None if there was no response.
        request_id: the provider's id of the request; empty if unknown.
        retry_after_s: seconds to wait, as the provider says; None if it does not.
    """

    retryable: ClassVar[bool] = False
    """Whether another request may succeed; a model client repeats only these."""
    is_final: bool = False
    """Whether the call failed for good although the class is retryable: set for the failures that a cassette replays."""

    def __init__(
        self,
        message: str,
        *,
        provider: str = "",
        status: int | None = None,
        request_id: str = "",
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(message)
        self.provider = provider
        self.status = status
        self.request_id = request_id
        self.retry_after_s = retry_after_s


class AuthenticationFailed(ProviderError, NotReady):
    """The key is missing, wrong or expired. No further call is made until an operator fixes this."""


class RequestRejected(ProviderError, Waiting):
    """The provider rejected the request as invalid. It is never repeated: the harness is blocked until it is started again."""


class ContextTooLong(RequestRejected):
    """The request has more tokens than the model takes."""


class RateLimited(ProviderError):
    """The provider refuses more requests for now."""

    retryable = True


class UsageLimitReached(RateLimited):
    """The quota of the account is used up.

    Args:
        resets_at: when it is filled again, in seconds since 1970; None if unknown.
    """

    def __init__(
        self,
        message: str,
        *,
        resets_at: float | None = None,
        provider: str = "",
        status: int | None = None,
        request_id: str = "",
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(message, provider=provider, status=status, request_id=request_id, retry_after_s=retry_after_s)
        self.resets_at = resets_at


class ProviderTimeout(ProviderError):
    """No answer came in time."""

    retryable = True


class TransportFailed(ProviderError):
    """The connection failed, or was cut before the answer was complete."""

    retryable = True


class ProviderUnavailable(ProviderError):
    """The provider has an outage."""

    retryable = True


class MalformedResponse(ProviderError):
    """The answer does not follow the provider's protocol."""

    retryable = True
