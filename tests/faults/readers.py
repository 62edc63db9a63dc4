"""Consumers: each follows every topic from its beginning, by its own means, until it is cancelled.

What counts as received is what came whole. Each goes on from there after a lost connection, and
so must be given every record once.
"""

from __future__ import annotations

import asyncio
import base64
import json
import random
from collections.abc import AsyncIterator
from typing import Any, Protocol

import websockets.asyncio.client as websockets
from websockets.exceptions import WebSocketException

from tests.faults.exchange import Link, Lost, Reply
from tests.faults.payloads import BATCH, frame_records, value_of
from tests.faults.site import PAUSE_S, Site
from tests.faults.victim import Address

WAIT_MS = 30_000  # longer than any rig waits: only a wake-up can end it in time
_LATER = ("not_ready", "shutting_down")


class Reader(Protocol):
    name: str

    async def run(self) -> None:
        """Until cancelled."""


def note(site: Site, reader: str, event: dict[str, Any]) -> None:
    """Put a `record` or `tombstone` event into the history."""
    history, topic = site.history, event["topic"]
    if "records" in event:
        for record in event["records"]:
            history.delivered(reader, topic, record["$seq"], value_of(record["data"]))
        history.passed(reader, topic, event["to_seq"])
    else:
        history.gap(reader, topic, event["gap_from"], event["gap_to"], event["reason"])


class DiffReader:
    """Long polls, as JSON or as frames; one connection a topic."""

    def __init__(self, site: Site, name: str, *, is_binary: bool) -> None:
        self.name = name
        self._site = site
        self._is_binary = is_binary

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            for topic in self._site.topics:
                tasks.create_task(self._follow(topic, WAIT_MS))

    async def read_all(self) -> dict[str, int]:
        """Read every topic to its end and no further; the heads."""
        heads = {}
        for topic in self._site.topics:
            heads[topic] = await self._follow(topic, 0)
        return heads

    async def _follow(self, topic: str, wait_ms: int) -> int:
        link: Link | None = None
        try:
            while True:
                try:
                    if link is None:
                        link = await Link.open(await self._site.address())
                    page = await self._page(link, topic, wait_ms)
                except Lost:
                    link = None
                    await asyncio.sleep(PAUSE_S)
                    continue
                if page is None:
                    await asyncio.sleep(PAUSE_S)
                elif page["caught_up"] and not wait_ms:
                    return int(page["head_seq"])
        finally:
            if link is not None:
                link.abort()

    async def _page(self, link: Link, topic: str, wait_ms: int) -> dict[str, Any] | None:
        history = self._site.history
        promised = history.heads[topic]
        asked = {
            "from_seq": history.view(self.name, topic).position,
            "limit": 1000,
            "wait_ms": wait_ms,
        }
        accept = {"Accept": BATCH} if self._is_binary else {}
        reply = await link.post(f"/v0/topics/{topic}/diff", asked, accept)
        if reply.code in _LATER:
            return None
        page, records = self._records(reply)
        history.head_seen(self.name, topic, promised, page["head_seq"])
        gap = page["tombstone"]
        if gap is not None:
            history.gap(self.name, topic, gap["gap_from"], gap["gap_to"], gap["reason"])
        for seq, data in records:
            history.delivered(self.name, topic, seq, value_of(data))
        history.passed(self.name, topic, page["next_from_seq"])
        return page

    def _records(self, reply: Reply) -> tuple[dict[str, Any], list[tuple[int, Any]]]:
        if reply.status != 200:
            raise AssertionError(f"a read was answered {reply}")
        if self._is_binary:
            return frame_records(reply.body)
        page = reply.json
        return page, [(record["$seq"], record["data"]) for record in page["records"]]


