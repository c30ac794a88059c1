"""The address of a store on PostgreSQL, and what it looks like in messages: without its password."""

from __future__ import annotations

import re
from typing import Self, TypeGuard
from urllib.parse import unquote

from attrs import Factory, evolve, field, frozen

from harnesses.errors import near
from orchestrator.errors import UsageError
from orchestrator.store.encryption import FieldCipher, cipher_of
from orchestrator.store.file.server_copy import Server

SCHEMES = ("postgresql://", "postgres://")
SCHEMA = "orchestrator"
"""The schema of a store, if nothing else is said."""
_SECRETS = frozenset(
    {"password", "sslpassword", "sslkeylogfile", "oauth_client_secret", "scram_client_key", "scram_server_key"}
)
_CREDENTIALS = re.compile(r"[^@/]*@")
"""libpq ends user and password at the first `@` before a `/`, whatever else is in them: also a `?` or `#`."""
_HOST = r"(?:\[[^]@]*\]|[^][:,/@]*)(?::[0-9]*)?"
_PLACE = re.compile(rf"{_HOST}(?:,{_HOST})*(?:/[^@]*)?")
"""Hosts, ports and database. What does not look like it may be part of a password with a `/` in it."""
_SCHEMA_NAME = re.compile(r"[a-z_][a-z0-9_]{0,62}")
_AS_PATH = re.compile(r"(postgres(?:ql)?):/+")
"""An address, perhaps one that was taken for a path, which has lost a slash."""
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*(?=://)")


def is_postgres_url(store: object) -> TypeGuard[str]:
    """Return whether a store is named by the address of a database on a PostgreSQL server."""
    return isinstance(store, str) and store.startswith(SCHEMES)


def address_in(location: object) -> str | None:
    """Return the address that a location is, also one that was taken for a path and has lost a slash; None for a path.

    Raises:
        UsageError: it is an address of another kind.
    """
    text = str(location)
    if _AS_PATH.match(text):
        return _AS_PATH.sub(r"\1://", text, count=1)
    if scheme := _SCHEME.match(text):
        known = [one.removesuffix("://") for one in SCHEMES]
        raise UsageError(
            f"store: expected a path, or an address that begins with {SCHEMES[0]}, got {shown_url(text):.200}"
            f"{near(scheme[0], known) or '; correct it'}"
        )
    return None


def check_is_path(store: object) -> None:
    """Raise for an address where a file is needed.

    Raises:
        UsageError: it is one.
    """
    if (address := address_in(store)) is not None:
        raise UsageError(
            f"{shown_url(address):.200} is a store on a server: expected a file; `orchestrator copy ADDRESS FILE` makes one"
        )


@frozen
class _Parts:
    """An address, split as libpq does."""

    scheme: str
    user: str
    password: str | None = field(repr=False)
    place: str
    """Hosts, ports and database."""
    options: tuple[str, ...] = field(repr=False)

    @classmethod
    def of(cls, url: str) -> Self:
        scheme, _, rest = url.partition("://")
        found = _CREDENTIALS.match(rest)
        user, colon, password = found[0][:-1].partition(":") if found else ("", "", "")
        place, _, query = rest[found.end() if found else 0 :].partition("?")
        return cls(scheme, user, password if colon else None, place, tuple(filter(None, query.split("&"))))

    @property
    def is_plain(self) -> bool:
        """Whether place and options look like that, so that no part of a password is in them."""
        return _PLACE.fullmatch(self.place) is not None and all("=" in option for option in self.options)

    @property
    def shown(self) -> str:
        """The address without password and options."""
        return f"{self.scheme}://{self.user}{'@' if self.user else ''}{self.place if self.is_plain else '…'}"

    def with_options(self, options: tuple[str, ...]) -> str:
        """Return the address with other options."""
        password = "" if self.password is None else f":{self.password}"
        at = "@" if self.user or password else ""
        return f"{self.scheme}://{self.user}{password}{at}{self.place}{'?' if options else ''}{'&'.join(options)}"


def _is_secret(option: str) -> bool:
    return unquote(option.partition("=")[0]) in _SECRETS


def split_schema(url: str) -> tuple[str, str]:
    """Return an address without `schema=` among its options, and that schema, or the usual one."""
    parts = _Parts.of(url)
    schemas = [option.removeprefix("schema=") for option in parts.options if option.startswith("schema=")]
    rest = tuple(option for option in parts.options if not option.startswith("schema="))
    return parts.with_options(rest), schemas[-1] if schemas else SCHEMA


def with_schema(url: str, schema: str) -> str:
    """Return an address with a schema, which `split_schema` takes off again; without one if that is the usual one."""
    parts = _Parts.of(url)
    return url if schema == SCHEMA else parts.with_options((*parts.options, f"schema={schema}"))


def server_named(address: str) -> Server:
    """Return the store that an address names, without its password."""
    url, schema = split_schema(_without_password(address))
    return Server(address=with_schema(url, schema), url=url, schema=schema, location=with_schema(shown_url(url), schema))


def _without_password(address: str) -> str:
    parts = _Parts.of(address)
    kept = tuple(option for option in parts.options if not _is_secret(option))
    return evolve(parts, password=None).with_options(kept)


def has_password(url: str) -> bool:
    """Return whether an address has a password in it, or may have one."""
    parts = _Parts.of(url)
    return parts.password is not None or not parts.is_plain or any(map(_is_secret, parts.options))


@frozen
class Address:
    """Where a store is.

    Attributes:
        url: address of the database, `postgresql://user@host:port/database`.
        schema: the schema that holds the store's tables.
        cipher: of the store, by default with the key that `ORCHESTRATOR_STORE_KEY_FILE` names.
        lease_s: seconds; a session in which a transaction waits for its client longer than that is ended by the server.
        run: the run that connects, by which others know its sessions; empty for readers, and for who has no lease.
    """

    url: str = field(repr=False)
    schema: str
    lease_s: float
    cipher: FieldCipher = field(
        default=Factory(lambda self: cipher_of(None, self.location), takes_self=True), repr=False, eq=False
    )
    run: str = ""

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
    if "://" not in url:
        return "…" if "=" in url else url  # libpq's other way to write it: `host=… password=…`
    return _Parts.of(url).shown
