"""Runs the server on a free port of 127.0.0.1 until Ctrl-C."""

from __future__ import annotations

import secrets
import socket
from collections.abc import Callable
from pathlib import Path

import uvicorn

from schedlens.agents.guarded_sql import GuardedDatabase
from schedlens.errors import SessionError
from schedlens.serve import session_tiles
from schedlens.serve.application import Session, application

HOST = "127.0.0.1"
# Memory of a statement on the SQL page.
_MEMORY = 256 << 20


def serve(path: Path, port: int, seconds: float, started: Callable[[str], None]) -> None:
    """Serves a session; `started` gets the address with its token once the port is open.

    A statement on the SQL page may take `seconds`. Returns after Ctrl-C or SIGTERM. Raises
    `SessionError` if the port is in use, and what opening the database raises.
    """
    database = session_tiles.database_of(path)
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((HOST, port))
        except OSError as error:
            raise SessionError(
                f"cannot serve on {HOST}:{port}: {error.strerror or error}. Omit --port for a "
                "free one"
            ) from None
        listener.listen()
        used = listener.getsockname()[1]
        token = secrets.token_urlsafe(24)
        # Locked down before anything else uses the file.
        guarded = GuardedDatabase(database, seconds, memory=_MEMORY)
        try:
            with session_tiles.opened(database) as timelines:
                session = Session(database.parent, timelines, guarded, token)
                config = uvicorn.Config(
                    application(session, used), log_level="critical", access_log=False,
                    lifespan="off", server_header=False, ws="none", limit_concurrency=64,
                    timeout_graceful_shutdown=1,
                )  # fmt: skip
                started(f"http://{HOST}:{used}/?token={token}")
                uvicorn.Server(config).run(sockets=[listener])
        finally:
            guarded.close()
