"""Which hosts a sandboxed command reaches: rules by name and port, and the addresses that a name may stand for.

    "pypi.org:443"     this name, this port         "*.example.org:443"   the names below it
    "pypi.org"         port 443                     "10.1.0.0/16:5432"    addresses, also private ones

Invariant: a name that resolves to an address of this machine, its network or another special range is refused, unless a rule
names that address: a name server cannot open the way to a service inside.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from attrs import frozen

from harnesses.errors import HarnessMisuse

_RULE = re.compile(r"(?P<host>\[[0-9a-fA-F:./]+\]|[^:\s]+)(?::(?P<port>\d{1,5}))?\Z")
_NAME = re.compile(r"(\*\.)?([a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?)(\.[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?)*\Z")
_DEFAULT_PORT = 443
_LOOPBACK = ("127.0.0.0/8", "::1/128")
_EMBEDS = IPv6Network("64:ff9b::/96")
"""IPv4 addresses within IPv6, RFC 6052."""


@frozen
class HostRule:
    """A host that may be reached."""

    name: str
    """A lower-case name, perhaps with `*.` in front; empty for addresses."""
    port: int
    networks: tuple[IPv4Network | IPv6Network, ...] = ()
    """The addresses that it allows although they are special."""

    def allows_name(self, host: str, port: int) -> bool:
        """Return whether a request for this host may be made."""
        if port != self.port:
            return False
        if not self.name:
            return (address := _read_address(host)) is not None and self.allows_address(address, port)
        return host == self.name or (self.name.startswith("*.") and host.endswith(self.name[1:]))

    def allows_address(self, address: IPv4Address | IPv6Address, port: int) -> bool:
        """Return whether the rule names this address."""
        return port == self.port and any(address in network for network in self.networks)


def read_host_rule(text: str) -> HostRule:
    """Return the rule that a text such as `pypi.org:443` describes.

    Raises:
        HarnessMisuse: it describes none.
    """
    found = _RULE.match(text)
    port = int(found["port"] or _DEFAULT_PORT) if found else 0
    if found is None or not 0 < port < 65_536:
        raise _wrong(text)
    host = found["host"].strip("[]").lower().rstrip(".")
    try:
        return HostRule("", port, (ip_network(host),))
    except ValueError:
        pass
    if not _NAME.match(host):
        raise _wrong(text)
    loopback = tuple(map(ip_network, _LOOPBACK)) if host == "localhost" else ()
    return HostRule(host, port, loopback)


def _wrong(text: str) -> HarnessMisuse:
    return HarnessMisuse(
        f"sandbox: network: expected hosts such as pypi.org:443, *.example.org:443 or 10.1.0.0/16:5432, got {text!r:.200}; "
        f"correct it"
    )


def why_host_refused(rules: Iterable[HostRule], host: str, port: int) -> str:
    """Return why a request for a host is refused, before it is resolved; empty if it is allowed."""
    allowed = any(rule.allows_name(host.lower().rstrip("."), port) for rule in rules)
    return "" if allowed else "not in the allowed hosts"


def why_address_refused(rules: Iterable[HostRule], address: str, port: int) -> str:
    """Return why a connection to an address that an allowed host resolved to is refused; empty if it is allowed."""
    found = _read_address(address)
    if found is None:
        return f"not an address: {address:.100}"
    if _is_public(found) or any(rule.allows_address(found, port) for rule in rules):
        return ""
    return f"resolves to {found}, which is not a public address"


def _read_address(text: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(text.strip("[]"))
    except ValueError:
        return None


def _is_public(address: IPv4Address | IPv6Address) -> bool:
    inner = _embedded(address) if isinstance(address, IPv6Address) else None
    if inner is not None:
        return _is_public(inner)
    return address.is_global and not (address.is_multicast or address.is_reserved or address.is_unspecified)


def _embedded(address: IPv6Address) -> IPv4Address | None:
    """Return the IPv4 address that packets to an IPv6 address may end at."""
    if address in _EMBEDS:
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour or (address.teredo[1] if address.teredo else None)
