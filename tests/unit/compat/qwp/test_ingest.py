"""Messages of one connection, without a socket: answers, syncs, refusals. Over the wire it is
driven in tests/server/test_qwp*.py."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from penstock import errors
from penstock.compat.qwp import ingest
from penstock.compat.qwp.ingest import Ingest
from penstock.compat.qwp.reading import QwpError, Status
from penstock.compat.qwp.receipts import Receipts
from penstock.engine.handle import Handle
from penstock.server.auth import ANYONE
from penstock.server.errors import ApiError, throttled
from penstock.server.websocket import Peer
from tests.support import qwp
from tests.support.qwp import Block, Heard, longs, message
from tests.unit.server.support import Site, on_loop, until


class Socket:
    """A WebSocket that keeps what is sent, and whose peer hears nothing of it."""

    delivered_bytes = written_bytes = 0
    is_open = was_reset = True

    def __init__(self) -> None:
        self.peer: Peer | None = None
        self.heard: list[Heard] = []
        self.closed: list[int] = []
        self.waiting: list[bytes] = []

    def attach(self, peer: Peer) -> None:
        self.peer = peer

    def framed(self, data: bytes, *, is_binary: bool = False) -> bytes:
        return data

    def write(self, data: bytes) -> None:
        assert not self.closed, "said after the goodbye"
        self.heard.append(qwp.heard(data))

    def close(self, code: int = 1000, reason: str = "") -> None:
        self.closed.append(code)

    def bring(self, *blocks: Block) -> None:
        self.waiting.append(message(*blocks))
        self.go_on()

    def go_on(self) -> None:
        assert self.peer is not None
        while self.waiting and not self.peer.is_busy():
            self.peer.on_binary(self.waiting.pop(0))


class Gated(Ingest):
    """Its syncs wait."""

    gate = threading.Event()

    def _harden(self, handles: list[Handle]) -> None:
        assert self.gate.wait(20)
        super()._harden(handles)


class Talk:
    """Connections to a server without a listener."""

    def __init__(self, **settings: Any) -> None:
        self.site = Site(**settings)
        self.receipts = Receipts()

    def connect(self, kind: type[Ingest] = Ingest, *, is_durable: bool = False) -> Socket:
        socket = Socket()
        kind(
            self.site.service,
            socket,  # type: ignore[arg-type]
            ANYONE,
            lambda: None,
            self.receipts,
            is_durable=is_durable,
        )
        return socket

    async def unheard(self, *blocks: Block) -> None:
        """A connection that ends before its client hears an OK."""
        socket = self.connect()
        socket.bring(*blocks)
        await until(lambda: socket.heard)
        assert socket.peer is not None
        socket.peer.on_close()


# Syncs.


@on_loop
async def test_an_ok_names_the_last_seq_of_all_that_it_covers() -> None:
    """Also when the message that comes last is a repetition, whose rows have old seqs."""
    talk = Talk()
    await talk.unheard(longs("t", 1, at=[10]))
    socket = talk.connect()

    socket.bring(longs("t", 2))
    socket.bring(longs("t", 3))
    socket.bring(longs("t", 1, at=[10]))
    await until(lambda: socket.heard and socket.heard[-1].seq == 2)

    assert socket.heard == [Heard(0, 2, {"t": 3}, "")]
    await talk.site.close()


@on_loop
async def test_a_repetition_takes_nothing_from_what_waits_for_a_sync() -> None:
    talk = Talk()
    await talk.unheard(longs("t", 1, at=[10]))
    Gated.gate.clear()
    socket = talk.connect(Gated, is_durable=True)
    for seq, block in enumerate((longs("t", 2), longs("t", 3), longs("t", 1, at=[10]))):
        socket.bring(block)
        await until(lambda seq=seq: socket.heard and socket.heard[-1].seq == seq)

    Gated.gate.set()
    await until(lambda: len(socket.heard) == 5)

    assert [one.tables for one in socket.heard] == [{"t": n} for n in (2, 3, 1, 2, 3)]
    await talk.site.close()


# Refusals.


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (QwpError("gap", Status.GAP), Status.GAP),
        (errors.InvalidArgument("name"), Status.SCHEMA),
        (errors.RecordTooLarge("size"), Status.PARSE),
        (errors.BatchTooLarge("size"), Status.PARSE),
        (errors.Overloaded("full", retry_after_ms=5), Status.WRITE),
        (throttled("max_topics", 1), Status.WRITE),
        (ApiError(503, "shutting_down", "no"), Status.INTERNAL),
        (errors.TopicNotFound("t"), Status.INTERNAL),
        (errors.Closed("closed"), Status.INTERNAL),
        (ValueError("a bug"), Status.INTERNAL),
    ],
    ids=lambda one: type(one).__name__ if isinstance(one, Exception) else one.name,
)
def test_what_can_be_tried_again_looks_like_it(error: Exception, status: Status) -> None:
    assert ingest._status_of(error) is status


def test_a_bug_is_not_told_to_the_client() -> None:
    assert "secret" not in ingest._reason_of(ValueError("secret"))
