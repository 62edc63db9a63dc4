"""Our own server under test, and the few calls that prepare it."""

from __future__ import annotations

import contextlib
import http.client
import os
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from benchmarks.load_requests import JSON_TYPE
from benchmarks.server_process import DidNotStart, Missing, Running, Server, process

COMMAND = (sys.executable, "-m", "penstock.cli.main", "serve")
_CALL_TIMEOUT_S = 30


@contextlib.contextmanager
def own_server(folder: str, environment: Mapping[str, str] | None = None) -> Iterator[Server]:
    """`penstock serve` on a port and a directory of its own; Missing when it does not start.

    `environment` may add variables, such as a PYTHONPATH that leads to another source tree.
    """
    port_file = os.path.join(folder, "port")
    variables = {
        **(environment or {}),
        "PENSTOCK_HOST": "127.0.0.1",
        "PENSTOCK_PORT": "0",
        "PENSTOCK_PORT_FILE": port_file,
        "PENSTOCK_DATA_DIR": os.path.join(folder, "data"),
    }

    def port() -> int | None:
        try:
            with open(port_file, encoding="ascii") as file:
                number = int(file.read().rpartition(":")[2])
            with calls(number) as call:
                return number if call.status("GET", "/v0/ready") == 200 else None
        except (OSError, ValueError, http.client.HTTPException):
            return None

    with contextlib.ExitStack() as held:
        try:
            found: Server = held.enter_context(
                process("penstock", COMMAND, folder, port=port, environment=variables)
            )
        except DidNotStart as error:
            found = Missing(f"penstock serve did not start: {error}")
        yield found


class Calls:
    """Plain calls over one connection, for what is not measured."""

    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_CALL_TIMEOUT_S)

    def status(self, method: str, path: str) -> int:
        self._connection.request(method, path)
        answer = self._connection.getresponse()
        answer.read()
        return answer.status

    def raw(self, method: str, path: str, body: bytes, **headers: str) -> bytes:
        """The answer's bytes; a refusal raises DidNotStart, for nothing can be measured then."""
        sent = {"Content-Type": JSON_TYPE, **headers}
        self._connection.request(method, path, body, sent)
        answer = self._connection.getresponse()
        data = answer.read()
        if answer.status >= 300:
            raise DidNotStart(f"{method} {path}: {answer.status} {data[:200]!r}")
        return data

    def json(self, method: str, path: str, body: object) -> dict[str, Any]:
        data = self.raw(method, path, msgspec.json.encode(body))
        return msgspec.json.decode(data, type=dict[str, Any])

    def close(self) -> None:
        self._connection.close()


@contextlib.contextmanager
def calls(port: int) -> Iterator[Calls]:
    with contextlib.closing(Calls(port)) as made:
        yield made


def create(server: Running, topic: str, **config: object) -> None:
    with calls(server.port) as call:
        call.json("PUT", f"/v0/topics/{topic}", config)
