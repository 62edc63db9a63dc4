"""A reader of event streams with deadlines, which keeps the text of each frame as it came."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tests.server.wire import Connection, Ended, Reply
from tests.support.serving import DEADLINE_S, Address


@dataclass(frozen=True)
class Frame:
    """One block of the stream. `event` is empty for a comment and for the retry block."""

    raw: str
    event: str = ""
    id: str | None = None
    data: str = ""
    comment: str | None = None
    retry: str | None = None

    @property
    def json(self) -> Any:
        return json.loads(self.data)

    @property
    def cursors(self) -> Any:
        """The map of cursors in the id."""
        if self.id is None:
            raise AssertionError(f"no id in {self.raw!r}")
        return decode_cursors(self.id)

    @property
    def seqs(self) -> list[int]:
        return [record["$seq"] for record in self.json["records"]]


def seqs_in(frames: Iterable[Frame]) -> list[int]:
    """The seqs of all records in these frames, in their order."""
    return [seq for frame in frames if frame.event == "record" for seq in frame.seqs]


def decode_cursors(text: str) -> Any:
    if "=" in text:
        raise AssertionError(f"padded: {text}")
    return json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))


def encode_cursors(cursors: Mapping[str, int]) -> str:
    text = json.dumps(cursors, separators=(",", ":")).encode()
    return base64.urlsafe_b64encode(text).decode().rstrip("=")


def parse(block: str) -> Frame:
    """A block of lines as the event-stream format reads it."""
    fields: dict[str, str] = {}
    data: list[str] = []
    comment: str | None = None
    for line in block.split("\n"):
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if line.startswith(":"):
            comment = line
        elif name == "data":
            data.append(value)
        elif name in ("event", "id", "retry"):
            fields[name] = value
        else:
            raise AssertionError(f"a line that is no field: {line!r}")
    return Frame(
        block,
        fields.get("event", ""),
        fields.get("id"),
        "\n".join(data),
        comment,
        fields.get("retry"),
    )


class EventStream:
    """An open stream. A context manager; when the answer is no stream, `reply` has its body."""

    def __init__(
        self,
        address: Address,
        target: str,
        headers: Mapping[str, str] | None = None,
        *,
        receive_bytes: int = 0,
    ) -> None:
        self.wire = Connection(address, receive_bytes=receive_bytes)
        try:
            wanted = {"Accept": "text/event-stream"} | dict(headers or {})
            self.wire.send_request("GET", target, headers=wanted)
            self.reply: Reply = self.wire.read_head()
        except BaseException:
            self.wire.close()
            raise
        self._is_chunked = self.reply.headers.get("transfer-encoding", "").lower() == "chunked"
        self._text = b""

    def __enter__(self) -> EventStream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.wire.close()

    def next(self, deadline_s: float = DEADLINE_S) -> Frame | None:
        """The next block, or None at the end of the stream. Lines end in LF or in CR LF."""
        until = time.monotonic() + deadline_s
        while b"\n\n" not in self._text:
            left = until - time.monotonic()
            if left <= 0:
                raise AssertionError(f"no frame within {deadline_s} s; began {self._text!r}")
            self.wire.socket.settimeout(left)
            try:
                part = self._part()
            except TimeoutError:
                continue
            except Ended:
                return None
            if not part:
                return None
            self._text = (self._text + part).replace(b"\r\n", b"\n")
        block, self._text = self._text.split(b"\n\n", 1)
        return parse(block.decode())

    def until(self, event: str, deadline_s: float = DEADLINE_S) -> list[Frame]:
        """The frames up to and with the next `event`; comments are left out."""
        found: list[Frame] = []
        limit = time.monotonic() + deadline_s
        while True:
            frame = self.next(max(0.01, limit - time.monotonic()))
            if frame is None:
                raise AssertionError(f"the stream ended before {event!r}; it had {found}")
            if frame.event:
                found.append(frame)
            if frame.event == event:
                return found

    def one(self, event: str, deadline_s: float = DEADLINE_S) -> Frame:
        """The next frame of this kind; others are passed over."""
        return self.until(event, deadline_s)[-1]

    def records(self, count: int, deadline_s: float = DEADLINE_S) -> list[Any]:
        """The next `count` records, from as many frames as it takes."""
        found: list[Any] = []
        while len(found) < count:
            found += self.one("record", deadline_s).json["records"]
        if len(found) != count:
            raise AssertionError(f"{len(found)} records for {count}: {found}")
        return found

    def rest(self, deadline_s: float = DEADLINE_S) -> list[Frame]:
        """Every frame until the stream ends, which it must."""
        found = []
        while (frame := self.next(deadline_s)) is not None:
            if frame.event:
                found.append(frame)
        return found

    def _part(self) -> bytes:
        return self.wire.read_chunk() if self._is_chunked else self.wire.read_some()
