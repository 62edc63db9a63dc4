"""Messages of one connection, without a socket: answers, syncs, refusals. Over the wire it is
driven in tests/server/test_qwp*.py."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterable
from typing import Any

import pytest

from penstock import errors
from penstock.compat.qwp import full_topics, ingest
from penstock.compat.qwp.byte_reader import QwpError, QwpStatus
from penstock.compat.qwp.full_topics import DelayedClose, may_pass
from penstock.compat.qwp.ingest import Ingest
from penstock.compat.qwp.resend_detection import Receipts
from penstock.server.auth import ANYONE
from penstock.server.errors import ApiError
from penstock.server.websocket import WebSocketCallbacks
from tests.support import qwp
from tests.support.qwp import Block, Heard, longs, message
from tests.unit.server.support import PATIENCE_S, Site, on_loop, until


class Socket:
    """A WebSocket that keeps what is sent, and whose peer hears nothing of it."""

    delivered_bytes = written_bytes = 0
    bytes_max = 1000
    is_open = was_reset = True

    def __init__(self) -> None:
        self.peer: WebSocketCallbacks | None = None
        self.ingest: Ingest | None = None
        self.heard: list[Heard] = []
        self.closed: list[int] = []
        self.waiting: list[bytes] = []

    def attach(self, peer: WebSocketCallbacks) -> None:
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

    async def _sync_topics(self, topics: Iterable[str]) -> None:
        assert await asyncio.to_thread(self.gate.wait, PATIENCE_S)
        await super()._sync_topics(topics)


class Talk:
    """Connections to a server without a listener."""

    def __init__(self, **settings: Any) -> None:
        self.site = Site(**settings)
        self.receipts = Receipts()

    def connect(self, kind: type[Ingest] = Ingest, *, is_durable: bool = False) -> Socket:
        socket = Socket()
        socket.ingest = kind(
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

    assert max(one.tables["t"] for one in socket.heard) == 3
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
        (QwpError("gap", QwpStatus.GAP), QwpStatus.GAP),
        (errors.InvalidArgument("name"), QwpStatus.SCHEMA),
        (errors.RecordTooLarge("size"), QwpStatus.PARSE),
        (errors.BatchTooLarge("size"), QwpStatus.PARSE),
        (errors.LogFailed("/d", reason="disk"), QwpStatus.WRITE),
        (ApiError(503, "shutting_down", "no"), QwpStatus.INTERNAL),
        (errors.TopicNotFound("t"), QwpStatus.INTERNAL),
        (errors.Closed("closed"), QwpStatus.INTERNAL),
        (ValueError("a bug"), QwpStatus.INTERNAL),
    ],
    ids=lambda one: type(one).__name__ if isinstance(one, Exception) else one.name,
)
def test_what_can_be_tried_again_looks_like_it(error: Exception, status: QwpStatus) -> None:
    assert ingest._status_of(error) is status
    assert not may_pass(error)


@on_loop
async def test_a_full_topic_is_waited_for_in_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(full_topics, "_PAUSE_S", 0.0)
    close, is_held = DelayedClose._close, [True]

    def held(self: DelayedClose, reason: str) -> None:
        """The goodbye after a pause waits until the test is ready for it."""
        if is_held:
            asyncio.get_running_loop().call_later(0.001, held, self, reason)
        else:
            close(self, reason)

    monkeypatch.setattr(DelayedClose, "_close", held)
    talk = Talk()
    talk.site.log.create("t", cap_records=2, discard="reject")
    socket = talk.connect()
    assert socket.peer is not None

    for number in range(5):
        socket.bring(longs("t", number))
    await until(socket.peer.is_busy)
    socket.bring(longs("t", 5))
    assert socket.waiting  # what the client sends ahead stays with it
    is_held.clear()
    await until(lambda: socket.closed)

    assert {one.status for one in socket.heard} == {QwpStatus.OK}
    assert socket.heard[-1].seq == 1
    assert socket.closed == [1001]
    assert socket.waiting == []  # read and dropped, so that the client gets to the goodbye
    assert talk.site.log.topic("t").head_seq == 2
    await talk.site.close()


@on_loop
async def test_who_leaves_a_full_topic_is_not_called_after(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(full_topics, "_PAUSE_S", PATIENCE_S)
    talk = Talk()
    talk.site.log.create("t", cap_records=1, discard="reject")
    socket = talk.connect()
    socket.bring(longs("t", 1))
    socket.bring(longs("t", 2))
    assert socket.peer is not None
    await until(lambda: socket.heard)
    assert socket.ingest is not None
    await until(lambda: socket.ingest._delayed_close.is_pending)

    socket.peer.on_close()

    timer = socket.ingest._delayed_close._timer
    assert timer is not None
    assert timer.cancelled()
    assert not socket.closed
    await talk.site.close()


@pytest.mark.parametrize("cap", [{"cap_records": 15_000}, {"cap_bytes": 15_000}], ids=str)
@on_loop
async def test_more_rows_than_a_topic_may_have_are_refused_before_the_first(
    cap: dict[str, int],
) -> None:
    talk = Talk()
    talk.site.log.create("t", **cap, discard="reject")
    socket = talk.connect()

    socket.bring(longs("t", *range(15_001)))
    await until(lambda: socket.heard)

    assert socket.heard[0].status == QwpStatus.PARSE
    assert talk.site.log.topic("t").head_seq == 0
    await talk.site.close()


@on_loop
async def test_a_message_that_is_too_long_is_refused_behind_the_answers_before_it() -> None:
    talk = Talk()
    socket = talk.connect()
    assert socket.peer is not None
    assert socket.peer.on_overlong is not None
    socket.bring(longs("t", 1))
    socket.bring(longs("t", 2))

    await until(lambda: not socket.waiting)
    socket.peer.on_overlong()
    await until(lambda: socket.closed)

    assert [(one.status, one.seq) for one in socket.heard][-1] == (QwpStatus.PARSE, 2)
    assert max(one.seq for one in socket.heard if one.status == 0) == 1
    assert "more than 1000 bytes" in socket.heard[-1].reason
    assert socket.closed == [1009]
    await talk.site.close()


@on_loop
async def test_behind_a_refusal_a_message_that_is_too_long_ends_the_connection() -> None:
    talk = Talk()
    socket = talk.connect()
    assert socket.peer is not None
    assert socket.peer.on_overlong is not None
    socket.bring(longs("two words", 1))
    await until(lambda: socket.heard)

    socket.peer.on_overlong()
    await until(lambda: socket.closed)

    assert [one.status for one in socket.heard] == [QwpStatus.SCHEMA]
    assert socket.closed == [1009]
    await talk.site.close()


def test_a_bug_is_not_told_to_the_client() -> None:
    assert "secret" not in ingest._reason_of(ValueError("secret"))
