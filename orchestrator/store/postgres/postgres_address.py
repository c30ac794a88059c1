"""The address of a store on PostgreSQL, and what it looks like in messages: without its password."""

from __future__ import annotations

import re
from typing import TypeGuard
from urllib.parse import urlsplit, urlunsplit

from attrs import field, frozen

from orchestrator.errors import UsageError

SCHEMES = ("postgresql://", "postgres://")
_SCHEMA_NAME = re.compile(r"[a-z_][a-z0-9_]{0,62}")
_AS_PATH = re.compile(r"(postgres(?:ql)?):/+")
"""An address, perhaps one that was taken for a path, which has lost a slash."""


def is_postgres_url(store: object) -> TypeGuard[str]:
    """Return whether a store is named by the address of a database on a PostgreSQL server."""
    return isinstance(store, str) and store.startswith(SCHEMES)


def check_is_path(store: object) -> None:
    """Raise for an address where a file is needed.

    Raises:
        UsageError: it is one.
    """
    text = str(store)
    if _AS_PATH.match(text):
        shown = shown_url(_AS_PATH.sub(r"\1://", text, count=1))
        raise UsageError(
            f"{shown:.200} is a store on a server: expected a file, since verbs and analysis read SQLite stores only; "
            "`orchestrator copy ADDRESS FILE` copies it into one"
        )


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
