"""A bare sender: one connection to `/v0/sender`, frame by frame, and what is answered."""

from __future__ import annotations

import json
import os
from types import TracebackType

from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from penstock.wire.sending import Reply, decode_reply, pack_record, parcel_head
from penstock.wire.spool_frame import encode_frame_parts
from tests.server.support import Api, compact

DEADLINE_S = 20.0
OK, DURABLE, SCHEMA, PARSE, INTERNAL, SECURITY, WRITE = 0, 2, 3, 5, 6, 8, 9


def new_incarnation() -> str:
    return os.urandom(16).hex()


def parcel(topic: str, *texts: bytes) -> bytes:
    """The payload of a frame."""
    laid = [pack_record(len(text), 0, 0, 0) + text for text in texts]
    return b"".join([parcel_head(topic, len(texts)), *laid])


def frame(fsn: int, topic: str, *datas: object) -> bytes:
    return raw_frame(fsn, parcel(topic, *(compact(data).encode() for data in datas)))


def raw_frame(fsn: int, payload: bytes = b"") -> bytes:
    return encode_frame_parts(fsn, [payload])


class Line:
    """A context manager."""

    def __init__(
        self,
        api: Api,
        incarnation: str | None = None,
        *,
        first: int = 0,
        is_durable: bool = False,
        sender: str = "edge",
    ) -> None:
        host, port = api.address
        headers = {"x-penstock-sender": sender, "x-penstock-fsn": str(first)}
        if is_durable:
            headers["x-penstock-durable-ack"] = "on"
        self._opening = connect(
            f"ws://{host}:{port}/v0/sender",
            additional_headers=api.headers(headers),
            compression=None,
            proxy=None,
            max_size=None,
        )
        self.socket = self._opening.__enter__()
        self.incarnation = incarnation or new_incarnation()
        self.say(json.dumps({"incarnation": self.incarnation}))

    def __enter__(self) -> Line:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._opening.__exit__(kind, error, trace)

    @property
    def answered_headers(self) -> dict[str, str]:
        response = self.socket.response
        assert response is not None
        return {name.lower(): value for name, value in response.headers.raw_items()}

    def say(self, text: str) -> None:
        self.socket.send(text)

    def send(self, *frames: bytes) -> None:
        for one in frames:
            self.socket.send(one)

    def reply(self) -> Reply:
        data = self.socket.recv(timeout=DEADLINE_S)
        assert isinstance(data, bytes), data
        return decode_reply(data)

    def wait_for(self, status: int, count: int) -> list[Reply]:
        """All answers up to the one that says this. They are good ones, and only grow."""
        told: list[Reply] = []
        while True:
            reply = self.reply()
            assert reply.status in (OK, DURABLE), reply
            before = [one.count for one in told if one.status == reply.status]
            assert not before or before[-1] < reply.count, told
            told.append(reply)
            if (reply.status, reply.count) == (status, count):
                return told

    def refusal(self) -> Reply:
        """The answer that is none of the good ones, after which the server goes."""
        while (reply := self.reply()).status in (OK, DURABLE):
            pass
        assert self.close_code() == 1000
        return reply

    def close_code(self) -> int:
        """The code with which the server goes."""
        closed = self.until_gone()
        assert closed.rcvd is not None, closed
        return int(closed.rcvd.code)

    def until_gone(self) -> ConnectionClosed:
        """Listen until the server has gone."""
        while True:
            try:
                self.reply()
            except ConnectionClosed as closed:
                return closed
