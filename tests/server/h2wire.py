"""A small HTTP/2 client with prior knowledge, on one connection with several streams."""

from __future__ import annotations

import socket
from collections.abc import Mapping

import h2.config
import h2.connection
import h2.events
import h2.settings

from tests.server.wire import Reply
from tests.support.serving import DEADLINE_S, Address


class Http2:
    """Not for several threads. A context manager."""

    def __init__(self, address: Address) -> None:
        self.socket = socket.create_connection(address, timeout=DEADLINE_S)
        self.authority = f"{address[0]}:{address[1]}"
        settings = h2.config.H2Configuration(client_side=True, header_encoding="utf-8")
        self.connection = h2.connection.H2Connection(config=settings)
        self.connection.initiate_connection()
        self._headers: dict[int, dict[str, str]] = {}
        self._bodies: dict[int, bytearray] = {}
        self._ended: set[int] = set()
        self.is_going_away = False
        self.is_closed = False
        self.flush()

    def __enter__(self) -> Http2:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def start(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
    ) -> int:
        """Send a request; its stream."""
        stream = self.connection.get_next_available_stream_id()
        pairs = [
            (":method", method),
            (":scheme", "http"),
            (":authority", self.authority),
            (":path", path),
            *(headers or {}).items(),
        ]
        self.connection.send_headers(stream, pairs, end_stream=body is None)
        self._bodies[stream] = bytearray()
        self.flush()
        if body is not None:
            self._upload(stream, body)
        return stream

    def finish(self, stream: int) -> Reply:
        """Wait for the whole answer of a stream."""
        while stream not in self._ended:
            self.pump()
        return self._reply(stream)

    def head(self, stream: int) -> Reply:
        """Wait for the headers of the answer."""
        while stream not in self._headers:
            self.pump()
        return self._reply(stream)

    def body_until(self, stream: int, mark: bytes) -> bytes:
        """Wait until the body so far contains `mark`."""
        while mark not in self._bodies[stream]:
            if stream in self._ended:
                raise AssertionError(f"ended without {mark!r}: {bytes(self._bodies[stream])!r}")
            self.pump()
        return bytes(self._bodies[stream])

    def request(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
    ) -> Reply:
        return self.finish(self.start(method, path, headers, body))

    def flush(self) -> None:
        data = self.connection.data_to_send()
        if data:
            self.socket.sendall(data)

    def pump(self) -> None:
        """Take what has come and answer what the protocol wants answered."""
        data = self.socket.recv(1 << 16)
        if not data:
            self.is_closed = True
            raise AssertionError("the server closed the connection")
        for event in self.connection.receive_data(data):
            self._take(event)
        self.flush()

    def _take(self, event: h2.events.Event) -> None:
        match event:
            case h2.events.ResponseReceived():
                self._headers[event.stream_id] = {str(k): str(v) for k, v in event.headers}
            case h2.events.DataReceived():
                self._bodies[event.stream_id] += event.data
                self.connection.acknowledge_received_data(
                    event.flow_controlled_length, event.stream_id
                )
            case h2.events.StreamEnded():
                self._ended.add(event.stream_id)
            case h2.events.StreamReset():
                raise AssertionError(f"stream {event.stream_id} reset: {event.error_code}")
            case h2.events.ConnectionTerminated():
                self.is_going_away = True

    def _upload(self, stream: int, body: bytes) -> None:
        view = memoryview(body)
        while view:
            room = min(
                self.connection.local_flow_control_window(stream),
                self.connection.max_outbound_frame_size,
                len(view),
            )
            if room == 0:
                self.pump()
                continue
            self.connection.send_data(stream, bytes(view[:room]))
            view = view[room:]
            self.flush()
        self.connection.end_stream(stream)
        self.flush()

    def _reply(self, stream: int) -> Reply:
        headers = dict(self._headers[stream])
        return Reply(int(headers.pop(":status")), headers, bytes(self._bodies[stream]))
