"""A server with the API of S3 on loopback, as a process of its own."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

BUCKET = "fleet"
SETTINGS = {
    "AWS_ACCESS_KEY_ID": "test",
    "AWS_SECRET_ACCESS_KEY": "test",
    # Without it, each process waits for the metadata service of a machine that has none.
    "AWS_EC2_METADATA_DISABLED": "true",
    "NO_PROXY": "127.0.0.1",
}


@contextmanager
def s3_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The options of a URL `s3://fleet/KEY` that reach the server; the bucket exists."""
    boto3 = pytest.importorskip("boto3")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    for name, value in SETTINGS.items():
        monkeypatch.setenv(name, value)
    server = subprocess.Popen(
        [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=dict(os.environ),
    )
    try:
        _wait(server, port)
        client = boto3.client(
            "s3", endpoint_url=f"http://127.0.0.1:{port}", region_name="us-east-1"
        )
        client.create_bucket(Bucket=BUCKET)
        yield f"scheme=http&endpoint_override=127.0.0.1:{port}&region=us-east-1"
    finally:
        server.kill()
        server.wait()


def _wait(server: subprocess.Popen[bytes], port: int) -> None:
    """Returns when the server accepts connections; fails if it ends or takes a minute."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        if server.poll() is not None:
            pytest.fail(f"the S3 server ended with {server.returncode}")
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    pytest.fail("the S3 server does not accept connections")
