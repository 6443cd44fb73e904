"""Serves one trace to ui.perfetto.dev, which may read 127.0.0.1:9001 and nothing else here."""

from __future__ import annotations

import shutil
import urllib.parse
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

from schedlens.errors import SessionError

# The page's content security policy permits this address only.
HOST, PORT = "127.0.0.1", 9001
PAGE = "https://ui.perfetto.dev"


class TraceServer:
    """Serves one file until a page has read it; also a context manager.

    Raises `SessionError` if the port is in use.
    """

    def __init__(self, file: Path, name: str, *, origin: str = PAGE, port: int = PORT) -> None:
        served = self

        class Handler(_Handler):
            server_of = served

        self.file, self.origin = file, origin
        self.path = "/" + urllib.parse.quote(name)
        self.is_read = False
        try:
            self._server = HTTPServer((HOST, port), Handler)
        except OSError as error:
            raise SessionError(
                f"cannot serve the trace on {HOST}:{port}: {error.strerror or error}. End the "
                "program that uses this port (another `schedlens open`, or trace_processor), or "
                "open the file of `schedlens export --perfetto` in the page yourself"
            ) from None

    def page(self, window: tuple[int, int] | None = None) -> str:
        """The address of the page; `window` is the part to show, in ns of the trace."""
        host, port = self._server.server_address[:2]
        address = f"{self.origin}/#!/?url=http://{host!s}:{port}{self.path}"
        if window is not None:
            address += f"&visStart={window[0]}&visEnd={window[1]}"
        return address

    def serve(self) -> None:
        """Answers requests until the trace has been read once."""
        while not self.is_read:
            self._server.handle_request()

    def __enter__(self) -> TraceServer:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    """Only the trace, and only for the page."""

    server_of: TraceServer
    # A connection that sends nothing must not block the others.
    timeout = 30

    def do_GET(self) -> None:
        served = self.server_of
        if self.path != served.path:
            self.send_error(404)
            return
        with served.file.open("rb") as file:
            self._head(200, served.file.stat().st_size)
            shutil.copyfileobj(file, self.wfile)
        served.is_read = True

    def do_HEAD(self) -> None:
        served = self.server_of
        if self.path != served.path:
            self.send_error(404)
            return
        self._head(200, served.file.stat().st_size)

    def do_OPTIONS(self) -> None:
        self._head(204, 0)

    def _head(self, code: int, size: int) -> None:
        self.send_response(code)
        self.send_header("Access-Control-Allow-Origin", self.server_of.origin)
        # Chromium asks whether a public page may read from this machine.
        self.send_header("Access-Control-Allow-Private-Network", "true")
        self.send_header("Cache-Control", "no-cache")
        self.send_header("Content-Type", "application/octet-stream")
        self.send_header("Content-Length", str(size))
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass
