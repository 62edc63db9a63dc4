"""Senders, and servers for them, with one promise broken at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from penstock.directory import snapshot_parts as captures
from penstock.directory.snapshot_parts import TopicPart
from penstock.engine import open_log, opening
from penstock.sender import connection, delivery_loop, sender
from penstock.sender.ack_watermark import AckWatermark
from penstock.sender.connect_string import ConnectOptions, Endpoint
from penstock.sender.opening import open_spool
from penstock.sender.settings import SpoolSettings
from penstock.sender.spool import Spool, Stored
from penstock.server.sender_session import SenderSession
from penstock.topics.idempotency import Producers
from penstock.topics.topic import Topic
from penstock.wire.sender_protocol import Reply, ReplyStatus
from tests.support.server_mutants import Patch

# Servers.


def _producers_forgotten_at_restart() -> list[Patch]:
    """How far a sender has come lives in memory only."""
    open_parts = opening.open_parts

    def forgetful(*given: Any) -> opening.LogContext:
        parts = open_parts(*given)
        for handle in parts.handles.values():
            handle.topic.producers = Producers()
        return parts

    return [(opening, "open_parts", forgetful), (open_log.opening, "open_parts", forgetful)]


def _producers_not_in_checkpoints() -> list[Patch]:
    """And is lost with the part of the log that a checkpoint makes needless."""
    capture = captures.capture

    def forgetful(topic: Topic, **named: Any) -> TopicPart:
        kept, topic.producers = topic.producers, Producers()
        try:
            return capture(topic, **named)
        finally:
            topic.producers = kept

    return [(captures, "capture", forgetful)]


def _frames_taken_twice() -> list[Patch]:
    """Every frame is as good as new."""
    return [(Producers, "has", lambda self, *given: False)]


def _answer_before_place() -> list[Patch]:
    """A frame is answered when it was read."""
    binary = SenderSession._binary

    def hasty(self: SenderSession, data: bytes) -> None:
        self._send(Reply(ReplyStatus.OK, self._received))
        binary(self, data)

    return [(SenderSession, "_binary", hasty)]


# Senders.


def _done_when_sent() -> list[Patch]:
    """A frame is let go before the server has answered."""
    send = delivery_loop._Transmission._send

    def hasty(self: delivery_loop._Transmission, stored: Stored) -> None:
        send(self, stored)
        self._spool.ack(stored.fsn)

    return [(delivery_loop._Transmission, "_send", hasty)]


def _goes_on_behind_what_was_sent() -> list[Patch]:
    """A new connection begins with the first frame that no connection has sent."""
    connect = delivery_loop.DeliveryLoop._connect

    def hasty(self: delivery_loop.DeliveryLoop) -> connection.SenderConnection:
        self._spool.ack(self._highest_sent)
        return connect(self)

    return [(delivery_loop.DeliveryLoop, "_connect", hasty)]


def _numbers_begin_anew() -> list[Patch]:
    """A sender that was closed counts from 0 again, under its old name."""

    def named(settings: SpoolSettings, **given: Any) -> Spool:
        name = settings.sender_id.encode().ljust(16, b"\0")[:16]
        return open_spool(settings, **given, random_bytes=lambda size: name)

    return [(sender, "open_spool", named), (AckWatermark, "read", lambda self: None)]


def _a_name_for_each_connection() -> list[Patch]:
    """Frames that are sent again look like new ones."""
    connect = connection.connect

    def renamed(
        profile: ConnectOptions, host: Endpoint, first_fsn: int
    ) -> connection.SenderConnection:
        made = connect(profile, host, first_fsn)
        send_text = made.send_text
        made.send_text = lambda value: send_text(  # type: ignore[method-assign]
            msgspec.structs.replace(value, incarnation=f"{id(made):032x}")
        )
        return made

    return [(connection, "connect", renamed)]


OF_SERVERS: dict[str, Callable[[], list[Patch]]] = {
    "producers-forgotten-at-restart": _producers_forgotten_at_restart,
    "producers-not-in-checkpoints": _producers_not_in_checkpoints,
    "frames-taken-twice": _frames_taken_twice,
    "answer-before-place": _answer_before_place,
}
OF_SENDERS: dict[str, Callable[[], list[Patch]]] = {
    "done-when-sent": _done_when_sent,
    "goes-on-behind-what-was-sent": _goes_on_behind_what_was_sent,
    "numbers-begin-anew": _numbers_begin_anew,
    "a-name-for-each-connection": _a_name_for_each_connection,
}
