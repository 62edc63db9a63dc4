"""Both clients against a real server: what holds on a good day, and through its restarts."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock import (
    AsyncClient,
    CaughtUp,
    Client,
    ConnectionFailed,
    Dropped,
    Forbidden,
    Gap,
    InvalidArgument,
    Record,
    SeqMismatch,
    TopicExists,
    TopicFull,
    TopicNotFound,
    Unauthorized,
)
from penstock.client.attempt_failed import AttemptFailed, Failure
from tests.support import requirements
from tests.support.serving import DEADLINE_S, Server, eventually


def url_of(server: Server) -> str:
    host, port = server.address
    return f"http://{host}:{port}"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = Server(tmp_path_factory.mktemp("server")).start()
    yield server
    server.close()


@pytest.fixture
def client(server: Server) -> Iterator[Client]:
    with penstock.connect(url_of(server), timeout_s=DEADLINE_S) as client:
        yield client


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A name of the test's own: all share one server."""
    return request.node.name.replace("[", "-").replace("]", "")[:200]


# The same as an embedded log.


def story(log: Any, topic: str) -> list[Any]:
    """A little of everything; what comes back must not depend on where the log is."""
    told: list[Any] = []
    info = log.create(topic, cap_records=4, durability="fsync")
    told.append((info.name, info.config, info.head_seq, info.earliest_seq, info.count))
    done = log.append(topic, [{"id": 1}, b'{"id": 2.50}'], tag="eu", node="till")
    told.append((done.first_seq, done.last_seq, done.count, done.head_seq, done.deduped))
    log.append(topic, [Record(data=[3], tag="us", meta={"k": "v"}), None], idempotency_key="k")
    told.append(log.append(topic, [Record(data=[3]), None], idempotency_key="k").deduped)
    log.append(topic, ["five", "sechs \u00e4"], expected_seq=4)
    for call in (
        lambda: log.append(topic, [1], expected_seq=3),
        lambda: log.append("not a name", [1]),
        lambda: log.append(topic, []),
        lambda: log.append(topic + "-x", [1], create=False),
        lambda: log.read(topic + "-x"),
        lambda: log.create(topic, type="queue"),
        lambda: log.create(topic, no_such_setting=1),
        lambda: log.move_position(topic, "p", 99),
        lambda: log.delete(topic),
        lambda: log.append_many([(topic, [1])], delay_ms=5),
    ):
        with pytest.raises(penstock.UsageError) as caught:
            call()
        told.append(type(caught.value))
    page = log.read(topic)
    told.append([(r.seq, r.data, r.tag, r.node, r.meta) for r in page.records])
    told.append((page.gap, page.next_seq, page.head_seq, page.earliest_seq, page.caught_up))
    told.append([r.seq for r in log.read(topic, 2, 1, tag="e*").records])
    told.append([r.seq for r in log.read(topic, node="till").records])
    told.append((log.seek(topic, 0), log.seek(topic, 1 << 45)))
    position = log.move_position(topic, "p", 4)
    told.append((position.name, position.seq, position.lag_records, position.head_seq))
    told.append([p.name for p in log.positions(topic)] + [log.position(topic, "q")])
    told.append((log.drop_position(topic, "p"), log.drop_position(topic, "p")))
    told.append(log.delete(topic, before_seq=4, tag="us"))
    told.append(next(iter(log.follow(topic, after=4, timeout_s=0.05))).data)
    parts = log.append_many([(f"{topic}-a", [1]), (f"{topic}-b", [2, 3])])
    told.append([(one.topic, one.first_seq, one.last_seq) for one in parts])
    told.append([one.name for one in log.topics(topic)])
    told.append((log.drop(topic), log.drop(topic)))
    return told


def test_a_client_tells_the_same_story_as_an_embedded_log(
    client: Client, topic: str, tmp_path: Path
) -> None:
    with penstock.open(tmp_path) as log:
        expected = story(log, topic)

    found = story(client, topic)

    for ours, theirs in zip(found, expected, strict=True):
        assert ours == theirs


def test_an_async_client_does_what_the_other_does(server: Server, topic: str) -> None:
    async def scenario() -> None:
        async with AsyncClient(url_of(server), timeout_s=DEADLINE_S) as client:
            assert (await client.create(topic)).head_seq == 0
            answers = await asyncio.gather(*(client.append(topic, [n]) for n in range(20)))
            assert sorted(one.first_seq for one in answers) == list(range(1, 21))
            page = await client.read(topic)
            assert sorted(record.data for record in page.records) == list(range(20))
            seqs = [item.seq async for item in client.follow(topic, timeout_s=0.05)]
            assert seqs == list(range(1, 21))
            with pytest.raises(TopicNotFound):
                await client.read(topic + "-x")
            assert [info.name for info in await client.topics(topic)] == [topic]
            assert await client.drop(topic)

    asyncio.run(scenario())


