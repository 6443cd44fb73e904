"""Lets only this server's own page in: by host, origin, and token."""

from __future__ import annotations

import secrets
from urllib.parse import parse_qs

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

TOKEN_HEADER = "x-schedlens-token"
_METHODS = {"GET", "POST"}


class Gatekeeper:
    """Middleware that refuses every request that did not start from the address printed.

    A web page elsewhere may send requests to this machine, also under a host name of its own that
    resolves to 127.0.0.1: the checks of Host and Origin refuse these, whatever token they carry.
    """

    def __init__(self, app: ASGIApp, *, port: int, token: str) -> None:
        self.app, self.token = app, token
        self.hosts = {f"127.0.0.1:{port}", f"localhost:{port}"}
        self.origins = {f"http://{host}" for host in self.hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers 403, or passes the request on."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        refusal = "not supported" if scope["type"] != "http" else self._refusal(scope)
        if refusal is not None:
            if scope["type"] == "http":
                await PlainTextResponse(refusal, 403, headers=_HEADERS)(scope, receive, send)
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        await self.app(scope, receive, with_headers)

    def _refusal(self, scope: Scope) -> str | None:
        headers = Headers(scope=scope)
        if headers.getlist("host") not in [[host] for host in self.hosts]:
            return "refused: the request names another host"
        if any(origin not in self.origins for origin in headers.getlist("origin")):
            return "refused: the request comes from another site"
        if scope["method"] not in _METHODS:
            return "refused: only GET and POST are answered"
        given = headers.get(TOKEN_HEADER)
        if given is None:
            query = scope["query_string"].decode("latin-1")
            given = parse_qs(query, max_num_fields=50).get("token", [""])[0]
        if not secrets.compare_digest(given.encode(), self.token.encode()):
            return "refused: open the address that schedlens serve printed, with its token"
        return None


_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
