"""Who is answered: whoever has the token, asks this host, and comes from no other site. All others get an empty answer."""

from __future__ import annotations

import pytest

from orchestrator.control.control_server import Request
from orchestrator.web.access import Access

TOKEN = "a-token-of-this-server"
HERE = "127.0.0.1:8080"
ACCESS = Access(frozenset({HERE, "localhost:8080"}), TOKEN, "orchestrator-8080")
COOKIE, BEARER = {"cookie": f"orchestrator-8080={TOKEN}"}, {"authorization": f"Bearer {TOKEN}"}


@pytest.mark.parametrize(
    ("status", "headers"),
    [
        (None, BEARER),
        (None, COOKIE),
        (None, {"cookie": f"other=1; orchestrator-8080={TOKEN}"}),
        (None, {**COOKIE, "origin": f"http://{HERE}", "sec-fetch-site": "same-origin"}),
        (None, {**COOKIE, "sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}),
        (401, {}),
        (401, {"authorization": "Bearer another-token-altogether"}),
        (401, {"authorization": f"Basic {TOKEN}"}),
        (401, {"cookie": f"orchestrator-9090={TOKEN}"}),
        (401, {"cookie": 'orchestrator-8080="; ]['}),
        (401, {"authorization": "Bearer \u00e9"}),
        (403, {**BEARER, "host": "evil.example:8080"}),
        (403, {**BEARER, "host": "127.0.0.1"}),
        (403, {**COOKIE, "host": ""}),
        (403, {**COOKIE, "origin": "http://evil.example"}),
        (403, {**COOKIE, "origin": "null"}),
        (403, {**COOKIE, "origin": f"https://{HERE}"}),
        (403, {**COOKIE, "sec-fetch-site": "cross-site"}),
        (403, {**COOKIE, "sec-fetch-site": "same-site", "sec-fetch-mode": "cors"}),
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_only_who_has_the_token_and_asks_here_is_answered(method: str, status: int | None, headers: dict[str, str]) -> None:
    if headers.get("sec-fetch-mode") == "navigate" and method == "POST":
        status = 403  # A form of another site is no link.
    refused = ACCESS.refuse(Request(method, ("api", "needs"), headers={"host": HERE, **headers}))

    assert (refused and refused.status) == status
    assert refused is None or refused.body == b""


def test_the_address_with_the_token_gives_a_cookie_that_no_script_and_no_other_site_can_use() -> None:
    given = ACCESS.refuse(Request("GET", ("",), {"token": TOKEN}, headers={"host": HERE}))
    wrong = ACCESS.refuse(Request("GET", ("",), {"token": TOKEN[:-1]}, headers={"host": HERE}))

    assert given is not None
    assert (given.status, given.headers["Location"]) == (303, "/")
    assert given.headers["Set-Cookie"] == f"orchestrator-8080={TOKEN}; Path=/; HttpOnly; SameSite=Strict"
    assert wrong is not None
    assert (wrong.status, dict(wrong.headers).get("Set-Cookie")) == (401, None)
