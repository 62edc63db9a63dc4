"""An object store that speaks S3 over HTTP, in a process of its own."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from unittest import mock

BUCKET = "penstock-tests"
_PATIENCE_S = 300


class Store:
    """Address and credentials, as programs find them in their environment."""

    def __init__(self, port: int) -> None:
        self.endpoint = f"http://127.0.0.1:{port}"
        self.environment = {
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ALLOW_HTTP": "true",
        }

    def url(self, prefix: str) -> str:
        return f"s3://{BUCKET}/{prefix}"


@contextlib.contextmanager
def serving() -> Iterator[Store]:
    """A store with one empty bucket, known to this process and to those it starts."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    store = Store(port)
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    quiet = subprocess.DEVNULL
    process = subprocess.Popen(command, stdout=quiet, stderr=quiet, stdin=quiet)
    try:
        _make_bucket(store, process)
        with mock.patch.dict(os.environ, store.environment):
            yield store
    finally:
        process.kill()
        process.wait()


def _make_bucket(store: Store, process: subprocess.Popen[bytes]) -> None:
    asked = urllib.request.Request(f"{store.endpoint}/{BUCKET}", method="PUT")
    deadline = time.monotonic() + _PATIENCE_S
    rest = threading.Event()
    while True:
        try:
            urllib.request.urlopen(asked, timeout=_PATIENCE_S).close()
        except (urllib.error.URLError, OSError):
            if process.poll() is not None or time.monotonic() > deadline:
                raise
            rest.wait(0.05)
        else:
            return
