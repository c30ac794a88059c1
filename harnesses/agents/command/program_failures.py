"""Tells from the output of a command-line agent what has failed at its provider: an outage, a limit, the key, or the request.

    error that the program reports, its last output ──► ProviderError, with the end of a limit ──► wait, or fail at once

Pure. Invariant: what a program that has worked wrote besides its own error says nothing: it may be the output of a test.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from harnesses.agents.command.agent_output import Reply
from harnesses.agents.model.errors import ProviderError
from harnesses.agents.model.providers.provider_failures import Failure, error_of
from harnesses.processes.bounded_command import Ran

_LOOKED_AT = 8_000
"""Characters of an error."""
_LONGEST_LIMIT_S = 8 * 86_400.0
"""The longest that a limit is believed to last, in seconds: the longest of these programs is a week."""
_KINDS: tuple[tuple[str, str], ...] = (
    (
        "usage_limit_reached",
        r"(?:usage|session|weekly|5-hour|opus|sonnet) limit (?:reached|has been reached)|hit your (?:\w+ )?limit"
        r"|usage_limit_reached|quota exceeded|insufficient_quota|exceeded your current quota|exhausted your (?:\w+ )?quota"
        r"|credit balance is too low|out of (?:extra )?usage|billing_error",
    ),
    (
        "context_length_exceeded",
        r"prompt is too long|context[_ ]?(?:length|window)|input is too long",
    ),
    (
        "authentication_error",
        r"authentication_?(?:error|failed)|invalid (?:x-)?api[ _-]?key|incorrect api key|api key not valid"
        r"|missing .{0,40}api key|no api keys were provided|please run /login|not logged in"
        r"|oauth token (?:has expired|has been revoked|revoked)"
        r"|(?:error|status|code)\W{1,4}(?:code\W{1,3})?40[13]\b|providerautherror|permission_?denied_?error|permission_error"
        r"|access token could not be refreshed|set an auth method|not able to authenticate you",
    ),
    (
        "rate_limit_error",
        r"rate[ _-]?limit|too many requests|(?:error|status|code)\W{1,4}(?:code\W{1,3})?429\b|resource_exhausted",
    ),
    (
        "overloaded_error",
        r"overloaded|(?:error|status|code)\W{1,4}(?:code\W{1,3})?5\d\d\b|service_?unavailable|internal_?server_?error"
        r"|bad gateway|(?:api)?connection ?error|connection (?:refused|reset)|stream disconnected|enotfound"
        r"|econn(?:refused|reset)|etimedout|fetch failed|error sending request|network error|socket hang up|unable to connect"
        r"|request timed out|litellm\.timeout|experiencing high demand|at capacity|status: unavailable|\bapi_error\b",
    ),
    (
        "invalid_request_error",
        r"invalid_request|badrequesterror|notfounderror|not_found_error|model_not_found|unknown model"
        r"|(?:error|status|code)\W{1,4}(?:code\W{1,3})?4\d\d\b|issue with the selected model"
        r"|model .{0,80}(?:not found|does not exist|not supported)",
    ),
)
"""Kinds as `provider_failures` names them, and by which words they are known: the first that matches counts."""
_SIGNS = tuple((kind, re.compile(words, re.IGNORECASE)) for kind, words in _KINDS)


def provider_failure(name: str, ran: Ran, reply: Reply, now: float) -> ProviderError | None:
    """Return what has failed at the provider; None if the turn did not fail, or failed for another reason.

    Args:
        name: of the agent's provider, for messages.
        now: seconds since 1970.
    """
    if ran.code is None or (ran.code == 0 and reply.error is None):
        return None
    said = (reply.error or "")[:_LOOKED_AT]
    if not reply.worked:
        said = f"{said}\n{ran.tail[-_LOOKED_AT:]}".strip()
    kind = next((kind for kind, words in _SIGNS if words.search(said)), None)
    if kind is None:
        return None
    ends_at = reply.resets_at if _is_credible(reply.resets_at, now) else limit_ends_at(said, now)
    if kind == "rate_limit_error" and reply.resets_at is not None:
        kind = "usage_limit_reached"
    return error_of(Failure(provider=name, message=said, kinds=(kind,), resets_at=ends_at), now)


def limit_ends_at(text: str, now: float) -> float | None:
    """Return when a limit ends, in seconds since 1970, as a program says it; None if it does not, or names a time far off.

        Claude AI usage limit reached|1749924000
        You've hit your limit · resets 3am (America/Los_Angeles)
        You've hit your usage limit. … try again in 3 days 4 hours 5 minutes.   … try again at Nov 3rd, 2026 3:05 PM.
        Your quota will reset after 18h32m10s.

    A time of day without a zone is of this machine's.
    """
    for pattern, read in _TIMES:
        if (found := pattern.search(text)) is not None and _is_credible(at := read(found, now), now):
            return at
    return None


def _is_credible(ends_at: float | None, now: float) -> bool:
    return ends_at is not None and now < ends_at <= now + _LONGEST_LIMIT_S


def _at_epoch(found: re.Match[str], now: float) -> float:
    number = float(found[1])
    return number / 1000 if number > 1e11 else number


def _after(found: re.Match[str], now: float) -> float | None:
    parts = re.findall(r"(\d{1,6})\s*([dhms])", found[1], re.IGNORECASE)
    return now + sum(float(number) * _UNIT_S[unit.lower()] for number, unit in parts) if parts else None


def _at_time(found: re.Match[str], now: float) -> float | None:
    zone = _zone(found["zone"])
    if (zone is None and found["zone"]) or not 1 <= int(found["hour"]) <= 12:
        return None
    today = datetime.fromtimestamp(now, zone) if zone is not None else datetime.fromtimestamp(now, UTC).astimezone()
    hour = int(found["hour"]) % 12 + (12 if found["half"].lower() == "pm" else 0)
    try:
        at = today.replace(hour=hour, minute=int(found["minute"] or 0), second=0, microsecond=0)
        if found["month"]:
            month = _MONTHS.index(found["month"].lower()[:3]) + 1
            at = at.replace(month=month, day=int(found["day"]), year=int(found["year"] or today.year))
            is_past = at <= today and not found["year"]
            return (at.replace(year=at.year + 1) if is_past else at).timestamp()
    except ValueError:
        return None
    return (at if at > today else at + timedelta(days=1)).timestamp()


def _zone(name: str | None) -> tzinfo | None:
    try:
        return ZoneInfo(name) if name else None
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None


_UNIT_S = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_SPAN = r"((?:\d{1,6}\s*(?:days?|d|hours?|h|minutes?|mins?|m|seconds?|secs?|s)\b[\s,]*(?:and\s+)?|\d{1,6}[dhms])+)"
_DATE = (
    r"(?:(?P<month>jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\s+(?P<day>\d{1,2})(?:[snrt][tdh])?,?\s+(?:at\s+)?)?"
)
_TIMES: tuple[tuple[re.Pattern[str], Callable[[re.Match[str], float], float | None]], ...] = (
    (re.compile(r"limit reached\|(\d{10,13})", re.IGNORECASE), _at_epoch),
    (re.compile(rf"(?:try again|resets?|retry)\s+(?:in|after)\s+{_SPAN}", re.IGNORECASE), _after),
    (
        re.compile(
            rf"(?:resets?|try again)\s+(?:at\s+|on\s+)?{_DATE.replace(',?', ',?(?:[ ]+(?P<year>20[0-9]{2}))?,?', 1)}"
            r"(?P<hour>\d{1,2})(?::(?P<minute>\d{2}))?\s*(?P<half>am|pm)(?:\s*\((?P<zone>[\w/+-]{1,60})\))?",
            re.IGNORECASE,
        ),
        _at_time,
    ),
)
