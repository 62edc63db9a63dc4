"""An HTTP/2 client without a socket: the h2 library at the other end of a connection of ours."""

from __future__ import annotations

import json
from typing import Any

import h2.config
import h2.connection
import h2.events
import h2.settings

from penstock.server.http.h2 import Http2Connection
from tests.unit.server.http.support import Desk
from tests.unit.server.support import FakeTransport

Headers = list[tuple[str, str]]


class Client:
    """The other end. What it says arrives in pieces of `size` bytes."""

    def __init__(self, view: Desk, size: int | None = None, **settings: int) -> None:
        self.view = view
        self.size = size
        self.events: list[h2.events.Event] = []
        self.h2 = h2.connection.H2Connection(h2.config.H2Configuration(header_encoding="utf-8"))
        self.server = Http2Connection(view, "10.0.0.7")
        self.transport = FakeTransport(self.server, "10.0.0.7")
        self.is_taking_data = True
        codes = {getattr(h2.settings.SettingCodes, name): n for name, n in settings.items()}
        self.h2.local_settings = h2.settings.Settings(client=True, initial_values=codes)
        self.h2.initiate_connection()
        first = self.h2.data_to_send()
        self.server.start(self.transport, first[:5])
        self._feed(first[5:])
        self.pump()

    def _feed(self, data: bytes) -> None:
        for at in range(0, len(data), self.size or len(data) or 1):
            self.server.data_received(data[at : at + (self.size or len(data))])

    def pump(self) -> None:
        """Bytes go back and forth until nobody has more to say."""
        while True:
            heard = b"".join(self.transport.written)
            self.transport.written.clear()
            for event in self.h2.receive_data(heard) if heard else []:
                self.events.append(event)
                if isinstance(event, h2.events.DataReceived) and self.is_taking_data:
                    self.h2.acknowledge_received_data(
                        event.flow_controlled_length or 0, event.stream_id or 0
                    )
            said = self.h2.data_to_send()
            if not said and not heard:
                return
            self._feed(said)

    def send(
        self,
        path: str,
        body: bytes | None = None,
        *,
        method: str = "POST",
        is_whole: bool = True,
        more: Headers | None = None,
    ) -> int:
        number = self.h2.get_next_available_stream_id()
        headers = [(":method", method), (":path", path), (":scheme", "http")]
        headers += [(":authority", "localhost"), *(more or [])]
        self.h2.send_headers(number, headers, end_stream=body is None and is_whole)
        if body is not None:
            self.h2.send_data(number, body, end_stream=is_whole)
        self.pump()
        return number

    def of(self, kind: type, number: int) -> list[Any]:
        return [e for e in self.events if isinstance(e, kind) and e.stream_id == number]

    def status(self, number: int) -> int:
        (event,) = self.of(h2.events.ResponseReceived, number)
        return int(dict(event.headers)[":status"])

    def headers(self, number: int) -> dict[str, str]:
        (event,) = self.of(h2.events.ResponseReceived, number)
        return dict(event.headers)

    def body(self, number: int) -> bytes:
        return b"".join(event.data for event in self.of(h2.events.DataReceived, number))

    def is_ended(self, number: int) -> bool:
        return bool(self.of(h2.events.StreamEnded, number))

    def was_reset(self, number: int) -> list[int]:
        return [event.error_code for event in self.of(h2.events.StreamReset, number)]

    def beat(self, ms: float) -> None:
        self.view.clock.advance(ms)
        self.view.connection_limits.now = self.view.clock.monotonic()
        self.server.beat(self.view.connection_limits.now)
        self.pump()


def code(client: Client, number: int) -> str:
    return str(json.loads(client.body(number))["error"]["code"])
