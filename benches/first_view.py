"""Starts `schedlens serve` and prints the time of each request of the first views, and its memory.

`python benches/first_view.py SESSION` needs a session that `analyze` wrote.
"""

from __future__ import annotations

import http.client
import json
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

PIXELS = 2400
MOST_PROCESSES = 20


class Server:
    """A running server, which answers with its time printed."""

    def __init__(self, session: str) -> None:
        self.begun = time.perf_counter()
        command = [str(Path(sys.executable).parent / "schedlens"), "serve", session, "--no-open"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        said = "".join(self.process.stdout.readline() for _ in range(3))
        found = re.search(r"127\.0\.0\.1:(\d+)/\?token=(\S+)", said)
        if found is None:
            raise SystemExit(f"{session}: the server did not start")
        self.port, self.token = int(found[1]), found[2]
        self.report("serving")

    def ask(self, path: str) -> bytes:
        """The body of an answer."""
        begin = time.perf_counter()
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)
        connection.request("GET", path, headers={"X-Schedlens-Token": self.token})
        answer = connection.getresponse()
        body = answer.read()
        took = time.perf_counter() - begin
        print(f"{took:7.2f} s {len(body):>10,} bytes  {answer.status} {path[:90]}")
        return body

    def report(self, what: str) -> None:
        """Prints the time since the start, and the peak memory where the system states it."""
        status = Path(f"/proc/{self.process.pid}/status")
        peak = re.search(r"VmHWM:\s*(\d+) kB", status.read_text()) if status.exists() else None
        memory = f", peak memory {int(peak[1]) / 1000:,.0f} MB" if peak else ""
        print(f"{what}: {time.perf_counter() - self.begun:.2f} s after the start{memory}")


def view(server: Server, found: dict[str, Any], start: int, end: int) -> None:
    """The requests of a view of a range."""
    span = f"trace={found['trace_id']}&start_ns={start}&end_ns={end}"
    lanes = {
        "cpu": [cpu["cpu"] for cpu in found["cpus"]],
        "process": [process["upid"] for process in found["processes"]][:MOST_PROCESSES],
    }
    for kind, ids in lanes.items():
        chosen = ",".join(map(str, ids))
        server.ask(f"/timeline/lanes?kind={kind}&{span}&width={PIXELS}&ids={chosen}")
    server.ask(f"/timeline/totals?{span}")


def main(session: str) -> None:
    server = Server(session)
    try:
        server.ask(f"/?token={server.token}")
        found = json.loads(server.ask("/timeline/overview?trace=1"))
        start, end = found["start_ns"], found["end_ns"]
        view(server, found, start, end)
        server.report("first view")
        middle = (start + end) // 2
        for length in (10**9, 10**8, 10**7, 10**6):
            view(server, found, middle, middle + length)
        server.report("five views")
    finally:
        server.process.terminate()
        server.process.wait()


if __name__ == "__main__":
    main(sys.argv[1])