def test_errors_have_their_classes_and_details(client: Client, topic: str) -> None:
    client.create(topic, cap_records=1, discard="reject")
    client.append(topic, [1])

    with pytest.raises(TopicFull) as full:
        client.append(topic, [2])
    with pytest.raises(SeqMismatch) as ahead:
        client.append(topic, [2], expected_seq=0)
    with pytest.raises(TopicExists):
        client.create(topic, type="queue")
    with pytest.raises(InvalidArgument):
        client.append(topic, [1], tag="x" * 300)

    assert (full.value.topic, full.value.cap_records) == (topic, 1)
    assert (ahead.value.topic, ahead.value.expected_seq, ahead.value.head_seq) == (topic, 0, 1)


def test_reading_begins_at_a_time(client: Client, topic: str) -> None:
    first = client.append(topic, [1])
    later = first.ts
    while later == first.ts:
        done = client.append(topic, [2])
        later = done.ts

    page = client.read(topic, from_ts=later)

    assert page.records[0].seq == done.first_seq
    assert client.seek(topic, later) == done.first_seq - 1
    with contextlib.closing(client.follow(topic, from_ts=later)) as items:
        assert next(items).seq == done.first_seq


def test_a_long_poll_returns_with_what_comes(client: Client, topic: str) -> None:
    client.create(topic)
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(client.read(topic, wait_s=30)))
    thread.start()

    client.append(topic, ["here"])
    thread.join(DEADLINE_S)

    assert [record.data for record in found[0].records] == ["here"]


def test_what_is_strong_is_past_a_sync(client: Client, topic: str) -> None:
    client.append(topic, [1])

    assert [r.data for r in client.read(topic, consistency="strong").records] == [1]


def test_an_atomic_append_takes_everything_or_nothing(client: Client, topic: str) -> None:
    a, b = f"{topic}-a", f"{topic}-b"
    client.append(a, [0])

    with pytest.raises(SeqMismatch):
        client.append_many({a: [1], b: [2]}, expected_seqs={a: 9})

    done = client.append_many({a: [1], b: [2]}, expected_seqs={a: 1}, idempotency_key="k")
    again = client.append_many({a: [1], b: [2]}, expected_seqs={a: 1}, idempotency_key="k")
    assert [one.first_seq for one in done] == [one.first_seq for one in again] == [2, 1]
    assert all(one.deduped for one in again)
    assert [len(client.read(name).records) for name in (a, b)] == [2, 1]


