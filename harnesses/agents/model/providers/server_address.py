"""Addresses of model servers: which are well formed and which are the vendor's own."""

from __future__ import annotations

from urllib.parse import SplitResult, urlsplit

from harnesses.errors import HarnessMisuse


def checked_url(base_url: str, provider: str) -> str:
    """Return the address of a server without a slash at its end.

    Raises:
        HarnessMisuse: it is none, or has a user name or a password.
    """
    parts = _split(base_url)
    if parts is None or "@" in parts.netloc:
        shown = "one with a user name" if "@" in base_url else repr(base_url[:200])
        raise HarnessMisuse(
            f"provider {provider!r}: base_url: expected http://HOST:PORT/PATH or https://HOST/PATH, got {shown}; "
            f"{'give the key by key_file or key_variable' if '@' in base_url else 'write the address in full'}"
        )
    return base_url.rstrip("/")


def _split(base_url: str) -> SplitResult | None:
    if "\\" in base_url or " " in base_url or not base_url.isprintable():
        return None
    try:
        parts = urlsplit(base_url)
        is_whole = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return None
    return parts if is_whole and not parts.query and not parts.fragment else None


def is_served_by(base_url: str, own_url: str) -> bool:
    """Return whether an address is on the host of another one, or below it, and as well protected."""
    given, own = urlsplit(base_url), urlsplit(own_url)
    host, own_host = given.hostname or "", own.hostname or ""
    is_same = host == own_host or host.endswith(f".{own_host}")
    return is_same and given.scheme == own.scheme and _port(given) == _port(own)


def _port(parts: SplitResult) -> int:
    return parts.port or (443 if parts.scheme == "https" else 80)
