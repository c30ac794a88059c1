"""Where metrics are served on the network: this machine alone, unless somebody says another address. Pure."""

from __future__ import annotations

from ipaddress import ip_address
from typing import cast

from attrs import frozen

from orchestrator.errors import UsageError

_EXPECTED = "expected HOST:PORT or PORT, such as 127.0.0.1:9464"
_LOOPBACK = "127.0.0.1"


@frozen
class Address:
    """A host and a port; 0 is any that is free."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_local(self) -> bool:
        """Whether only this machine can reach it."""
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"


def address_of(text: str | int) -> Address:
    """Return an address; a port alone is one of this machine.

    Raises:
        UsageError: it is none.
    """
    if isinstance(cast(object, text), bool) or not isinstance(cast(object, text), str | int):
        raise UsageError(f"metrics: {_EXPECTED}, was {text!r:.100}")
    host, colon, port = str(text).strip().rpartition(":")
    if colon and not host:
        raise UsageError(f"metrics: {_EXPECTED}, was {text!r:.100}; to be reached from everywhere, say 0.0.0.0 or [::]")
    bare = host.removeprefix("[").removesuffix("]")
    if ":" in bare and bare == host:
        raise UsageError(f"metrics: {_EXPECTED}, was {text!r:.100}; put an IPv6 address in brackets")
    if not (port.isascii() and port.isdecimal() and len(port) < 6 and int(port) < 65_536):
        raise UsageError(f"metrics: {_EXPECTED}, was {text!r:.100}; the port is a number up to 65535")
    return Address(bare or _LOOPBACK, int(port))
