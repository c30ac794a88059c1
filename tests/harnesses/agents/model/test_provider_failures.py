"""Answers that are not messages become errors by status, kind and text; with what the headers say of when to try again."""

from __future__ import annotations

import math
from typing import Any

import pytest

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
from harnesses.agents.model.providers.provider_failures import Failure, error_of, resets_at, retry_after

NOW = 1_795_000_000.0


def error(**failure: Any) -> ProviderError:
    return error_of(Failure(**{"provider": "p", "message": "no", **failure}), NOW)


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, RequestRejected),
        (401, AuthenticationFailed),
        (402, UsageLimitReached),
        (403, AuthenticationFailed),
        (404, RequestRejected),
        (408, ProviderTimeout),
        (409, ProviderUnavailable),
        (413, ContextTooLong),
        (418, RequestRejected),
        (422, RequestRejected),
        (429, RateLimited),
        (500, ProviderUnavailable),
        (502, ProviderUnavailable),
        (503, ProviderUnavailable),
        (504, ProviderTimeout),
        (529, ProviderUnavailable),
    ],
)
def test_each_status_has_its_class(status: int, kind: type[ProviderError]) -> None:
    assert type(error(status=status)) is kind
    assert error(status=status).status == status


@pytest.mark.parametrize(
    ("failure", "kind"),
    [
        ({"status": 400, "message": "prompt is too long: 250000 tokens > 200000 maximum"}, ContextTooLong),
        ({"status": 400, "kinds": ("context_length_exceeded", "invalid_request_error")}, ContextTooLong),
        ({"status": 400, "kinds": ("exceed_context_size_error",)}, ContextTooLong),
        ({"status": 400, "message": "Your credit balance is too low to access the API."}, UsageLimitReached),
        ({"status": 429, "kinds": ("insufficient_quota",)}, UsageLimitReached),
        ({"status": 429, "message": "You exceeded your current quota, please check your plan"}, UsageLimitReached),
        ({"status": 429, "kinds": ("rate_limit_exceeded", "tokens")}, RateLimited),
        ({"status": 500, "kinds": ("invalid_request_error",)}, ProviderUnavailable),
        ({"kinds": ("unheard_of",)}, ProviderUnavailable),
    ],
)
def test_what_is_said_makes_the_class_of_a_status_narrower(failure: dict[str, Any], kind: type[ProviderError]) -> None:
    assert type(error(**failure)) is kind


def test_the_end_of_a_plans_quota_is_read_from_the_headers_of_a_subscription() -> None:
    headers = {"anthropic-ratelimit-unified-status": "rejected", "anthropic-ratelimit-unified-reset": "1795600000"}
    reached = error(status=429, headers=headers)

    assert isinstance(reached, UsageLimitReached)
    assert reached.resets_at == 1_795_600_000


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
        ({"retry-after": "Wed, 18 Nov 2026 11:07:10 GMT", "date": "Wed, 18 Nov 2026 11:06:40 GMT"}, 30.0),
        ({"retry-after": "Wed, 18 Nov 2026 11:07:10 GMT"}, 30.0),
        ({"retry-after": "Wed, 18 Nov 2020 11:07:10 GMT"}, 0.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-5"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "1e11"}, 30 * 86_400.0),
    ],
)
def test_retry_after_is_read_as_seconds_or_as_a_date(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers, 1_795_000_000.0) == seconds


RESET = {"x-ratelimit-reset-requests": "8h0m0s", "x-ratelimit-reset-tokens": "1m2.5s"}
EMPTY = {"x-ratelimit-remaining-requests": "59", "x-ratelimit-remaining-tokens": "0"}
CLAUDE = "anthropic-ratelimit-input-tokens"


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({**RESET, **EMPTY}, 62.5),
        ({**RESET, **EMPTY, "retry-after": "3"}, 3.0),
        (RESET, 8 * 3600.0),
        ({**RESET, "x-ratelimit-remaining-requests": "59", "x-ratelimit-remaining-tokens": "900"}, None),
        ({"x-ratelimit-reset-requests": "20ms"}, 0.02),
        ({"x-ratelimit-reset-tokens": "17"}, 17.0),
        ({"x-ratelimit-reset-tokens": "9999999h"}, 30 * 86_400.0),
        ({"x-ratelimit-reset-tokens": "soon"}, None),
        ({f"{CLAUDE}-reset": "2026-11-18T11:07:10Z", f"{CLAUDE}-remaining": "0"}, 30.0),
        ({f"{CLAUDE}-reset": "2026-11-18T11:07:10Z", f"{CLAUDE}-remaining": "5"}, None),
        ({f"{CLAUDE}-reset": "2026-11-18T11:00:00Z"}, 0.0),
        ({f"{CLAUDE}-reset": "tomorrow"}, None),
    ],
)
def test_without_retry_after_the_end_of_the_limit_that_is_used_up_is_read(
    headers: dict[str, str], seconds: float | None
) -> None:
    assert error(status=429, headers=headers).retry_after_s == seconds
    assert error(status=503, headers=headers).retry_after_s == (3.0 if "retry-after" in headers else None)


@pytest.mark.parametrize(
    ("said", "at"),
    [
        ({"resets_at": NOW + 60}, NOW + 60),
        ({"resets_at": math.inf}, NOW + 30 * 86_400),
        ({"resets_at": 10**400}, NOW + 30 * 86_400),
        ({"resets_at": math.nan}, None),
        ({"resets_at": -1}, None),
        ({"resets_at": True}, None),
        ({"resets_at": "soon"}, None),
        ({"resets_in_seconds": 60}, NOW + 60),
        ({"resets_in_seconds": math.inf}, NOW + 30 * 86_400),
        ({"resets_in_seconds": -math.inf}, None),
    ],
)
def test_the_end_of_a_quota_is_a_time_within_thirty_days(said: dict[str, Any], at: float | None) -> None:
    reached = error(status=429, kinds=("usage_limit_reached",), resets_at=resets_at(said, NOW))
    assert isinstance(reached, UsageLimitReached)
    assert reached.resets_at == at


def test_what_a_server_says_is_one_harmless_bounded_line_without_secrets() -> None:
    said = str(error(status=500, message="a\nb\x1b[31m key sk-ant-api03-Qm3vR8sT1xYw5Zb7Nc2Ld9Kf4Hg6Jp0A " + "x" * 5_000))

    assert "\n" not in said
    assert "\x1b" not in said
    assert "Qm3vR8" not in said
    assert len(said) < 700


def test_an_error_has_the_id_of_its_request() -> None:
    assert error(status=500, headers={"request-id": "req_1"}).request_id == "req_1"
    assert "request req_2 failed" in str(error(status=500, headers={"x-request-id": "req_2"}))
