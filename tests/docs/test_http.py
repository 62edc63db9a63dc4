"""The exchanges on the pages about the server happen as they are written, from top to bottom.

`http` blocks are requests with their answers, `sse` blocks are what comes next on the stream of the
watch session that was opened last, `ws` blocks are messages to (`>`) and from (`<`) a WebSocket.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.docs.pages import blocks
from tests.server.sse import EventStream, Frame, parse
from tests.server.support import Api, Socket
from tests.server.wire import Connection
from tests.support.serving import Server

PAGES = ["docs/api/http.md", "docs/api/sse.md", "docs/api/websocket.md"]
_HEADER = re.compile(r"([A-Za-z-]+): (.+)")

# Members whose values differ between two runs. Their presence counts.
CHANGING = {
    "now_ms",
    "ts",
    "$ts",
    "last_write_ts",
    "last_read_ts",
    "lag_ms",
    "uptime_ms",
    "version",
    "wid",
    "deadline",
    "due",
    "deliver_at",
    "stream_url",
    "ticket",
}

AT_TIMES = {"throttle_wait_ms"}  # of the cost: there when the machine is busy


@dataclass(frozen=True)
class Exchange:
    """A request as a page shows it, and the answer it says there is."""

    method: str
    target: str
    headers: dict[str, str]
    body: str
    status: int
    answer: str


def exchange(text: str) -> Exchange:
    """`METHOD target`, headers, body, the status alone on a line, the answer."""
    asked, status, answer = re.split(r"^(\d{3})$", text, maxsplit=1, flags=re.MULTILINE)
    first, *rest = asked.strip().split("\n")
    method, target = first.split(" ")
    headers = {}
    while rest and (match := _HEADER.fullmatch(rest[0])):
        headers[match[1]] = match[2]
        rest.pop(0)
    return Exchange(method, target, headers, "\n".join(rest), int(status), answer.strip())


def frames(text: str) -> list[Frame]:
    return [parse(block.strip()) for block in re.split(r"\n\n", text.strip())]


def messages(text: str) -> list[tuple[str, str]]:
    """(direction, JSON) of each message; a line that is indented goes on with the one before."""
    lines = text.replace("\n  ", "").strip().split("\n")
    return [(line[0], line[2:]) for line in lines]


class Player:
    """A server for one page, and what is open to it."""

    def __init__(self, home: Path) -> None:
        self._server = Server(home, {"PENSTOCK_WAL_SHARDS": "1"}).start()
        self._api = Api(self._server.connect_to)
        self._url = ""
        self._stream: EventStream | None = None
        self._socket: Socket | None = None

    def close(self) -> None:
        if self._stream is not None:
            self._stream.close()
        if self._socket is not None:
            self._socket.connection.close()
        self._server.close()

    def ask(self, one: Exchange) -> tuple[int, str]:
        headers = {"Content-Type": "application/json"} if one.body else {}
        with Connection(self._server.connect_to) as wire:
            body = one.body.encode() or None
            reply = wire.request(one.method, one.target, body, headers | one.headers)
        url = reply.json.get("stream_url")
        if url and self._stream is not None:  # a new session: its stream is the one that follows
            self._stream.close()
            self._stream = None
        self._url = url or self._url
        return reply.status, reply.body.decode()

    def listen(self) -> Frame:
        if self._stream is None:
            self._stream = self._api.stream(self._url.rpartition("/")[2])
        frame = self._stream.next()
        while frame is not None and frame.comment == ": hb":  # we were slow to listen
            frame = self._stream.next()
        assert frame is not None, "the stream has ended"
        return frame

    def send(self, text: str) -> None:
        if self._socket is None:
            self._socket = self._api.socket()
        self._socket.connection.send(text)

    def receive(self) -> str:
        assert self._socket is not None
        return json.dumps(self._socket.next())


def stable(value: Any) -> Any:
    """Without what changes from run to run; of the cost, which figures there are."""
    if isinstance(value, dict) and isinstance(value.get("rows"), list):
        value = value | {"rows": sorted(value["rows"], key=json.dumps)}  # of a scan, in any order
    if isinstance(value, dict):
        return {
            name: sorted(set(inner) - AT_TIMES)
            if name == "performance"
            else "CHANGES"
            if name in CHANGING and inner is not None
            else stable(inner)
            for name, inner in value.items()
        }
    return [stable(one) for one in value] if isinstance(value, list) else value


def said(texts: Iterable[str]) -> list[Any]:
    return sorted((stable(json.loads(text)) for text in texts), key=lambda one: str(one["op"]))


def stable_frame(frame: Frame) -> tuple[Any, ...]:
    cursors = None if frame.id is None else frame.cursors
    data = stable(frame.json) if frame.data else None
    return frame.event, cursors, data, frame.comment, frame.retry


@pytest.fixture
def player(tmp_path: Path) -> Iterator[Player]:
    made = Player(tmp_path)
    yield made
    made.close()


@pytest.mark.parametrize("name", PAGES)
def test_what_a_page_shows_happens_as_written(name: str, player: Player) -> None:
    played = [block for block in blocks(name) if block.language in ("http", "sse", "ws")]

    for block in played:
        if block.language == "http":
            one = exchange(block.text)
            status, answer = player.ask(one)
            where = f"{one.method} {one.target} {one.body}"
            assert status == one.status, where
            assert stable(json.loads(answer)) == stable(json.loads(one.answer)), where
        elif block.language == "sse":
            for wanted in frames(block.text):
                assert stable_frame(player.listen()) == stable_frame(wanted)
        else:
            for direction, run in itertools.groupby(messages(block.text), lambda one: one[0]):
                texts = [text for _, text in run]
                if direction == ">":
                    for text in texts:
                        player.send(text)
                else:  # an acknowledgement and the record it is about may come in either order
                    assert said(player.receive() for _ in texts) == said(texts)

    assert played
