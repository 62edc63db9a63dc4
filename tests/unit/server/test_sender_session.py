"""Frames of one connection, without a socket: order, answers, refusals. Over the wire it is
driven in tests/server/test_sender.py."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from penstock.engine.handle import Handle
from penstock.errors import Closed, LogFailed, Overloaded, TopicNotFound
from penstock.server.auth import ANYONE
from penstock.server.sender_session import SenderSession
from penstock.server.websocket import WebSocketCallbacks
from penstock.wire.sender_protocol import Reply, decode_reply
from tests.server.sending import (
    DURABLE,
    INTERNAL,
    OK,
    PARSE,
    SCHEMA,
    WRITE,
    frame,
    new_incarnation,
    raw_frame,
)
from tests.unit.server.support import Site, on_loop, settled, until


class Socket:
    """A WebSocket that keeps what is sent, and gives frames when they are wanted."""

    def __init__(self) -> None:
        self.peer: WebSocketCallbacks | None = None
        self.replies: list[Reply] = []
        self.closed: list[int] = []
        self.waiting: list[bytes] = []

    def attach(self, peer: WebSocketCallbacks) -> None:
        self.peer = peer

    def send_binary(self, data: bytes) -> None:
        assert not self.closed, "said after the goodbye"
        self.replies.append(decode_reply(data))

    def close(self, code: int = 1000, reason: str = "") -> None:
        self.closed.append(code)

    def bring(self, *frames: bytes) -> None:
        self.waiting += frames
        self.go_on()

    def go_on(self) -> None:
        assert self.peer is not None
        while self.waiting and not self.peer.is_busy():
            self.peer.on_binary(self.waiting.pop(0))


class Talk:
    """A connection to a server without a listener."""

    def __init__(self, *, first: int = 0, is_durable: bool = False, **settings: Any) -> None:
        self.site = Site(**settings)
        self.ended: list[SenderSession] = []
        self.connect(first, is_durable=is_durable)

    def connect(self, first: int = 0, *, is_durable: bool = False) -> None:
        self.socket = Socket()
        self.intake = SenderSession(
            self.site.service,
            self.socket,  # type: ignore[arg-type]
            ANYONE,
            first,
            self.ended.append,
            is_durable=is_durable,
        )
        assert self.socket.peer is not None
        self.peer = self.socket.peer
        self.peer.on_text(b'{"incarnation":"%s"}' % new_incarnation().encode())

    async def answered(self, status: int, count: int) -> None:
        await until(lambda: any((r.status, r.count) == (status, count) for r in self.replies))

    @property
    def replies(self) -> list[Reply]:
        return self.socket.replies

    def rows(self, topic: str) -> list[Any]:
        return [record.data for record in self.site.log.read(topic, 0, limit=1000).records]


@on_loop
async def test_frames_are_answered_when_they_are_in_the_topic() -> None:
    talk = Talk(first=5)

    talk.socket.bring(*[frame(5 + n, "t", n) for n in range(200)])
    await talk.answered(OK, 199)

    assert talk.rows("t") == list(range(200))
    counts = [reply.count for reply in talk.replies]
    assert counts == sorted(set(counts))
    assert not talk.socket.closed
    await talk.site.close()


@on_loop
async def test_no_more_than_so_many_are_under_way() -> None:
    talk = Talk()
    talk.site.log.create("t")

    talk.socket.bring(*[frame(n, "t", n) for n in range(200)])

    assert len(talk.intake._frames) <= 64
    assert talk.socket.waiting
    await talk.answered(OK, 199)
    await talk.site.close()


@on_loop
async def test_nothing_is_taken_while_a_topic_is_made() -> None:
    talk = Talk()

    talk.socket.bring(frame(0, "t", 0), frame(1, "u", 1))

    assert talk.peer.is_busy()
    assert len(talk.socket.waiting) == 1
    await talk.answered(OK, 1)
    await talk.site.close()


@pytest.mark.parametrize(
    ("bad", "status"),
    [
        (b"garbage", PARSE),
        (raw_frame(1, b"garbage"), SCHEMA),
        (frame(1, "_audit", 1), SCHEMA),
        (frame(1, "full", 1, 2), SCHEMA),
    ],
)
@on_loop
async def test_a_refusal_comes_last_and_nothing_is_taken_behind_it(bad: bytes, status: int) -> None:
    talk = Talk()
    talk.site.log.create("full", discard="reject", cap_records=1)

    talk.socket.bring(frame(0, "t", 0), bad, frame(2, "t", 2))
    await until(lambda: talk.socket.closed)

    assert [(reply.status, reply.count) for reply in talk.replies] == [(OK, 0), (status, 1)]
    assert talk.socket.closed == [1000]
    talk.socket.go_on()
    await settled()
    assert talk.rows("t") == [0]
    await talk.site.close()


@on_loop
async def test_nothing_is_taken_behind_a_refusal_that_came_while_a_topic_was_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The topic would remember the second frame, and with it the one that it never got."""
    talk = Talk(is_durable=True, max_total_bytes=50)
    talk.site.log.create("t", durability="disk")
    may_sync = threading.Event()
    sync_all = talk.site.log.core.sync_all

    def hardened(handle: Handle) -> None:
        may_sync.wait()
        sync_all(handle)

    monkeypatch.setattr(talk.site.log.core, "sync_all", hardened)

    talk.socket.bring(frame(0, "t", 0))
    await talk.answered(OK, 0)
    talk.socket.bring(frame(1, "new", "x" * 100), frame(2, "new", "small"))
    await until(lambda: talk.intake._frames and talk.intake._frames[0].error is not None)
    await settled(20)
    may_sync.set()
    await until(lambda: talk.socket.closed)

    assert [(reply.status, reply.count) for reply in talk.replies][-1] == (WRITE, 1)
    assert talk.rows("new") == []
    await talk.site.close()


