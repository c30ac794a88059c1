"""Answers that are not messages become errors by status, kind and text; with what the headers say of when to try again."""

from __future__ import annotations

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
from harnesses.agents.model.providers.provider_failures import Failure, error_of, retry_after

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


def test_what_a_server_says_is_one_harmless_bounded_line_without_secrets() -> None:
    said = str(error(status=500, message="a\nb\x1b[31m key sk-ant-api03-Qm3vR8sT1xYw5Zb7Nc2Ld9Kf4Hg6Jp0A " + "x" * 5_000))

    assert "\n" not in said
    assert "\x1b" not in said
    assert "Qm3vR8" not in said
    assert len(said) < 700


def test_an_error_has_the_id_of_its_request() -> None:
    assert error(status=500, headers={"request-id": "req_1"}).request_id == "req_1"
    assert "request req_2 failed" in str(error(status=500, headers={"x-request-id": "req_2"}))
