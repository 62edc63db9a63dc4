"""The handshake of senders, and who is counted as connected."""

from __future__ import annotations

import pytest

from tests.unit.server.support import Site, on_loop, settled

NAMED = (
    b"GET /v0/sender HTTP/1.1\r\nhost: localhost\r\nconnection: Upgrade\r\nupgrade: websocket\r\n"
    b"sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
)
GOOD = NAMED + b"x-penstock-sender: edge\r\nx-penstock-fsn: 7\r\n"


def answer(site: Site, request: bytes) -> bytes:
    wire = site.connect()
    wire.first.data_received(request + b"\r\n")
    return b"".join(wire.transport.written)


@on_loop
async def test_a_good_handshake_is_a_websocket_and_is_counted() -> None:
    site = Site()
    wire = site.connect()

    wire.first.data_received(GOOD + b"\r\n")

    said = b"".join(wire.transport.written).lower()
    assert said.startswith(b"http/1.1 101")
    assert b"sec-websocket-accept: s3pplmbitxaq9kygzzhzrbk+xoo=\r\n" in said
    size = site.server.connection_limits.body_bytes_max
    assert b"x-penstock-frame-bytes-max: %d\r\n" % size in said
    assert b"durable-ack" not in said
    assert len(site.server._senders.peers) == 1
    wire.transport.abort()
    await settled()
    assert not site.server._senders.peers
    await site.close()


@on_loop
async def test_syncs_are_promised_to_who_asks_for_them() -> None:
    site = Site()

    said = answer(site, GOOD + b"x-penstock-durable-ack: on\r\n")

    assert b"x-penstock-durable-ack: enabled\r\n" in said
    await site.close()


@pytest.mark.parametrize(
    "request_",
    [
        NAMED,
        NAMED + b"x-penstock-sender: edge\r\n",
        NAMED + b"x-penstock-fsn: 0\r\n",
        NAMED + b"x-penstock-sender: a b\r\nx-penstock-fsn: 0\r\n",
        NAMED + b"x-penstock-sender: edge\r\nx-penstock-fsn: -1\r\n",
        NAMED + b"x-penstock-sender: edge\r\nx-penstock-fsn: 12345678901234567890\r\n",
        GOOD.replace(b"upgrade: websocket\r\n", b""),
        GOOD.replace(b"version: 13", b"version: 8"),
        GOOD.replace(b"dGhl", b"!!!!"),
    ],
)
@on_loop
async def test_a_handshake_that_says_too_little_is_refused(request_: bytes) -> None:
    site = Site()

    said = answer(site, request_)

    assert said.startswith(b"HTTP/1.1 400"), said
    assert not site.server._senders.peers
    await site.close()
