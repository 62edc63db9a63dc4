"""S11: small bodies that would become large ones."""

from __future__ import annotations

import gzip
import os
import time
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.security.support import MIB, is_alive, post, small_growth
from tests.server.support import api_of
from tests.support.serving import Server

GZIP = {"Content-Encoding": "gzip"}


@pytest.fixture(scope="module")
def victim(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = Server(tmp_path_factory.mktemp("victim")).start()
    api_of(server).create("t")
    yield server
    server.close()


def cpu_seconds(server: Server) -> float:
    """What the server's process has used of the processors, which other processes do not add to."""
    fields = Path(f"/proc/{server.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def zeros(size: int) -> bytes:
    """A gzip stream of so many blanks: one megabyte squeezed, and repeated as it is."""
    squeeze = zlib.compressobj(9, zlib.DEFLATED, -15)
    block = squeeze.compress(b" " * MIB) + squeeze.flush(zlib.Z_FULL_FLUSH)
    start = b"\x1f\x8b\x08\0\0\0\0\0\0\x03"
    return start + block * (size // MIB) + b"\x03\0" + bytes(8)


@pytest.mark.parametrize("size", [16 * MIB, 512 * MIB])
def test_a_bomb_is_refused_before_it_has_grown(victim: Server, size: int) -> None:
    """S11: the ratio is bounded as well as the size, so a thousandfold one stops early."""
    bomb = zeros(size)
    assert size > 900 * len(bomb)

    with small_growth(victim):
        found = [post(victim.address, "/v0/topics/t", bomb, GZIP) for _ in range(10)]

    assert found == [413] * 10
    assert is_alive(victim.address)


def test_a_bomb_is_refused_within_a_second(victim: Server) -> None:
    """S11: a second of work, that is, on a machine that expands it in so long: what the server
    does for five is far less than what expanding one of them takes."""
    bomb = zeros(512 * MIB)
    begun = time.process_time()
    expand = zlib.decompressobj(-15)
    data = bomb[10:]
    while data and not expand.eof:
        expand.decompress(data, MIB)
        data = expand.unconsumed_tail
    whole = time.process_time() - begun

    before = cpu_seconds(victim)
    for _ in range(5):
        assert post(victim.address, "/v0/topics/t", bomb, GZIP) == 413
    used = cpu_seconds(victim) - before

    assert used < whole, (used, whole)


def test_a_bomb_in_a_bomb_is_one_of_them(victim: Server) -> None:
    """S11: a body is expanded once; encodings of encodings are not known."""
    nested = gzip.compress(zeros(64 * MIB))

    with small_growth(victim):
        assert post(victim.address, "/v0/topics/t", nested, GZIP) == 400
        for encoding in ("gzip, gzip", "gzip,gzip", "identity, gzip", "gzip;q=1"):
            headers = {"Content-Encoding": encoding}
            assert post(victim.address, "/v0/topics/t", nested, headers) == 415


@pytest.mark.parametrize("encoding", ["br", "zstd", "deflate", "compress", "lz4", "x-bomb"])
def test_other_encodings_are_not_known(victim: Server, encoding: str) -> None:
    """S11: what is not decoded cannot explode."""
    headers = {"Content-Encoding": encoding}

    assert post(victim.address, "/v0/topics/t", zeros(MIB), headers) == 415


def test_requests_without_records_expand_to_little(victim: Server) -> None:
    """S11: where bodies are small they are small when expanded too."""
    bomb = gzip.compress(b'{"node":["%b"]}' % (b"x" * 2 * MIB))

    with small_growth(victim):
        assert post(victim.address, "/v0/topics/t/diff", bomb, GZIP) == 413


def test_strangers_expand_nothing(victim: Server) -> None:
    """S11: routes that are open to everybody have no body to expand."""
    bomb = zeros(16 * MIB)

    with small_growth(victim, 8 * MIB):
        for target in ("/v0/health", "/v0/openapi.json", "/v0/nothing", "/v0/watch/x"):
            assert post(victim.address, target, bomb, GZIP) in (404, 405)


@pytest.mark.parametrize(
    "spoiled",
    [b"", b"\x1f\x8b", gzip.compress(b"{}")[:-3], gzip.compress(b"{}") + b"x", b"\x1f\x8b" * 99],
    ids=["empty", "a beginning", "cut short", "more behind", "noise"],
)
def test_what_is_no_gzip_is_refused(victim: Server, spoiled: bytes) -> None:
    """S11: and so is a second member behind the first, which could hide from a scanner."""
    assert post(victim.address, "/v0/topics/t", spoiled, GZIP) == 400
    twice = gzip.compress(b'{"records":[') + gzip.compress(b'{"data":1}]}')
    assert post(victim.address, "/v0/topics/t", twice, GZIP) == 400


def test_an_honest_body_is_expanded(victim: Server) -> None:
    """S11: the tests above refuse bombs, not gzip."""
    body = b'{"records":[{"data":"%b"}]}' % b"".join(b"%d," % n for n in range(100_000))

    assert post(victim.address, "/v0/topics/kept", gzip.compress(body), GZIP) == 201
