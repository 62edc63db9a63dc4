"""A bare sender: one connection to `/v0/sender`, frame by frame, and what is answered."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import threading
from collections import deque

from websockets.client import ClientProtocol
from websockets.frames import Frame, Opcode
from websockets.http11 import Response
from websockets.protocol import OPEN
from websockets.uri import parse_uri

from penstock.wire.sender_protocol import Reply, decode_reply, pack_record, parcel_head
from penstock.wire.spool_frame import encode_frame_parts
from tests.server.support import Api, compact
from tests.support.serving import DEADLINE_S

OK, DURABLE, SCHEMA, PARSE, INTERNAL, SECURITY, WRITE = 0, 2, 3, 5, 6, 8, 9


class Gone(Exception):
    """The server has gone, and everything it said was heard."""


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
    """A context manager. What the server has said is heard whatever becomes of the sending."""

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
        self._protocol = ClientProtocol(parse_uri(f"ws://{host}:{port}/v0/sender"), max_size=None)
        request = self._protocol.connect()
        headers = {"x-penstock-sender": sender, "x-penstock-fsn": str(first)}
        if is_durable:
            headers["x-penstock-durable-ack"] = "on"
        for name, value in api.headers(headers).items():
            request.headers[name] = value
        self._link = socket.create_connection((host, port), DEADLINE_S)
        self._heard: deque[Reply] = deque()
        self._response: Response | None = None
        self._is_ended = False
        self._sending = threading.Lock()
        self._protocol.send_request(request)
        self._flush()
        while self._response is None:
            self._receive()
        assert self._response.status_code == 101, self._response
        self.incarnation = incarnation or new_incarnation()
        self.say(json.dumps({"incarnation": self.incarnation}))

    def __enter__(self) -> Line:
        return self

    def __exit__(self, *_: object) -> None:
        self._link.close()

    @property
    def answered_headers(self) -> dict[str, str]:
        assert self._response is not None
        return {name.lower(): value for name, value in self._response.headers.raw_items()}

    def say(self, text: str) -> None:
        self._protocol.send_text(text.encode())
        self._flush()

    def send(self, *frames: bytes) -> None:
        """Another thread may listen meanwhile."""
        for one in frames:
            with self._sending:
                if self._protocol.state is not OPEN:
                    return  # the server has said goodbye
                self._protocol.send_binary(one)
                self._flush()

    def reply(self) -> Reply:
        while not self._heard:
            if self._is_ended:
                raise Gone
            self._receive()
        return self._heard.popleft()

    def _flush(self) -> None:
        with contextlib.suppress(OSError):
            self._link.sendall(b"".join(self._protocol.data_to_send()))

    def _receive(self) -> None:
        try:
            data = self._link.recv(1 << 16)
        except ConnectionResetError:
            data = b""
        if data:
            self._protocol.receive_data(data)
        self._is_ended = not data
        for event in self._protocol.events_received():
            if isinstance(event, Response):
                self._response = event
            elif isinstance(event, Frame) and event.opcode is Opcode.BINARY:
                self._heard.append(decode_reply(bytes(event.data)))
        with self._sending:
            self._flush()  # pongs, and the answer to a goodbye

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
        """The code with which the server goes; 0 without one."""
        self.until_gone()
        said = self._protocol.close_rcvd
        return 0 if said is None else int(said.code)

    def until_gone(self) -> None:
        """Listen until the server has gone."""
        with contextlib.suppress(Gone):
            while True:
                self.reply()