def test_a_trace_is_kept_with_the_record(
    client: Client, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    monkeypatch.setattr("penstock.client.tracing.headers", lambda: {"traceparent": parent})

    client.append(topic, [1])

    assert parent in str(client.read(topic).records[0].meta)


def test_the_server_tells_about_itself(client: Client) -> None:
    assert client.health()["status"] == "ok"
    assert client.ready()
    assert client.stats()["ready"]
    assert "penstock_topics " in client.metrics()


def test_a_wildcard_watch_brings_present_and_future_topics(client: Client, topic: str) -> None:
    a, b = f"{topic}-a", f"{topic}-b"
    client.append(a, [1])
    with contextlib.closing(client.watch(f"{topic}-*", timeout_s=DEADLINE_S)) as items:
        news = (item for item in items if not isinstance(item[1], CaughtUp))

        name, record = next(news)
        assert (name, record.data) == (a, 1)
        client.append(b, [2])
        name, record = next(news)
        assert (name, record.data) == (b, 2)
        client.drop(a)
        assert next(news) == (a, Dropped())


def test_a_watch_filters_by_tag_and_node_and_ends_with_its_topics(
    client: Client, topic: str
) -> None:
    client.append(topic, [1], tag="a:1")
    client.append(topic, [2], tag="b:1")
    client.append(topic, [3], tag="a:2", node="me")
    client.append(topic, [4], tag="a:3")
    items = client.watch({topic: 0}, tag="a:*", node="me", timeout_s=DEADLINE_S)

    assert [next(items)[1].data for _ in range(2)] == [1, 4]
    client.drop(topic)
    assert list(items)[-1] == (topic, Dropped())


def test_a_watch_brings_gaps(client: Client, topic: str) -> None:
    client.create(topic, cap_records=2)
    client.append(topic, [1, 2, 3, 4, 5])

    (_, gap), *others = until_caught_up(client.watch(topic, timeout_s=DEADLINE_S))

    assert isinstance(gap, Gap)
    assert (gap.first, gap.last) == (1, 3)
    assert [one.seq for _, one in others if isinstance(one, Record)] == [4, 5]


def until_caught_up(items: Iterator[tuple[str, Any]]) -> list[tuple[str, Any]]:
    """What a watch brings up to and with the first word that there is no more."""
    found: list[tuple[str, Any]] = []
    while not (found and isinstance(found[-1][1], CaughtUp)):
        found.append(next(items))
    return found


# Restarts.


@pytest.fixture
def mortal(tmp_path: Path) -> Iterator[Server]:
    """A server of the test's own, which comes back at the same port."""
    server = Server(tmp_path / "server").start()
    server.env["PENSTOCK_PORT"] = str(server.address[1])
    yield server
    server.close()


@pytest.mark.parametrize("verb", ["follow", "watch"])
def test_following_and_watching_go_on_through_kills_and_stops(mortal: Server, verb: str) -> None:
    with penstock.connect(url_of(mortal), timeout_s=DEADLINE_S) as client:
        client.create("t", durability="fsync")
        client.append("t", [0])
        reader = penstock.connect(url_of(mortal), timeout_s=DEADLINE_S)
        pattern = "t" if verb == "follow" else "t*"
        items = getattr(reader, verb)(pattern, timeout_s=DEADLINE_S)
        seqs: list[int] = []

        def take(count: int) -> None:
            while count:
                item = next(items)
                record = item if verb == "follow" else item[1]
                if not isinstance(record, CaughtUp):
                    seqs.append(record.seq)
                    count -= 1

        take(1)
        mortal.kill()
        mortal.start()
        client.append("t", [1, 2])
        take(2)
        assert mortal.stop() == 0
        mortal.start()
        client.append("t", [3])
        take(1)
        reader.close()

    assert seqs == [1, 2, 3, 4]


def test_an_append_waits_for_a_server_that_is_started_again(mortal: Server) -> None:
    with penstock.connect(url_of(mortal), attempts_max=100_000, timeout_s=DEADLINE_S) as client:
        client.create("t", durability="fsync")
        mortal.kill()
        found: list[Any] = []
        thread = threading.Thread(target=lambda: found.append(client.append("t", [1])))
        thread.start()
        mortal.start()
        thread.join(DEADLINE_S)

        assert [one.first_seq for one in found] == [1]
        assert len(client.read("t").records) == 1


def test_an_append_whose_answer_was_lost_is_taken_once(
    client: Client, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first attempt reaches the server and its answer is thrown away."""
    real = client._transport.exchange
    lost: list[bytes] = []

    def forgetful(request: Any, deadline: float) -> Any:
        response = real(request, deadline)
        if not lost:
            lost.append(response.body)
            raise AttemptFailed(Failure.LOST, "thrown away")
        return response

    monkeypatch.setattr(client._transport, "exchange", forgetful)

    done = client.append(topic, [1], expected_seq=0)

    assert done.deduped
    assert (done.first_seq, len(client.read(topic).records)) == (1, 1)


# Who is who.


def test_keys_open_what_they_are_for(tmp_path: Path) -> None:
    keys = "top,reader:read,mine:rw:mine-"
    server = Server(tmp_path, {"PENSTOCK_API_KEYS": keys}).start()
    try:
        url = url_of(server)
        with penstock.connect(url) as nobody, pytest.raises(Unauthorized):
            nobody.topics()
        with penstock.connect(url, "top") as top, penstock.connect(url, "mine") as mine:
            top.append("other", [1])
            mine.append("mine-1", [1])
            with pytest.raises(Forbidden):
                mine.append("other", [1])
            with pytest.raises(Forbidden):
                next(mine.watch("other"))
            assert [info.name for info in mine.topics()] == ["mine-1"]
            items = mine.watch("*", timeout_s=DEADLINE_S)
            names = {name for name, _ in until_caught_up(items)}
            top.append("other", [2])
            mine.append("mine-1", [2])
            names.add(next(items)[0])
            assert names == {"mine-1"}
            assert "top" not in repr(top)
    finally:
        server.close()


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """(certificate, key) of 127.0.0.1, signed by itself."""
    requirements.debian_program("openssl")
    home = tmp_path_factory.mktemp("tls")
    cert, key = home / "cert.pem", home / "key.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"),
            *("-nodes", "-days", "2", "-subj", "/CN=penstock-test", "-out", str(cert)),
            *("-keyout", str(key), "-addext", "subjectAltName=IP:127.0.0.1"),
        ],
        check=True,
        capture_output=True,
    )
    return cert, key


def test_tls_is_verified_and_works(tmp_path: Path, certificate: tuple[Path, Path]) -> None:
    cert, key = certificate
    env = {"PENSTOCK_TLS_CERT": str(cert), "PENSTOCK_TLS_KEY": str(key)}
    server = Server(tmp_path, env).start(until="bound")
    url = url_of(server).replace("http:", "https:")
    trusting = ssl.create_default_context(cafile=str(cert))

    async def scenario() -> None:
        async with AsyncClient(url, tls=trusting, timeout_s=DEADLINE_S) as client:
            assert len((await client.read("t", limit=1_000)).records) == 1_000
            assert [item.seq async for item in client.follow("t", after=1_998, timeout_s=0.1)] == [
                1_999,
                2_000,
            ]

    try:
        with penstock.connect(url, tls=trusting, timeout_s=DEADLINE_S) as client:
            eventually(client.ready, "readiness")
            for _ in range(2):
                client.append("t", [{"pad": "x" * 500}] * 1_000)
            assert len(client.read("t", limit=1_000).records) == 1_000
            assert len(until_caught_up(client.watch("t", timeout_s=DEADLINE_S))) == 2_001
        with (
            penstock.connect(url, attempts_max=1) as wary,
            pytest.raises(ConnectionFailed, match="certificate"),
        ):
            wary.health()
        asyncio.run(scenario())
    finally:
        server.close()
