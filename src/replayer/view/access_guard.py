"""Who may talk to the server: the browser that was given the token, and no page of another site.

Pure ASGI, so that HTTP and WebSockets pass through the same checks:

    Host     must name this server, or a page could reach it under a name of its own (DNS rebinding)
    Origin   must be this server, if there is one; a WebSocket must have one (cross-site WebSockets)
    token    in the address once, then in a cookie: other users of this machine do not have it. A program gives
             it in a header "Authorization: Bearer", and then needs no Origin: no page of another site can do that

A page in a frame of another site, such as a notebook's, gets no cookies from the browser. There the token begins the path
of each address, and the page's own files, which are no secret, need none.

Each response carries the headers that forbid scripts in the page's text, and any request elsewhere.
"""

from __future__ import annotations

import ipaddress
import secrets
import socket
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs, urlsplit

from starlette.responses import PlainTextResponse, RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

FORBIDDEN = 403
POLICY_VIOLATION = 1008  # The close code of a refused WebSocket.
CONTENT_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
FRAMING_SITES = "http: https: vscode-webview:"  # None of them knows the address, unless it was given the token.
_STATIC = "/f/"  # The page's own files.
_HEADERS = {
    "content-security-policy": CONTENT_POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
ENCODED_HEADERS = [(name.encode(), value.encode()) for name, value in _HEADERS.items()]
FRAMED_HEADERS = [
    (name, value.replace(b"frame-ancestors 'none'", f"frame-ancestors {FRAMING_SITES}".encode()))
    for name, value in ENCODED_HEADERS
    if name != b"x-frame-options"
]


class AccessGuard:
    """An ASGI application around another one."""

    def __init__(self, app: ASGIApp, host: str, port: int, token: str, *, is_framed: bool = False) -> None:
        """host: the address that the server listens at. is_framed: the token is in each path, and there is no cookie."""
        self._is_framed, self._headers = is_framed, FRAMED_HEADERS if is_framed else ENCODED_HEADERS
        self._app, self._token, self._port = app, token, port
        self._names = _names_of(host)
        self._any_address = _is_wildcard(host)
        self.cookie_name = f"replay-view-{port}"  # Cookies are shared by all ports of a machine.

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        scope, given = self._inner(scope) if self._is_framed else (scope, self._given_token(scope))
        why = self._refusal(scope, given)
        if scope["type"] == "websocket":
            if why is None:
                await self._app(scope, receive, send)
            else:
                await receive()
                await send({"type": "websocket.close", "code": POLICY_VIOLATION, "reason": f"refused: {why}"})
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message.get("headers", []), *self._headers]}
            await send(message)

        if why is not None:
            await PlainTextResponse(f"refused: {why}\n", FORBIDDEN)(scope, receive, send_with_headers)
        elif (
            given is not None and not self._is_framed
        ):  # The token leaves the address at once, and so the browser's history.
            response = RedirectResponse("/", 303)
            response.set_cookie(self.cookie_name, self._token, httponly=True, samesite="strict")
            await response(scope, receive, send_with_headers)
        else:
            await self._app(scope, receive, send_with_headers)

    def _refusal(self, scope: Scope, given: str | None) -> str | None:
        """The reason why a request is refused; None if it is not."""
        headers = _headers_of(scope)
        host, origin = headers.get("host", ""), headers.get("origin")
        if not self._is_our_host(host):
            return "host"
        bearer = _bearer(headers.get("authorization", ""))  # Of a program: no page can send one to another site.
        needs_origin = scope["type"] == "websocket" and bearer is None
        if (origin is not None or needs_origin) and origin != f"http://{host}":
            return "origin"
        if self._is_framed and scope["type"] == "http" and scope["path"].startswith(_STATIC):
            return None
        cookie = "" if self._is_framed else _cookie(headers.get("cookie", ""), self.cookie_name)
        token = given if given is not None else bearer if bearer is not None else cookie
        if not secrets.compare_digest(token.encode(), self._token.encode()):
            return "token"
        return None

    def _is_our_host(self, host: str) -> bool:
        try:
            parts = urlsplit(f"//{host}")
            name, port = parts.hostname, parts.port
        except ValueError:
            return False
        if name is None or port != self._port or parts.username is not None or parts.path:
            return False
        return name in self._names or (self._any_address and _is_address(name))

    def _inner(self, scope: Scope) -> tuple[Scope, str | None]:
        """A request without the token that its path begins with, and that token."""
        _, given, *rest = str(scope["path"]).split("/", 2)
        if not rest or scope["path"].startswith(_STATIC):
            return scope, None
        return {**scope, "path": f"/{rest[0]}"}, given

    def _given_token(self, scope: Scope) -> str | None:
        if scope["type"] != "http" or scope["path"] != "/":
            return None
        tokens = parse_qs(scope["query_string"].decode("latin-1")).get("token")
        return tokens[0] if tokens else None


def is_loopback(host: str) -> bool:
    """Return True for an address that only this machine reaches."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _names_of(host: str) -> set[str]:
    if is_loopback(host):
        return {host, "localhost", "127.0.0.1", "::1"}
    own = socket.gethostname().lower()
    return {host.lower(), own, "localhost"}


def _is_wildcard(host: str) -> bool:
    return _is_address(host) and ipaddress.ip_address(host).is_unspecified


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _headers_of(scope: Scope) -> dict[str, str]:
    """The headers by name; of a header that comes twice both, which is not what any check expects."""
    found: dict[str, str] = {}
    for name, value in scope["headers"]:
        key = name.decode("latin-1").lower()
        text = value.decode("latin-1")
        found[key] = f"{found[key]}; {text}" if key in found else text
    return found


def _bearer(header: str) -> str | None:
    """The token of a header Authorization; None without one."""
    scheme, _, token = header.partition(" ")
    return token.strip() if scheme.lower() == "bearer" else None


def _cookie(header: str, name: str) -> str:
    try:
        morsel = SimpleCookie(header).get(name)
    except CookieError:
        return ""
    return morsel.value if morsel is not None else ""
