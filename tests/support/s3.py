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
_PORTS_TRIED = 20


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
    store, process = _started()
    try:
        with mock.patch.dict(os.environ, store.environment):
            yield store
    finally:
        process.kill()
        process.wait()


def _started() -> tuple[Store, subprocess.Popen[bytes]]:
    """Another process may take the port that was free: then the server ends, and the next one gets
    another port."""
    for _ in range(_PORTS_TRIED):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        store = Store(port)
        command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
        quiet = subprocess.DEVNULL
        process = subprocess.Popen(command, stdout=quiet, stderr=quiet, stdin=quiet)
        try:
            if _make_bucket(store, process):
                return store, process
        except BaseException:
            process.kill()
            process.wait()
            raise
    raise RuntimeError(f"moto's server ended at once on {_PORTS_TRIED} ports: is it installed?")


def _make_bucket(store: Store, process: subprocess.Popen[bytes]) -> bool:
    """False: the server has ended."""
    asked = urllib.request.Request(f"{store.endpoint}/{BUCKET}", method="PUT")
    deadline = time.monotonic() + _PATIENCE_S
    rest = threading.Event()
    while process.poll() is None:
        try:
            urllib.request.urlopen(asked, timeout=_PATIENCE_S).close()
        except (urllib.error.URLError, OSError):
            if time.monotonic() > deadline:
                raise
            rest.wait(0.05)
        else:
            return process.poll() is None  # else somebody else has answered
    return False