@on_loop
async def test_a_frame_that_is_in_its_topic_already_needs_no_room() -> None:
    talk = Talk(max_total_bytes=8)
    talk.site.log.create("t")
    incarnation = b'{"incarnation":"%s"}' % new_incarnation().encode()
    for _ in range(2):
        talk.connect()
        talk.peer.on_text(incarnation)

        talk.socket.bring(frame(0, "t", "12345"))
        await talk.answered(OK, 0)

    assert talk.rows("t") == ["12345"]
    await talk.site.close()


@on_loop
async def test_a_sync_that_fails_in_any_way_ends_the_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    talk = Talk(is_durable=True)
    talk.site.log.create("t", durability="disk")

    def broken(handle: Handle) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(talk.site.log.core, "sync_all", broken)

    talk.socket.bring(frame(0, "t", 0))
    await until(lambda: talk.socket.closed)

    assert talk.socket.closed == [1013]
    await talk.site.close()


@on_loop
async def test_a_full_topic_is_a_refusal_that_passes() -> None:
    talk = Talk()
    talk.site.log.create("t", discard="reject", cap_records=1)

    talk.socket.bring(frame(0, "t", 0), frame(1, "t", 1))
    await until(lambda: talk.socket.closed)

    assert [(reply.status, reply.count) for reply in talk.replies] == [(OK, 0), (WRITE, 1)]
    await talk.site.close()


@on_loop
async def test_syncs_are_told_before_a_refusal() -> None:
    talk = Talk(is_durable=True)

    talk.socket.bring(frame(0, "t", 0), b"garbage")
    await until(lambda: talk.socket.closed)

    assert [(reply.status, reply.count) for reply in talk.replies] == [
        (OK, 0),
        (DURABLE, 0),
        (PARSE, 1),
    ]
    await talk.site.close()


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (LogFailed("/x", reason="disk"), 1013),
        (Closed("gone"), 1013),
        (TopicNotFound("t"), 1013),
        (Overloaded("busy", retry_after_ms=1), 1013),
        (RuntimeError("a bug"), INTERNAL),
    ],
    ids=lambda value: type(value).__name__,
)
@on_loop
async def test_a_failure_of_the_log_is_not_the_frames_fault(error: Exception, said: int) -> None:
    talk = Talk()
    talk.site.log.create("t")
    talk.socket.bring(frame(0, "t", 0))
    (taken,) = talk.intake._frames

    talk.intake._fail(taken, 0, error)

    if said == 1013:
        assert talk.socket.closed == [1013]
        assert not talk.replies
    else:
        assert talk.replies[-1].status == said
        assert "a bug" in talk.replies[-1].text
    await talk.site.close()


@pytest.mark.parametrize("text", [b"", b"{}", b'{"incarnation":"00"}', b'{"incarnation":7}'])
@on_loop
async def test_a_text_that_names_nobody_ends_the_connection(text: bytes) -> None:
    talk = Talk()

    talk.peer.on_text(text)
    talk.peer.on_binary(frame(0, "t", 0))

    assert talk.socket.closed == [1008]
    assert not talk.replies
    await talk.site.close()


@on_loop
async def test_frames_before_any_incarnation_end_the_connection() -> None:
    talk = Talk()
    talk.intake._incarnation = b""

    talk.peer.on_binary(frame(0, "t", 0))

    assert talk.socket.closed == [1008]
    await talk.site.close()


@on_loop
async def test_a_server_that_stops_says_goodbye_and_nothing_more() -> None:
    talk = Talk()
    talk.site.log.create("t")
    talk.socket.bring(frame(0, "t", 0))

    talk.intake.finish("shutting_down", "bye")
    await settled(20)
    talk.peer.on_binary(frame(1, "t", 1))
    talk.peer.on_close()

    assert talk.socket.closed == [1001]
    assert talk.ended == [talk.intake]
    await talk.site.close()


@on_loop
async def test_a_sender_that_left_is_told_nothing() -> None:
    talk = Talk()
    talk.socket.bring(frame(0, "t", 0))
    talk.peer.on_close()

    await until(lambda: not talk.intake._is_held)
    await settled(20)

    assert not talk.replies
    await talk.site.close()
