"""A host is reached only if a rule names it, and an address that is not public only if a rule names the address."""

from __future__ import annotations

import pytest

from harnesses.agents.sandbox.host_rules import read_host_rule, why_address_refused, why_host_refused
from harnesses.errors import HarnessMisuse


@pytest.mark.parametrize(
    ("rule", "host", "port", "allowed"),
    [
        ("pypi.org:443", "pypi.org", 443, True),
        ("pypi.org", "pypi.org", 443, True),
        ("PyPI.org.", "pypi.ORG.", 443, True),
        ("pypi.org:443", "pypi.org", 80, False),
        ("pypi.org:443", "evil-pypi.org", 443, False),
        ("pypi.org:443", "pypi.org.evil.example", 443, False),
        ("pypi.org:443", "files.pypi.org", 443, False),
        ("*.pypi.org:443", "files.pypi.org", 443, True),
        ("*.pypi.org:443", "a.b.pypi.org", 443, True),
        ("*.pypi.org:443", "pypi.org", 443, False),
        ("*.pypi.org:443", "evilpypi.org", 443, False),
        ("10.1.0.0/16:5432", "10.1.2.3", 5432, True),
        ("10.1.0.0/16:5432", "10.2.2.3", 5432, False),
        ("10.1.0.0/16:5432", "pypi.org", 5432, False),
        ("[2001:db8::1]:443", "[2001:db8::1]", 443, True),
        ("[2001:db8::1]:443", "2001:db8::1", 443, True),
    ],
)
def test_a_host_is_reached_by_its_name_and_port_alone(rule: str, host: str, port: int, allowed: bool) -> None:
    assert (why_host_refused([read_host_rule(rule)], host, port) == "") is allowed


@pytest.mark.parametrize(
    "text",
    ["", "a b:1", "pypi.org:0", "pypi.org:65536", "pypi.org:https", "http://pypi.org", "*:443", "a.*.org", "-x.org"],
)
def test_what_describes_no_host_is_refused(text: str) -> None:
    with pytest.raises(HarnessMisuse, match="network: expected hosts such as"):
        read_host_rule(text)


@pytest.mark.parametrize(
    "address",
    [
        *("127.0.0.1", "127.9.9.9", "0.0.0.0", "10.0.0.1", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1"),
        *("224.0.0.1", "255.255.255.255", "240.0.0.1", "::1", "::", "fe80::1", "fd00::1", "ff02::1", "192.0.2.1"),
        *("::ffff:127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::", "2001:0:4136:e378:8000:63bf:80ff:fffe"),
        *("fe80::1%eth0", "localhost", ""),
    ],
)
def test_an_address_of_this_machine_or_network_is_refused_whatever_name_led_to_it(address: str) -> None:
    assert why_address_refused([read_host_rule("pypi.org:443")], address, 443) != ""


@pytest.mark.parametrize("address", ["151.101.0.223", "2a04:4e42::223", "::ffff:151.101.0.223", "64:ff9b::9765:df"])
def test_a_public_address_is_reached(address: str) -> None:
    assert why_address_refused([read_host_rule("pypi.org:443")], address, 443) == ""


@pytest.mark.parametrize(
    ("rules", "address", "port", "allowed"),
    [
        (["models.internal:443", "10.1.0.0/16:443"], "10.1.2.3", 443, True),
        (["models.internal:443", "10.1.0.0/16:443"], "10.2.0.1", 443, False),
        (["models.internal:443", "10.1.0.0/16:80"], "10.1.2.3", 443, False),
        (["localhost:8000"], "127.0.0.1", 8000, True),
        (["localhost:8000"], "::1", 8000, True),
        (["localhost:8000"], "127.0.0.1", 8001, False),
        (["localhost:8000"], "10.0.0.1", 8000, False),
    ],
)
def test_an_address_that_is_not_public_is_reached_if_a_rule_names_it(
    rules: list[str], address: str, port: int, allowed: bool
) -> None:
    assert (why_address_refused(list(map(read_host_rule, rules)), address, port) == "") is allowed
