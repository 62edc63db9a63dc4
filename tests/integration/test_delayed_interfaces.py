"""`deliver_at` and `delay_ms` on a plain topic, sent through every interface that there is."""

from __future__ import annotations

import asyncio
import queue
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest

import penstock
from penstock.testing import FakeClock
from penstock.testing.log import open_memory_log
from penstock.wire import binary_batch
from tests.integration.test_cli_main import Cli
from tests.integration.test_cli_url import Remote
from tests.server.support import BATCH, api_of
from tests.support.serving import DEADLINE_S, Server, eventually

CLOCKS_MS = 50  # between the clock that counts a delay and the one that dates a record
When = dict[str, int]
Seen = tuple[int, Any]
"""(the time of a record, its data)"""


class Place(Protocol):
    """A topic `t` somewhere, and one way to append to it."""

    delay_ms: int  # enough for what is done before it has passed
    slack_ms: int

    def now_ms(self) -> int: ...

    def send(self, data: Any, when: When) -> int:
        """Append one record; the id of the delayed batch, or 0 when its time had passed."""

    def seen(self) -> list[Seen]: ...

    def wait(self, count: int) -> None:
        """Until so many records are visible."""


class Embedded:
    """A log with a clock that stands still."""

    delay_ms = 1000
    slack_ms = 0

    def __init__(self, *, is_submitted: bool) -> None:
        self._clock = FakeClock()
        self._log = open_memory_log(clock=self._clock)
        self._log.create("t")
        self._is_submitted = is_submitted

    def now_ms(self) -> int:
        return self._clock.now_ms()

    def send(self, data: Any, when: When) -> int:
        if not self._is_submitted:
            return self._log.append("t", [data], **when).delayed_id  # type: ignore[arg-type]
        answers: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._log.submit("t", [data], answers.put, **when)  # type: ignore[arg-type]
        return int(answers.get(timeout=DEADLINE_S).delayed_id)

    def seen(self) -> list[Seen]:
        return [(record.ts, record.data) for record in self._log.read("t").records]

    def wait(self, count: int) -> None:
        for _ in range(count):
            before = self.seen()
            self._clock.advance(self.delay_ms - 1)
            self._log.upkeep()
            assert self.seen() == before, "it is visible before its time"
            self._clock.advance(1)
            self._log.upkeep()

    def close(self) -> None:
        self._log.close()


class AtServer:
    """A server of its own, which `sender` appends to."""

    delay_ms = 400
    slack_ms = CLOCKS_MS

    def __init__(self, home: Path, sender: Callable[[Server, Any, When], int]) -> None:
        self._sender = sender
        self._server = Server(home).start()
        self._client = penstock.connect(url_of(self._server), timeout_s=DEADLINE_S)
        self._client.create("t")

    def now_ms(self) -> int:
        return now_ms()

    def send(self, data: Any, when: When) -> int:
        return self._sender(self._server, data, when)

    def seen(self) -> list[Seen]:
        return [(record.ts, record.data) for record in self._client.read("t").records]

    def wait(self, count: int) -> None:
        following = self._client.follow("t", timeout_s=DEADLINE_S)
        assert len([next(following) for _ in range(count)]) == count

    def close(self) -> None:
        self._client.close()
        self._server.close()


class InDirectory:
    """A directory that no process keeps open: each command on it finds what has become due."""

    delay_ms = 2500
    slack_ms = CLOCKS_MS

    def __init__(self, home: Path) -> None:
        self._cli = Cli(home)
        self._cli.ok("create", "t")

    def now_ms(self) -> int:
        return now_ms()

    def send(self, data: Any, when: When) -> int:
        return delayed_id_of(self._cli.ok("append", "t", data, *flags(when), "--json").json)

    def seen(self) -> list[Seen]:
        rows = self._cli.ok("read", "t", "--json").json_lines
        return [(row["ts"], row["data"]) for row in rows]

    def wait(self, count: int) -> None:
        eventually(lambda: len(self.seen()) >= count, "the records are visible")

    def close(self) -> None:
        pass


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def url_of(server: Server) -> str:
    host, port = server.address
    return f"http://{host}:{port}"


