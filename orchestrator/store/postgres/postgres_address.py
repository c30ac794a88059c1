"""The address of a store on PostgreSQL, and what it looks like in messages: without its password."""

from __future__ import annotations

import re
from typing import TypeGuard
from urllib.parse import urlsplit, urlunsplit

from attrs import field, frozen

from orchestrator.errors import UsageError
from orchestrator.store.file.server_copy import Server

SCHEMES = ("postgresql://", "postgres://")
SCHEMA = "orchestrator"
"""The schema of a store, if nothing else is said."""
_SECRETS = frozenset({"password", "sslpassword", "sslkeylogfile"})
_SCHEMA_NAME = re.compile(r"[a-z_][a-z0-9_]{0,62}")
_AS_PATH = re.compile(r"(postgres(?:ql)?):/+")
"""An address, perhaps one that was taken for a path, which has lost a slash."""


def is_postgres_url(store: object) -> TypeGuard[str]:
    """Return whether a store is named by the address of a database on a PostgreSQL server."""
    return isinstance(store, str) and store.startswith(SCHEMES)


def address_in(location: object) -> str | None:
    """Return the address that a location is, also one that was taken for a path and has lost a slash; None for a path."""
    text = str(location)
    return _AS_PATH.sub(r"\1://", text, count=1) if _AS_PATH.match(text) else None


def check_is_path(store: object) -> None:
    """Raise for an address where a file is needed.

    Raises:
        UsageError: it is one.
    """
    if (address := address_in(store)) is not None:
        raise UsageError(
            f"{shown_url(address):.200} is a store on a server: expected a file; `orchestrator copy ADDRESS FILE` makes one"
        )


def split_schema(url: str) -> tuple[str, str]:
    """Return an address without `schema=` among its options, and that schema, or the usual one."""
    head, mark, query = url.partition("?")
    options = query.split("&") if mark else []
    schemas = [option.removeprefix("schema=") for option in options if option.startswith("schema=")]
    rest = "&".join(option for option in options if not option.startswith("schema="))
    return f"{head}?{rest}" if rest else head, schemas[-1] if schemas else SCHEMA


def server_named(address: str) -> Server:
    """Return the store that an address names, without its password."""
    url, schema = split_schema(_without_password(address))
    location = shown_url(url)
    given = url if schema == SCHEMA else f"{url}{'&' if '?' in url else '?'}schema={schema}"
    return Server(address=given, url=url, schema=schema, location=location if schema == SCHEMA else f"{location} ({schema})")


def _without_password(address: str) -> str:
    head, mark, query = address.partition("?")
    scheme, _, rest = head.partition("://")
    place, slash, database = rest.partition("/")
    user, at, host = place.rpartition("@")
    kept = "&".join(one for one in query.split("&") if one.partition("=")[0] not in _SECRETS)
    return f"{scheme}://{user.partition(':')[0]}{at}{host}{slash}{database}{mark if kept else ''}{kept}"


def has_password(url: str) -> bool:
    """Return whether an address has a password in it."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return True
    named = (option.partition("=")[0] for option in parts.query.split("&"))
    return ":" in parts.netloc.rpartition("@")[0] or not _SECRETS.isdisjoint(named)


@frozen
class Address:
    """Where a store is.

    Attributes:
        url: address of the database, `postgresql://user@host:port/database`.
        schema: the schema that holds the store's tables.
        lease_s: seconds; a session in which a transaction waits for its client longer than that is ended by the server.
    """

    url: str = field(repr=False)
    schema: str
    lease_s: float

    def __attrs_post_init__(self) -> None:
        if not is_postgres_url(self.url):
            raise UsageError(f"store: expected an address that begins with {SCHEMES[0]!r}, was {shown_url(self.url)!r:.200}")
        if not _SCHEMA_NAME.fullmatch(self.schema):
            raise UsageError(f"store: schema: expected lower-case letters, digits and `_`, was {self.schema!r:.100}")

    @property
    def location(self) -> str:
        """The address without its password, for messages."""
        return shown_url(self.url)


def shown_url(url: str) -> str:
    """Return an address without its password and options."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return f"{url.partition('://')[0]}://…"
    at = parts.netloc.rpartition("@")
    user = at[0].partition(":")[0]
    return urlunsplit((parts.scheme, f"{user}@{at[2]}" if user else at[2], parts.path, "", ""))
