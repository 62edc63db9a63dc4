"""Producers: each writes one batch after the other, by its own means, until it is cancelled.

With a key a batch is repeated until it is answered; without one it is sent once, and what became
of it is unknown when no answer comes.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Sequence
from typing import Any, Protocol

import websockets.asyncio.client as websockets
from websockets.exceptions import WebSocketException

from tests.faults.exchange import JSON, Link, Lost, NotSent, Reply
from tests.faults.payloads import BATCH, binary_body, json_records
from tests.faults.site import PAUSE_S, Site
from tests.faults.victim import Address
from tests.support.history import Write

RECORDS_MAX = 6


class Refused(Exception):
    """The server said: later. Nothing was done."""


class Full(Exception):
    """The server cannot write any more. Whether it has written this is unknown."""


class Sender(Protocol):
    """One way to write. Keeps its connection until it is lost."""

    async def send(self, address: Address, writes: Sequence[Write]) -> list[dict[str, Any]]:
        """The answer for each write. `Lost` or `Refused`, or an AssertionError."""

    def abort(self) -> None: ...


class HttpSender:
    """POST to a topic, as JSON or as a binary batch, the key in the body or in a header."""

    def __init__(self, choose: random.Random, kind: str, *, bulk: int = 0) -> None:
        self._choose = choose
        self._kind = kind
        self._bulk = bulk
        self._link: Link | None = None
        self._address: Address | None = None

    async def send(self, address: Address, writes: Sequence[Write]) -> list[dict[str, Any]]:
        link = await self._connected(address)
        (write,) = writes
        target = f"/v0/topics/{write.topic}"
        head: dict[str, Any] = {}
        headers: dict[str, str] = {}
        if write.key and self._choose.random() < 0.5:
            headers["Idempotency-Key"] = write.key
        elif write.key:
            head["idempotency_key"] = write.key
        if self._kind == "json":
            body = json.dumps(head | {"records": json_records(write, self._bulk)}).encode()
            reply = await link.request("POST", target, body, JSON | headers)
        else:
            body = binary_body(head, write)
            reply = await link.request("POST", target, body, {"Content-Type": BATCH} | headers)
        return [checked(reply)]

    def abort(self) -> None:
        if self._link is not None:
            self._link.abort()
            self._link = None

    async def _connected(self, address: Address) -> Link:
        if self._link is None or self._address != address:
            self.abort()
            self._link, self._address = await Link.open(address), address
        return self._link


class MultiSender(HttpSender):
    """POST to several topics at once."""

    async def send(self, address: Address, writes: Sequence[Write]) -> list[dict[str, Any]]:
        link = await self._connected(address)
        body: dict[str, Any] = {
            "writes": [{"topic": one.topic, "records": json_records(one)} for one in writes]
        }
        if writes[0].key:
            body["idempotency_key"] = writes[0].key
        results: list[dict[str, Any]] = checked(await link.post("/v0/batch", body))["results"]
        return results


class SocketSender:
    """Publish over a WebSocket."""

    def __init__(self) -> None:
        self._socket: websockets.ClientConnection | None = None
        self._address: Address | None = None
        self._request = 0

    async def send(self, address: Address, writes: Sequence[Write]) -> list[dict[str, Any]]:
        (write,) = writes
        self._request += 1
        command: dict[str, Any] = {
            "op": "publish",
            "request_id": self._request,
            "topic": write.topic,
            "records": json_records(write),
        }
        if write.key:
            command["idempotency_key"] = write.key
        socket = await self._connected(address)
        try:
            await socket.send(json.dumps(command))
            answer = json.loads(await socket.recv())
        except (OSError, WebSocketException) as error:
            self.abort()
            raise Lost(repr(error)) from None
        if answer["op"] != "ack":
            return [self._not_taken(answer)]
        if answer["request_id"] != self._request:
            raise AssertionError(f"request {self._request} was answered {answer}")
        return [answer]

    def abort(self) -> None:
        if self._socket is not None:
            self._socket.transport.abort()
            self._socket = None

    def _not_taken(self, answer: dict[str, Any]) -> dict[str, Any]:
        if answer.get("code") == "server_shutting_down":
            self.abort()
            raise Lost("it is shutting down")
        if answer.get("code") in ("not_ready", "shutting_down"):
            raise Refused(answer["code"])
        raise AssertionError(f"a publish was answered {answer}")

    async def _connected(self, address: Address) -> websockets.ClientConnection:
        if self._socket is None or self._address != address:
            self.abort()
            uri = f"ws://{address[0]}:{address[1]}/v0/ws"
            try:
                self._socket = await websockets.connect(uri, open_timeout=10, compression=None)
            except (OSError, TimeoutError, WebSocketException) as error:
                raise NotSent(repr(error)) from None
            self._address = address
        return self._socket


def checked(reply: Reply) -> dict[str, Any]:
    """The answer, if it is one."""
    if reply.status in (200, 201):
        answer: dict[str, Any] = reply.json
        return answer
    if reply.code in ("not_ready", "shutting_down"):
        raise Refused(reply.code)
    if reply.code == "storage_failed":
        raise Full
    raise AssertionError(f"a write was answered {reply}")


class Writer:
    """One producer."""

    def __init__(self, site: Site, name: str, sender: Sender, seed: str, *, has_keys: bool) -> None:
        self.name = name
        self._site = site
        self._sender = sender
        self._choose = random.Random(seed)
        self._has_keys = has_keys
        self._written = 0

    async def run(self) -> None:
        try:
            while True:
                async with self._site.turn():
                    await self._deliver(self._next())
                await asyncio.sleep(self._choose.expovariate(500))
        finally:
            self._sender.abort()

    async def run_some(self, count: int) -> None:
        """The same, so many times and without a pause."""
        try:
            for _ in range(count):
                await self._deliver(self._next())
        finally:
            self._sender.abort()

    async def repeat(self, write: Write) -> None:
        """Send an acknowledged write once more."""
        try:
            await self._deliver([write])
        finally:
            self._sender.abort()

    def _next(self) -> list[Write]:
        choose, site = self._choose, self._site
        self._written += 1
        key = f"{self.name}.{self._written}" if self._has_keys else None
        topics = [choose.choice(site.topics)]
        if isinstance(self._sender, MultiSender):
            topics = choose.sample(site.topics, choose.randint(2, 3))
        counts = [1 if choose.random() < 0.4 else choose.randint(2, RECORDS_MAX) for _ in topics]
        history = site.history
        writes = [
            history.begin(self.name, topic, count, key)
            for topic, count in zip(topics, counts, strict=True)
        ]
        if len(writes) > 1:
            history.together(writes)
        return writes

    async def _deliver(self, writes: list[Write]) -> None:
        while True:
            address = await self._site.address()
            try:
                async with asyncio.timeout(self._site.answer_s):
                    for write in writes:
                        write.attempts += 1
                    answers = await self._sender.send(address, writes)
                break
            except (Refused, NotSent):
                pass
            except Lost:
                self._sender.abort()
                if not self._has_keys:
                    return
            except TimeoutError:
                self._sender.abort()
                if not self._site.may_be_late:
                    self._site.wrong(f"stuck: {writes[0]} was never answered")
                    return
            await asyncio.sleep(self._choose.uniform(0, 4 * PAUSE_S))
        for write, answer in zip(writes, answers, strict=True):
            self._site.history.acked(
                write, answer["first_seq"], answer["last_seq"], deduped=answer["deduped"]
            )


def sixteen(site: Site, seed: str) -> list[Writer]:
    """Of every kind some, three quarters of them with keys."""
    writers = []
    for number in range(16):
        choose = random.Random(f"{seed}.{number}")
        sender: Sender = HttpSender(choose, "json")
        if number % 8 == 7:
            sender = MultiSender(choose, "json")
        elif number % 4 == 1:
            sender = HttpSender(choose, "binary")
        elif number % 4 == 2:
            sender = SocketSender()
        name = f"w{number:02}"
        has_keys = number not in (0, 1, 2, 7)
        writers.append(Writer(site, name, sender, f"{seed}.{name}", has_keys=has_keys))
    return writers