def flags(when: When) -> list[str]:
    return [f"--{name.replace('_', '-')}={value}" for name, value in when.items()]


def delayed_id_of(told: Any) -> int:
    return int(next(iter(told.get("delayed_ids", [])), 0))


# The ways to append at a server.


def as_json(server: Server, data: Any, when: When) -> int:
    return int(api_of(server).write("t", data, **when).get("delayed_id", 0))


def as_long_json(server: Server, data: Any, when: When) -> int:
    """Bodies of this size are split without being parsed."""
    body = b'{"records":[{"data":%d%b}],"%b":%d}' % (
        data,
        b" " * 4096,
        *(next(iter(when)).encode(), next(iter(when.values()))),
    )
    headers = {"Content-Type": "application/json"}
    return int(api_of(server).post("/v0/topics/t", body, headers).json.get("delayed_id", 0))


def as_binary_batch(server: Server, data: Any, when: When) -> int:
    body = binary_batch.encode_write(when, [str(data).encode()])
    reply = api_of(server).post("/v0/topics/t", body, {"Content-Type": BATCH})
    return int(reply.json.get("delayed_id", 0))


def over_websocket(server: Server, data: Any, when: When) -> int:
    with api_of(server).socket() as socket:
        ack = socket.ask("publish", topic="t", records=[{"data": data}], **when)
        assert ack["op"] == "ack", ack
        return int(ack.get("delayed_id", 0))


def with_client(server: Server, data: Any, when: When) -> int:
    with penstock.connect(url_of(server), timeout_s=DEADLINE_S) as client:
        return client.append("t", [data], **when).delayed_id  # type: ignore[arg-type]


def with_async_client(server: Server, data: Any, when: When) -> int:
    async def append() -> int:
        async with penstock.AsyncClient(url_of(server), timeout_s=DEADLINE_S) as client:
            return (await client.append("t", [data], **when)).delayed_id  # type: ignore[arg-type]

    return asyncio.run(append())


def with_commands(server: Server, data: Any, when: When) -> int:
    told = Remote(server, server.home).ok("append", "t", data, *flags(when), "--json")
    return delayed_id_of(told.json)


SENDERS = [
    as_json,
    as_long_json,
    as_binary_batch,
    over_websocket,
    with_client,
    with_async_client,
    with_commands,
]


@pytest.fixture(
    params=["embedded", "submitted", "directory", *(one.__name__ for one in SENDERS)],
)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    senders = {one.__name__: one for one in SENDERS}
    made: Embedded | AtServer | InDirectory
    if request.param == "directory":
        made = InDirectory(tmp_path / "data")
    elif request.param in senders:
        made = AtServer(tmp_path / "server", senders[request.param])
        made.delay_ms = 2500 if request.param == "with_commands" else made.delay_ms
    else:
        made = Embedded(is_submitted=request.param == "submitted")
    try:
        yield made
    finally:
        made.close()


@pytest.mark.parametrize("how", ["delay_ms", "deliver_at"])
def test_a_record_that_is_sent_for_later_is_visible_once_and_not_before_its_time(
    place: Place, how: str
) -> None:
    due_ms: dict[int, int] = {}
    for number in (1, 2):
        delay_ms = place.delay_ms * number
        due_ms[number] = place.now_ms() + delay_ms
        when = {how: delay_ms if how == "delay_ms" else due_ms[number]}
        delayed_id = place.send(number, when)
        has_passed = how == "deliver_at" and place.now_ms() >= due_ms[number]
        assert delayed_id or has_passed, "the answer says that it is delayed"
    early = place.seen()
    assert not early or place.now_ms() >= due_ms[1] - place.slack_ms, (
        "it is visible before its time"
    )

    place.wait(2)

    found = place.seen()
    assert sorted(data for _, data in found) == [1, 2], "each is there once"
    for ts_ms, data in found:
        assert ts_ms >= due_ms[data] - place.slack_ms
