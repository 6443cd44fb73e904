"""A small service and the load generator outside it, as programs: `server PORTFILE`, `load ...`.

`load PORTFILE COUNTS` sends a request every 5 ms, whether or not the service runs, and writes how
many were answered, with their latency, to COUNTS.
"""

from __future__ import annotations

import json
import socket
import sys
import time
from pathlib import Path

WORK_S = 0.002
GAP_S = 0.005
BUCKETS_NS = (1_000_000, 10_000_000, 100_000_000, 10_000_000_000)


def server(port: Path) -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    fresh = port.with_suffix(".new")
    fresh.write_text(str(listener.getsockname()[1]))
    fresh.replace(port)
    while True:
        connection, _ = listener.accept()
        with connection:
            connection.recv(64)
            until = time.thread_time() + WORK_S
            while time.thread_time() < until:
                pass
            connection.sendall(b"done")


def load(port: Path, counts: Path) -> None:
    latency = dict.fromkeys(BUCKETS_NS, 0)
    fresh = counts.with_suffix(".new")
    while True:
        begin = time.monotonic_ns()
        try:
            where = ("127.0.0.1", int(port.read_text()))
            with socket.create_connection(where, timeout=5) as connection:
                connection.sendall(b"do")
                answered = connection.recv(64) == b"done"
        except (OSError, ValueError):
            answered = False
        took = time.monotonic_ns() - begin
        if answered:
            latency[next(upper for upper in BUCKETS_NS if took <= upper)] += 1
        rows = [[upper, count] for upper, count in latency.items() if count]
        fresh.write_text(json.dumps({"requests": sum(latency.values()), "latency_ns": rows}))
        fresh.replace(counts)
        time.sleep(GAP_S)


if __name__ == "__main__":
    kind, *paths = sys.argv[1:]
    if kind == "server":
        server(Path(paths[0]))
    else:
        load(Path(paths[0]), Path(paths[1]))
