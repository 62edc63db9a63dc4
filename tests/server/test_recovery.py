"""While the log is being replayed: the port answers, and says how far it is.

A replay is too quick to be met by chance. The test holds it up with a lease on a file of the log:
the kernel lets the server's `open` wait until the lease is given back. The port file may come only
when the directory is known to be ours, so the port is looked up in the process itself.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import penstock
from tests.server.support import JSON, Api, api_of, refused
from tests.server.wire import Connection, Reply
from tests.support.serving import Server, eventually

RECORDS = 1000
LISTENING = "0A"  # as the kernel writes it


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """Not started yet, with a log to replay."""
    server = Server(tmp_path / "home", {"PENSTOCK_WAL_SHARDS": "1"})
    with penstock.open(server.data_dir, wal_shards=1) as log:
        log.append("t", list(range(RECORDS)))
    yield server
    server.close()


@contextmanager
def held_up(server: Server) -> Iterator[None]:
    """Inside, nobody else gets the log's file open."""
    (path,) = (server.data_dir / "wal").rglob("wal-*.log")
    file = os.open(path, os.O_RDWR)
    try:
        fcntl.fcntl(file, fcntl.F_SETSIG, signal.SIGURG)  # whoever waits is told of by a signal
        fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        yield
    finally:
        os.close(file)


def port_of(pid: int) -> int:
    """The port a process listens on; 0 when there is none yet."""
    sockets = set()
    for link in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):
            sockets.add(os.readlink(link).removeprefix("socket:[").removesuffix("]"))
    for line in Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]:
        _, local, _, state, *_, inode = line.split()[:10]
        if state == LISTENING and inode in sockets:
            return int(local.partition(":")[2], 16)
    return 0


def bound(server: Server) -> Api:
    """Start it, and do not wait for more than its port."""
    server.start(until="nothing")
    port = eventually(lambda: port_of(server.pid), "a port")
    return Api(("127.0.0.1", port))


def not_ready(reply: Reply) -> float:
    """The refusal of a server that is recovering; how far it is."""
    detail = refused(reply, 503, "not_ready")
    assert int(reply.headers["retry-after"]) >= 1
    assert 0 <= detail["replay_progress"] <= 1
    return float(detail["replay_progress"])


def test_a_recovering_server_refuses_and_says_how_far_it_is(server: Server) -> None:
    with held_up(server), Connection(bound(server).address) as wire:
        before = not_ready(wire.request("GET", "/v0/ready"))
        for reply in (
            wire.request("GET", "/readyz"),
            wire.request("GET", "/v0/topics"),
            wire.request("GET", "/v0/topics/t"),
            wire.request("PUT", "/v0/topics/u"),
            wire.request("POST", "/v0/topics/t", b'{"records":[{"data":1}]}', JSON),
            wire.request("POST", "/v0/topics/t/diff", b"{}", JSON),
            wire.request("POST", "/v0/topics/t/delete", b'{"before_seq":1}', JSON),
            wire.request("DELETE", "/v0/topics/t"),
            wire.request("POST", "/v0/watch", b'{"topics":{"t":{}}}', JSON),
            wire.request("POST", "/v0/batch", b'{"writes":[]}', JSON),
            wire.request("GET", "/v0/topics/t/positions"),
        ):
            assert not_ready(reply) >= before

    eventually(server.port_file.exists, "a port file")
    eventually(lambda: api_of(server).get("/v0/ready").status == 200, "readiness")
    assert api_of(server).get("/v0/ready").json == {
        "status": "ready",
        "wal_replay_complete": True,
        "topics": 1,
    }
    assert api_of(server).state("t")["count"] == RECORDS


@pytest.mark.parametrize("target", ["/v0/health", "/healthz", "/v0/openapi.json"])
def test_a_recovering_server_is_healthy_and_shows_its_document(server: Server, target: str) -> None:
    with held_up(server):
        api = bound(server)

        assert api.get(target).status == 200
        not_ready(api.get("/v0/ready"))


def test_a_recovering_server_gives_no_socket_and_no_stream(server: Server) -> None:
    upgrade = {
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
    }
    with held_up(server):
        api = bound(server)

        not_ready(api.get("/v0/ws", upgrade))
        not_ready(api.get("/v0/watch/wid_AAAAAAAAAAAAAAAAAAAAAA"))


def test_a_recovering_server_can_be_stopped(server: Server) -> None:
    with held_up(server):
        bound(server)
        server.terminate()

    assert server.wait() == 0
    server.start()
    assert api_of(server).state("t")["count"] == RECORDS
