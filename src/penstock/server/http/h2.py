"""HTTP/2 on one connection, cleartext with prior knowledge or over TLS. The h2 library speaks
the protocol; this puts its streams into the same exchanges as HTTP/1.1."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable
from typing import Final

import h2.config
import h2.connection
import h2.errors
import h2.events
import h2.exceptions
import h2.settings

from penstock.server.errors import ApiError, response_of
from penstock.server.http import compression, stalled_peers
from penstock.server.http.connection_limits import BODY_GRACE_S, HEADER_BYTES_MAX, TURN_MAX
from penstock.server.http.h1 import ConnectionContext
from penstock.server.http.message import Request, Response

_STREAMS_MAX: Final = 1024
_STREAM_WINDOW: Final = 1 << 20
_CONNECTION_WINDOW: Final = 4 << 20
_PING_S: Final = 20.0
_FRAMING_PLAIN: Final = 3
_FEED_BYTES: Final = 1 << 14  # parsed in one call: small frames cost the most per byte
_FRAME_BYTES_MAX: Final = 9 + (1 << 14)  # the default of the protocol, which we do not raise
# Frames that move no request on. A peer earns some with time and with the data it takes.
_IDLE_FRAMES_MAX: Final = 2_000
_IDLE_FRAMES_PER_BEAT: Final = 200
_IDLE_FRAMES_PER_DATA: Final = 2
_IDLE_FRAMES: Final = (
    h2.events.PingReceived,
    h2.events.PingAckReceived,
    h2.events.PriorityUpdated,
    h2.events.RemoteSettingsChanged,
    h2.events.StreamReset,
    h2.events.UnknownFrameReceived,
    h2.events.WindowUpdated,
)
Headers = list[tuple[bytes, bytes]]


class Http2Stream:
    """One request and its answer, which may be endless. Unsent bytes wait for the peer's
    window; `is_full` keeps them few."""

    framing = _FRAMING_PLAIN

    def __init__(self, connection: Http2Connection, number: int, request: Request) -> None:
        self._connection = connection
        self.number = number
        self.request = request
        self.body = bytearray()
        self.body_bytes = 0
        self.body_bytes_max = 0
        self.begun_s = connection.connection_limits.now
        self.is_complete = False
        self.is_answered = False
        self.waiting = bytearray()  # answer bytes that the peer has no window for
        self.is_ending = False
        self.is_endless = False
        self.extra: tuple[tuple[bytes, bytes], ...] = ()
        self.on_drain: Callable[[], None] | None = None
        self.on_close: Callable[[], None] | None = None

    def respond(self, response: Response) -> None:
        if self.is_answered:
            return
        accepted = self.request.headers.pop(b"accept-encoding", b"")  # looked at once
        is_large = len(response.body) >= compression.ANSWER_BYTES_MIN
        if is_large and compression.is_accepted(accepted):
            compression.compress(response, self.respond)
            return
        headers: Headers = [
            (b":status", b"%d" % response.status),
            (b"date", self._connection.connection_limits.date),
            (b"x-content-type-options", b"nosniff"),
            (b"content-type", response.content_type),
            (b"content-length", b"%d" % len(response.body)),
            *response.headers,
            *self.extra,
        ]
        self.is_answered = self.is_ending = True
        body = b"" if self.request.method == "HEAD" else response.body
        self._connection.answer(self, headers, body)

    def start_stream(self, headers: tuple[tuple[bytes, bytes], ...]) -> Http2Stream:
        self.is_answered = self.is_endless = True
        date = self._connection.connection_limits.date
        first = (b":status", b"200"), (b"date", date), (b"x-content-type-options", b"nosniff")
        self._connection.answer(self, [*first, *headers, *self.extra], b"")
        return self

    def framed(self, data: bytes) -> bytes:
        return data

    def write(self, data: bytes) -> None:
        if not self.is_ending:
            self._connection.queue(self, data)
            self._connection.send(self)

    @property
    def is_full(self) -> bool:
        most = self._connection.connection_limits.settings.stream_buffer_bytes
        return self._connection.is_full or len(self.waiting) > most

    def buffered(self) -> int:
        return len(self.waiting) + self._connection.buffered()

    def close(self) -> None:
        if not self.is_ending:
            self.is_ending = True
            self._connection.send(self)

    def abort(self) -> None:
        self._connection.reset(self)


class Http2Connection(asyncio.Protocol):
    """Event loop only."""

    def __init__(self, host: ConnectionContext, peer: str) -> None:
        self._host = host
        self.connection_limits = host.connection_limits
        self._peer = peer
        self._transport: asyncio.Transport | None = None
        self._h2 = h2.connection.H2Connection(
            h2.config.H2Configuration(client_side=False, header_encoding=None)
        )
        self._streams: dict[int, Http2Stream] = {}
        self._unhandled: deque[Http2Stream] = deque()  # read, but it is not their turn
        self._turn_left = 0
        self._is_scheduled = False
        self._unsent_bytes = 0  # of all streams, for want of a window
        self._idle_frames = 0
        self._is_window_opened = False
        self.is_full = False
        self._is_shut = False
        self._heard_s = self.connection_limits.now
        self._begun_s = 0.0  # since when bytes come that make no frame yet
        self._pinged_s = 0.0
        self._stall = stalled_peers.Stall(self.connection_limits.stall_timeout_s)

    def start(self, transport: asyncio.Transport, data: bytes) -> None:
        """Take over a connection whose first bytes are HTTP/2."""
        transport.set_protocol(self)
        self._transport = transport
        if not self.connection_limits.admit(self, self._peer):
            transport.abort()
            return
        self._h2.local_settings = h2.settings.Settings(
            client=False,
            initial_values={
                h2.settings.SettingCodes.MAX_CONCURRENT_STREAMS: _STREAMS_MAX,
                h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: _STREAM_WINDOW,
                h2.settings.SettingCodes.MAX_HEADER_LIST_SIZE: HEADER_BYTES_MAX,
            },
        )
        self._h2.initiate_connection()
        self._h2.increment_flow_control_window(_CONNECTION_WINDOW - 65_535)
        self._flush()
        if data:
            self.data_received(data)

    # asyncio.Protocol.

    def data_received(self, data: bytes) -> None:
        self._pinged_s = 0.0
        self._turn_left = TURN_MAX
        if not self._begun_s:
            self._begun_s = self.connection_limits.now
        try:
            for at in range(0, len(data), _FEED_BYTES):
                for event in self._h2.receive_data(data[at : at + _FEED_BYTES]):
                    self._heard_s = self.connection_limits.now
                    self._begun_s = 0.0  # something is whole; single bytes are nothing yet
                    self._take(event)
                self._check_peer()
        except h2.exceptions.ProtocolError:
            self._flush()
            if self._transport is not None:
                self._transport.close()
            return
        if self._is_window_opened:  # once, however many frames said so
            self._is_window_opened = False
            self._window_opened()
        self._handle()  # streams that were reset may have made room
        self._flush()

    def _check_peer(self) -> None:
        """Check bounds that the library does not check: it buffers 16 MiB of a frame before it
        refuses the frame."""
        if self._idle_frames > _IDLE_FRAMES_MAX:
            code = h2.errors.ErrorCodes.ENHANCE_YOUR_CALM
        elif len(self._h2.incoming_buffer._data) > _FRAME_BYTES_MAX:
            code = h2.errors.ErrorCodes.FRAME_SIZE_ERROR
        else:
            return
        self._h2.close_connection(code)
        raise h2.exceptions.ProtocolError

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, error: Exception | None) -> None:
        self.connection_limits.forget(self, self._peer)
        self._transport = None
        for number in list(self._streams):
            self._gone(number)

    def pause_writing(self) -> None:
        self.is_full = True
        if self._transport is not None:
            self._transport.pause_reading()  # each frame read adds unsent bytes, even a ping

    def resume_writing(self) -> None:
        self.is_full = False
        self._turn_left = TURN_MAX
        if self._transport is not None:
            self._transport.resume_reading()
        self._drained(list(self._streams.values()))

    # Events of the peer.

    def _take(self, event: h2.events.Event) -> None:
        if isinstance(event, _IDLE_FRAMES):
            self._idle_frames += 1
        match event:
            case h2.events.RequestReceived():
                self._begin(
                    int(event.stream_id or 0), event.headers or [], event.stream_ended is not None
                )
            case h2.events.DataReceived():
                self._data(event)
            case h2.events.StreamEnded():
                self._complete(int(event.stream_id or 0))
            case h2.events.StreamReset():
                self._gone(int(event.stream_id or 0))
            case h2.events.WindowUpdated() | h2.events.RemoteSettingsChanged():
                self._is_window_opened = True
            case h2.events.ConnectionTerminated():
                if self._transport is not None:
                    self._transport.close()
            case _:
                pass

    def _begin(self, number: int, raw: list[tuple[bytes, bytes]], is_whole: bool) -> None:
        headers: dict[bytes, bytes] = {}
        for name, value in raw:
            name, value = bytes(name), bytes(value)
            headers[name] = headers[name] + b"," + value if name in headers else value
        path, _, query = headers.pop(b":path", b"/").partition(b"?")
        method = headers.pop(b":method", b"GET").decode("latin-1")
        headers.pop(b":scheme", None)
        authority = headers.pop(b":authority", None)
        if authority is not None:
            headers[b"host"] = authority
        request = Request(
            method,
            path.decode("latin-1"),
            query.decode("latin-1"),
            headers,
            _NO_EXCHANGE,
            self.connection_limits.monotonic(),
        )
        stream = Http2Stream(self, number, request)
        request.exchange = stream
        request.peer = self._peer
        self._streams[number] = stream
        stream.body_bytes_max = self.connection_limits.body_bytes_max
        text = headers.get(b"content-length", b"0")
        length = int(text) if text.isdigit() else 0
        if not text.isdigit():  # h2 checks only the first of several
            message = "invalid or repeated Content-Length: expected one number"
            stream.respond(response_of(ApiError(400, "bad_request", message)))
        elif length > stream.body_bytes_max:
            self._too_large(stream)
        elif not is_whole:
            self._screen(stream, length)

    def _screen(self, stream: Http2Stream, length: int) -> None:
        """Refuse a body that the caller may not send, or not of this size, before it is read."""
        try:
            stream.body_bytes_max = self._host.screen(stream.request)
        except ApiError as error:
            stream.respond(response_of(error))
        else:
            if length > stream.body_bytes_max:
                self._too_large(stream)

    def _data(self, event: h2.events.DataReceived) -> None:
        stream = self._streams.get(int(event.stream_id or 0))
        self._h2.acknowledge_received_data(event.flow_controlled_length or 0, event.stream_id or 0)
        if stream is None or stream.is_answered:
            return
        data = event.data or b""
        if not data and event.stream_ended is None:
            self._idle_frames += 1
        stream.body_bytes += len(data)
        if stream.body_bytes > stream.body_bytes_max:
            self._too_large(stream)
        elif stream.request.method != "GET":  # the body of a GET is ignored
            stream.body += data

    def _complete(self, number: int) -> None:
        stream = self._streams.get(number)
        if stream is None or stream.is_answered:
            return
        stream.is_complete = True
        stream.request.body = bytes(stream.body)
        stream.body = bytearray()
        self._unhandled.append(stream)
        self._handle()

    def _handle(self) -> None:
        most = self.connection_limits.settings.stream_buffer_bytes
        while self._unhandled and self._unsent_bytes <= most and not self.is_full:
            if not self._turn_left:
                if not self._is_scheduled:
                    self._is_scheduled = True
                    asyncio.get_running_loop().call_soon(self._go_on)
                return
            self._turn_left -= 1
            stream = self._unhandled.popleft()
            if stream.number in self._streams:  # else it was reset while it waited
                self._host.handle(stream.request)

    def _go_on(self) -> None:
        """Handle the next few requests that were read."""
        self._is_scheduled = False
        self._turn_left = TURN_MAX
        self._handle()
        self._flush()

    def _too_large(self, stream: Http2Stream) -> None:
        most = stream.body_bytes_max
        error = ApiError(413, "payload_too_large", f"the body is larger than {most} bytes")
        stream.body = bytearray()
        stream.respond(response_of(error))

    # Answers.

    def answer(self, stream: Http2Stream, headers: Headers, body: bytes) -> None:
        if self._transport is None or stream.number not in self._streams:
            return
        try:
            self._h2.send_headers(stream.number, headers)
        except h2.exceptions.ProtocolError:
            self._gone(stream.number)
            return
        self.queue(stream, body)
        self.send(stream)

    def queue(self, stream: Http2Stream, data: bytes) -> None:
        stream.waiting += data
        self._unsent_bytes += len(data)

    def send(self, stream: Http2Stream) -> None:
        """Send as much as the peer's window allows."""
        number = stream.number
        if self._transport is None or number not in self._streams:
            return
        try:
            while stream.waiting:
                size = min(
                    self._h2.local_flow_control_window(number),
                    self._h2.max_outbound_frame_size,
                    len(stream.waiting),
                )
                if size <= 0:
                    break
                self._h2.send_data(number, bytes(stream.waiting[:size]))
                del stream.waiting[:size]
                self._unsent_bytes -= size
                self._idle_frames = max(0, self._idle_frames - _IDLE_FRAMES_PER_DATA)
            if stream.is_ending and not stream.waiting:
                self._h2.end_stream(number)
                self._streams.pop(number, None)
                if not stream.is_complete:  # answered before it was read: take no more of it
                    self._h2.reset_stream(number, h2.errors.ErrorCodes.NO_ERROR)
        except h2.exceptions.ProtocolError:
            self._gone(number)
        self._flush()

    def buffered(self) -> int:
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    def reset(self, stream: Http2Stream) -> None:
        if stream.number in self._streams:
            self._h2.reset_stream(stream.number, h2.errors.ErrorCodes.CANCEL)
            self._gone(stream.number)
            self._flush()

    def _window_opened(self) -> None:
        streams = list(self._streams.values())
        for stream in streams:
            if stream.waiting:
                self.send(stream)
        self._drained(streams)

    def _drained(self, streams: list[Http2Stream]) -> None:
        for stream in streams:
            if stream.on_drain is not None and not stream.is_full:
                stream.on_drain()
        self._handle()

    def _gone(self, number: int) -> None:
        stream = self._streams.pop(number, None)
        if stream is not None:
            stream.is_answered = stream.is_ending = True
            self._unsent_bytes -= len(stream.waiting)
            stream.waiting.clear()
            if stream.on_close is not None:
                stream.on_close()
        self._close_if_done()

    def _flush(self) -> None:
        if self._transport is not None:
            data = self._h2.data_to_send()
            if data:
                self._transport.write(data)
            self._close_if_done()

    def _close_if_done(self) -> None:
        transport = self._transport
        if self._is_shut and not self._streams and transport is not None:
            self._transport = None
            with contextlib.suppress(h2.exceptions.ProtocolError):
                self._h2.close_connection()
            transport.write(self._h2.data_to_send())
            transport.close()

    # What the watchman calls.

    def beat(self, now: float) -> None:
        for stream in list(self._streams.values()):
            if stream.is_complete or stream.is_answered:
                continue
            spent = now - stream.begun_s
            is_slow = (
                spent > BODY_GRACE_S
                and stream.body_bytes < self.connection_limits.body_min_rate * spent
            )
            if spent > self.connection_limits.body_timeout_s or is_slow:
                error = ApiError(
                    408, "request_timeout", "the body of the request took too long to arrive"
                )
                stream.respond(response_of(error))
        if self._transport is None:
            return
        self._idle_frames = max(0, self._idle_frames - _IDLE_FRAMES_PER_BEAT)
        unsent = self.buffered() + self._unsent_bytes
        is_stuck = unsent > 0
        if self._stall.is_over(unsent, now) or (
            self._begun_s and now - self._begun_s > self.connection_limits.header_timeout_s
        ):
            self.abort()
        elif not self._streams and now - self._heard_s > self.connection_limits.idle_timeout_s:
            self.shut()
        elif self._streams and not is_stuck:
            self._keep_alive(now)

    def _keep_alive(self, now: float) -> None:
        if self._pinged_s:
            if now - self._pinged_s > _PING_S:
                self.abort()
        elif now - self._heard_s > _PING_S:
            self._pinged_s = now
            self._h2.ping(bytes(8))
            self._flush()

    def shut(self) -> None:
        if not self._is_shut and self._transport is not None:
            self._is_shut = True  # open streams are served to their end
            self._close_if_done()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()


class _NoExchange:
    """A placeholder until the stream exists, which needs the request."""

    on_close: Callable[[], None] | None = None
    extra: tuple[tuple[bytes, bytes], ...] = ()

    def respond(self, response: Response) -> None:
        raise AssertionError("a request without an exchange")

    def start_stream(self, headers: tuple[tuple[bytes, bytes], ...]) -> Http2Stream:
        raise AssertionError("a request without an exchange")


_NO_EXCHANGE = _NoExchange()
