"""The steps of a stop; by a signal and over sockets: tests/server/test_shutdown.py."""

from __future__ import annotations

import asyncio

import pytest

from penstock.errors import Closed
from penstock.storage import snapshots
from tests.unit.server.support import Site, on_loop, until


@on_loop
async def test_a_stream_gets_a_last_message_and_ends() -> None:
    site = Site()
    await site.call("PUT", "/v0/topics/a")
    stream = await site.stream({"topics": {"a": {}}})

    await site.server.stop()

    assert b'"code":"server_shutting_down"' in stream.text
    assert stream.is_closed


@on_loop
async def test_a_request_in_progress_is_answered_before_the_log_is_closed() -> None:
    site = Site(drain_timeout_ms=60_000)
    await site.call("PUT", "/v0/topics/a")
    poll = site.send("POST", "/v0/topics/a/diff", {"wait_ms": 3_600_000})
    await asyncio.sleep(0)

    await site.server.stop()

    assert snapshots.numbers(site.fs, "/penstock/meta") == [1]
    assert [response.status for response in poll.responses] == [200]
    with pytest.raises(Closed):
        site.log.append("a", [1])


@on_loop
async def test_a_connection_that_does_not_end_is_cut_when_the_time_is_over() -> None:
    site = Site(drain_timeout_ms=1)
    wire = site.connect()
    wire.transport.leaves = False
    wire.transport.stuck = 100
    wire.feed(b"POST /v0/topics/a HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9\r\n\r\n")

    await site.server.stop()

    assert wire.transport.is_aborted
    await until(lambda: not len(site.server.connection_limits))
