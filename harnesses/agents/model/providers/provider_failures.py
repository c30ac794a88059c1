"""Turns what a provider answers instead of a message into the errors of model calls, without input or output.

    status, type or code of the error, its message, headers ──► class of the error, request id, seconds to wait, end of a quota

Invariant: what the server says is data: one line, without control characters and secrets, at most 500 characters.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from attrs import field, frozen

from harnesses.agents.model.errors import (
    AuthenticationFailed,
    ContextTooLong,
    ProviderError,
    ProviderTimeout,
    ProviderUnavailable,
    RateLimited,
    RequestRejected,
    UsageLimitReached,
)
from harnesses.diagnostics.control_characters import inert
from harnesses.redaction import redact_text

_LONGEST = 500
_MOST_WAIT_S = 30 * 86_400.0
"""Longest wait that a provider may ask for, in seconds."""
_BY_STATUS: Mapping[int, type[ProviderError]] = {
    401: AuthenticationFailed,
    402: UsageLimitReached,
    403: AuthenticationFailed,
    408: ProviderTimeout,
    409: ProviderUnavailable,
    413: ContextTooLong,
    429: RateLimited,
    504: ProviderTimeout,
}
_BY_KIND: Mapping[str, type[ProviderError]] = {
    "api_error": ProviderUnavailable,
    "authentication_error": AuthenticationFailed,
    "billing_error": UsageLimitReached,
    "billing_hard_limit_reached": UsageLimitReached,
    "context_length_exceeded": ContextTooLong,
    "exceed_context_size_error": ContextTooLong,
    "insufficient_quota": UsageLimitReached,
    "invalid_api_key": AuthenticationFailed,
    "invalid_prompt": RequestRejected,
    "invalid_request_error": RequestRejected,
    "not_found_error": RequestRejected,
    "overloaded_error": ProviderUnavailable,
    "permission_error": AuthenticationFailed,
    "rate_limit_error": RateLimited,
    "rate_limit_exceeded": RateLimited,
    "request_too_large": ContextTooLong,
    "server_error": ProviderUnavailable,
    "string_above_max_length": ContextTooLong,
    "timeout_error": ProviderTimeout,
    "usage_limit_reached": UsageLimitReached,
}
"""By type or code, as Anthropic, OpenAI and llama.cpp name them."""
_TOO_LONG = re.compile(
    r"prompt is too long|context (?:window|length|size)|too many (?:input )?tokens|exceeds? the (?:available|model)",
    re.IGNORECASE,
)
_RESET = re.compile(r"x-ratelimit-reset-[a-z-]+|anthropic-ratelimit-(?!unified)[a-z-]+-reset")
_DURATION = re.compile(r"(?:(\d{1,9})h)?(?:(\d{1,9})m)?(?:(\d{1,9}(?:\.\d{1,9})?)s)?(?:(\d{1,9}(?:\.\d{1,9})?)ms)?")
_NO_CREDIT = re.compile(r"credit balance is too low|exceeded your current quota", re.IGNORECASE)


@frozen(kw_only=True)
class Failure:
    """What a provider answered instead of a message."""

    provider: str
    message: str
    status: int | None = None
    """HTTP status; None for an error within a stream that had begun."""
    kinds: tuple[str, ...] = ()
    """Its type and code, if it has them."""
    headers: Mapping[str, str] = field(factory=dict[str, str])
    """By lower-case name."""
    resets_at: float | None = None
    """When the quota is filled again, in seconds since 1970, if the body says so."""
    has_key: bool = True
    """Whether a key was configured."""


def error_of(failure: Failure, now: float) -> ProviderError:
    """Return the error of a failed call.

    Args:
        now: seconds since 1970.
    """
    headers = failure.headers
    ends_at = failure.resets_at if failure.resets_at is not None else quota_resets_at(headers)
    kind = _class_of(failure, is_quota=ends_at is not None)
    request_id = shown(headers.get("request-id") or headers.get("x-request-id") or "", 100)
    retry_after_s = retry_after(headers, now)
    if retry_after_s is None and issubclass(kind, RateLimited):
        retry_after_s = limit_ends_in(headers, now)
    named = f" {request_id}" if request_id else ""
    status = "an error" if failure.status is None else f"status {failure.status}"
    remedy = _moved(failure) or _remedy(kind, has_key=failure.has_key)
    text = f"{failure.provider}: request{named} failed: expected an answer, got {status}: {shown(failure.message)}{remedy}"
    if issubclass(kind, UsageLimitReached):
        return kind(
            text,
            resets_at=None if ends_at is None else min(ends_at, now + _MOST_WAIT_S),
            provider=failure.provider,
            status=failure.status,
            request_id=request_id,
            retry_after_s=retry_after_s,
        )
    return kind(text, provider=failure.provider, status=failure.status, request_id=request_id, retry_after_s=retry_after_s)


def _class_of(failure: Failure, *, is_quota: bool) -> type[ProviderError]:
    if _is_redirect(failure):
        return RequestRejected
    named = next((_BY_KIND[kind] for kind in failure.kinds if kind in _BY_KIND), None)
    by_status = None if failure.status is None else _BY_STATUS.get(failure.status)
    if by_status is None and failure.status is not None:
        by_status = ProviderUnavailable if failure.status >= 500 else RequestRejected
    found = named if named is not None and (by_status is None or issubclass(named, by_status)) else by_status
    found = found or named or ProviderUnavailable
    if found in (RateLimited, RequestRejected) and _NO_CREDIT.search(failure.message):
        return UsageLimitReached
    if found is RequestRejected and _TOO_LONG.search(failure.message):
        return ContextTooLong
    return UsageLimitReached if found is RateLimited and is_quota else found


def _moved(failure: Failure) -> str:
    """Return what to do about a redirect, which is not followed: the conversation would go to another server."""
    if not _is_redirect(failure):
        return ""
    target = shown(failure.headers.get("location", ""), 200) or "an address that it does not name"
    return f"; the server redirects to {target}: correct base_url"


def _is_redirect(failure: Failure) -> bool:
    return failure.status is not None and 300 <= failure.status < 400


def _remedy(kind: type[ProviderError], *, has_key: bool) -> str:
    if issubclass(kind, AuthenticationFailed):
        no_key = "; no key was sent: name the key of this server with `key_variable` or `key_file`"
        return "; set a valid key" if has_key else no_key
    if issubclass(kind, ContextTooLong):
        return "; shorten the conversation"
    return "; correct the request" if issubclass(kind, RequestRejected) else "; try again later"


def shown(text: str, longest: int = _LONGEST) -> str:
    """Return what a server said, as one harmless line."""
    line = " ".join(text[: 4 * longest].split())
    cut = redact_text(inert(line))
    return cut if len(cut) <= longest else f"{cut[:longest]}…"


def retry_after(headers: Mapping[str, str], now: float) -> float | None:
    """Return the seconds to wait that `Retry-After` asks for, be it a number or a date; None without it."""
    if (in_ms := _number(headers.get("retry-after-ms", ""))) is not None:
        return min(in_ms / 1000, _MOST_WAIT_S)
    text = headers.get("retry-after", "").strip()
    if not text:
        return None
    seconds = _number(text)
    if seconds is None:
        at, sent = _date(text), _date(headers.get("date", ""))
        # The server's own clock, if it tells it: ours may be wrong.
        seconds = None if at is None else max(at - (now if sent is None else sent), 0.0)
    return None if seconds is None else min(seconds, _MOST_WAIT_S)


def quota_resets_at(headers: Mapping[str, str]) -> float | None:
    """Return when the quota of a plan is filled again, in seconds since 1970; None if that is not what is used up.

    Source: Anthropic's unified limits of subscriptions.
    """
    if headers.get("anthropic-ratelimit-unified-status") != "rejected":
        return None
    return _number(headers.get("anthropic-ratelimit-unified-reset", ""))


def resets_at(said: Mapping[str, Any], now: float) -> float | None:
    """Return when a used-up quota is filled again, in seconds since 1970, if the body of an error says so."""
    at, seconds = said.get("resets_at"), said.get("resets_in_seconds")
    if isinstance(at, int | float) and not isinstance(at, bool):
        return min(at, now + _MOST_WAIT_S) if at >= 0 else None
    if isinstance(seconds, int | float) and not isinstance(seconds, bool):
        return now + min(seconds, _MOST_WAIT_S) if seconds >= 0 else None
    return None


def limit_ends_in(headers: Mapping[str, str], now: float) -> float | None:
    """Return the seconds until the last of the rate limits ends that are used up; None if the headers tell of none.

    Source: OpenAI's `x-ratelimit-reset-tokens: 6m0s`, Anthropic's `anthropic-ratelimit-tokens-reset: 2026-11-18T11:07:10Z`.
    """
    ends = (
        _seconds_of(text, now)
        for name, text in headers.items()
        if _RESET.fullmatch(name) and not _number(headers.get(name.replace("-reset", "-remaining"), "0"))
    )
    return max((min(seconds, _MOST_WAIT_S) for seconds in ends if seconds is not None), default=None)


def _seconds_of(text: str, now: float) -> float | None:
    """Return the seconds that a duration says, or until a time; None if it is neither."""
    text = text.strip()
    if (plain := _number(text)) is not None:
        return plain
    if text and (match := _DURATION.fullmatch(text)):
        return sum(float(part or 0) * unit for part, unit in zip(match.groups(), (3_600, 60, 1, 0.001), strict=True))
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return None
    return max((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() - now, 0.0)


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if 0 <= number < 1e12 else None


def _date(text: str) -> float | None:
    try:
        found = parsedate_to_datetime(text)
    except ValueError:
        return None
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
