"""Peers: what is missing is said with its cure, what is here answers."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from benchmarks import peers
from benchmarks.load_job import Drive
from benchmarks.load_process import run_job
from benchmarks.load_requests import (
    NATS_HELLO,
    http,
    nats_publish,
    xadd,
    xrange,
    xrange_bytes,
)
from benchmarks.peers import NATS, NGINX, REDIS, Peer
from benchmarks.peers_sockets import fill_stream
from benchmarks.server_process import Missing, Running, Server
from penstock.cli.figure import PAYLOAD

ABSENT = Peer("no-such-program-at-all", "some-package", "-v")


def test_a_program_that_is_not_here_has_no_version_and_a_cure() -> None:
    assert ABSENT.path is None
    assert ABSENT.version == ""
    assert "apt-get install some-package" in ABSENT.missing.reason
    assert ABSENT.note == ABSENT.how


@pytest.mark.parametrize("name", ["NGINX", "REDIS", "NATS"])
def test_without_the_program_the_server_is_missing_and_nothing_fails(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peers, name, ABSENT)
    start = {
        "NGINX": peers.nginx,
        "REDIS": lambda folder: peers.redis(folder, "always"),
        "NATS": peers.nats,
    }[name]

    with start(str(tmp_path)) as server:
        assert server == ABSENT.missing


@pytest.mark.parametrize(
    ("peer", "start", "job"),
    [
        (NGINX, peers.nginx, Drive([http("POST", "/", b"{}")], 2, 0.1)),
        (
            REDIS,
            lambda folder: peers.redis(folder, "everysec"),
            Drive([xadd(PAYLOAD, 5)], 2, 0.1, dialect="lines", lines=10),
        ),
        (
            NATS,
            peers.nats,
            Drive(
                [nats_publish(PAYLOAD)],
                2,
                0.1,
                dialect="lines",
                lines=2,
                error=b'"error"',
                hello=NATS_HELLO,
                hello_ends=b"PONG\r\n",
            ),
        ),
    ],
    ids=["nginx", "redis", "nats"],
)
def test_a_peer_that_is_here_answers_what_it_is_sent(
    peer: Peer, start: peers.Start, job: Drive, tmp_path: Path
) -> None:
    if peer.path is None:
        return  # the test before this one is about that

    with start(str(tmp_path)) as server:
        load = run_job(_at(job, server))

    assert not load.failure
    assert load.answers > 0
    assert peer.version


def test_redis_answers_a_range_with_as_many_bytes_as_we_count(tmp_path: Path) -> None:
    if REDIS.path is None:
        return

    with peers.redis(str(tmp_path), "everysec") as server:
        assert isinstance(server, Running)
        fill_stream(server.port, PAYLOAD, 1_500)
        pages = [xrange(0, 500), xrange(500, 500), xrange(1_000, 500)]
        size = xrange_bytes(PAYLOAD, 500)
        load = run_job(_at(Drive(pages, 1, 0.1, dialect="sized", size=size), server))

    assert not load.failure
    assert load.answers > 0


def _at(job: Drive, server: Server) -> Drive:
    assert not isinstance(server, Missing), server.reason
    return msgspec.structs.replace(job, port=server.port)