class EventReader:
    """A watch session and its event stream. `cuts_s` makes it leave by itself, in the middle of
    whatever it is given, after about so long; then it resumes by the last event it has whole."""

    def __init__(self, site: Site, name: str, seed: str, *, cuts_s: float = 0.0) -> None:
        self.name = name
        self.resumes = 0
        self._site = site
        self._choose = random.Random(seed)
        self._cuts_s = cuts_s
        self._last_id = ""

    async def run(self) -> None:
        address: Address | None = None
        session: str | None = None
        while True:
            found = await self._site.address()
            if found != address:
                address, session = found, None  # sessions do not outlive their server
            try:
                if session is None:
                    session = await self._open(address)
                if session is not None:
                    await self._listen(address, session)
            except Lost:
                if not self._last_id:
                    # The session has moved on with what was lost on the way, and there is no
                    # event to name yet: only a new session begins where we are.
                    session = None
            await asyncio.sleep(PAUSE_S)

    async def _open(self, address: Address) -> str | None:
        link = await Link.open(address)
        view = self._site.history.view
        starts = {
            topic: {"from_seq": view(self.name, topic).position} for topic in self._site.topics
        }
        try:
            reply = await link.post("/v0/watch", {"topics": starts, "heartbeat_ms": 60_000})
        finally:
            link.abort()
        if reply.code in _LATER:
            return None
        if reply.status != 200:
            raise AssertionError(f"a watch was answered {reply}")
        self._last_id = ""
        return str(reply.json["stream_url"])

    async def _listen(self, address: Address, session: str) -> None:
        link = await Link.open(address)
        headers = {"Accept": "text/event-stream"}
        if self._last_id:
            headers["Last-Event-ID"] = self._last_id
            self.resumes += 1
        cut = None
        if self._cuts_s:
            delay_s = self._choose.expovariate(1 / self._cuts_s)
            cut = asyncio.get_running_loop().call_later(delay_s, link.abort)
        try:
            async for fields in events(link.stream(session, headers)):
                self._take(fields)
        finally:
            link.abort()
            if cut is not None:
                cut.cancel()

    def _take(self, fields: dict[str, str]) -> None:
        kind = fields.get("event")
        if kind in ("record", "tombstone"):
            event = json.loads(fields["data"])
            note(self._site, self.name, event)
            self._check_id(fields["id"], event["topic"])
        elif kind == "topic-deleted":
            raise AssertionError(f"a topic that nobody deleted is gone: {fields}")
        if "id" in fields:
            self._last_id = fields["id"]

    def _check_id(self, text: str, topic: str) -> None:
        """An id that is behind would bring records again, one ahead would leave some out."""
        cursors = json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
        position = self._site.history.view(self.name, topic).position
        if cursors[topic] != position:
            self._site.wrong(f"cursor: {self.name} is at {position} of {topic}, its id says {text}")


async def events(pieces: AsyncIterator[bytes]) -> AsyncIterator[dict[str, str]]:
    """Whole events of an event stream, as their fields; comments are left out."""
    buffer = b""
    async for piece in pieces:
        buffer += piece
        *whole, buffer = buffer.split(b"\n\n")
        for text in whole:
            fields = {}
            for line in text.decode().split("\n"):
                name, _, value = line.partition(": ")
                if name:
                    fields[name] = value
            if fields:
                yield fields


class SocketReader:
    """A subscription over a WebSocket."""

    def __init__(self, site: Site, name: str) -> None:
        self.name = name
        self._site = site

    async def run(self) -> None:
        while True:
            host, port = await self._site.address()
            uri = f"ws://{host}:{port}/v0/ws"
            try:
                async with websockets.connect(
                    uri, open_timeout=10, close_timeout=1, compression=None, max_size=None
                ) as socket:
                    await self._follow(socket)
            except (OSError, TimeoutError, WebSocketException):
                pass  # gone, or not up yet
            await asyncio.sleep(PAUSE_S)

    async def _follow(self, socket: websockets.ClientConnection) -> None:
        view = self._site.history.view
        starts = {
            topic: {"from_seq": view(self.name, topic).position} for topic in self._site.topics
        }
        await socket.send(json.dumps({"op": "subscribe", "topics": starts}))
        async for text in socket:
            event = json.loads(text)
            if event["op"] in ("record", "tombstone"):
                note(self._site, self.name, event)
            elif event["op"] == "error" and event["code"] != "server_shutting_down":
                raise AssertionError(f"a subscription was answered {event}")


def five(site: Site, seed: str) -> list[Reader]:
    """One of every kind, and one that keeps leaving."""
    return [
        DiffReader(site, "diff", is_binary=False),
        DiffReader(site, "frames", is_binary=True),
        EventReader(site, "sse", f"{seed}.sse"),
        EventReader(site, "sse-cut", f"{seed}.cut", cuts_s=0.02),
        SocketReader(site, "ws"),
    ]
