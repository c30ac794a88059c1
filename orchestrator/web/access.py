"""Who may ask: those who know the token, by a name of this server, and from no other site.

A browser gets the token as a cookie from the address that `orchestrator serve` prints. Programs send it in a header. Every
other request gets an empty answer: one sent to another host name (DNS rebinding), or by a page of another origin.
"""

from __future__ import annotations

import hmac
from http.cookies import CookieError, SimpleCookie

from attrs import frozen

from orchestrator.control.control_server import Request, Response

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)
"""What a browser may load and run on the page: what this server sends, and nothing that is written in a document."""
SAFE_HEADERS = {"Content-Security-Policy": POLICY, "Referrer-Policy": "no-referrer", "X-Frame-Options": "DENY"}


@frozen
class Access:
    """Decides whether a request is answered.

    Args:
        hosts: the values of the header `Host` that are names of this server.
        token: what every request has to bring.
        cookie: the name of the cookie; it has the port, since browsers share cookies among the ports of a host.
    """

    hosts: frozenset[str]
    token: str
    cookie: str

    def refuse(self, request: Request) -> Response | None:
        """Return the answer to a request that may not be answered otherwise; None for one that may.

        The request with the token in its address gets the cookie, and is sent on to the page.
        """
        host = request.headers.get("host", "")
        if host not in self.hosts or not self._is_from_here(request, host):
            return Response(403, b"")
        if request.method == "GET" and self._is_token(request.options.get("token", "")):
            cookie = f"{self.cookie}={self.token}; Path=/; HttpOnly; SameSite=Strict"
            return Response(303, b"", headers={"Location": "/", "Set-Cookie": cookie})
        return None if self._is_known(request) else Response(401, b"", headers={"WWW-Authenticate": "Bearer"})

    def _is_from_here(self, request: Request, host: str) -> bool:
        origin = request.headers.get("origin")
        site = request.headers.get("sec-fetch-site", "none")
        # A link in another program may open the page; nothing else comes from another site.
        is_opened = request.method == "GET" and request.headers.get("sec-fetch-mode") == "navigate"
        return origin in (None, f"http://{host}") and (site in ("none", "same-origin") or is_opened)

    def _is_known(self, request: Request) -> bool:
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        return (scheme.lower() == "bearer" and self._is_token(given)) or self._is_token(self._in_cookie(request))

    def _in_cookie(self, request: Request) -> str:
        try:
            found = SimpleCookie(request.headers.get("cookie", "")).get(self.cookie)
        except CookieError:
            return ""
        return "" if found is None else found.value

    def _is_token(self, given: str) -> bool:
        return hmac.compare_digest(given.encode(), self.token.encode())
