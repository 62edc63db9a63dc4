"""A server as a location to read from, alone and with its directory."""

from __future__ import annotations

import contextlib
import json
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from penstock.client.client import Client
from penstock.client.connect import connect
from penstock.directory.slices import Slice
from penstock.errors import TopicNotFound
from penstock.spark import server_location
from penstock.spark.bounds import Bounds
from penstock.spark.directory_location import DirectoryLocation
from penstock.spark.gaps import GAPS, GapFound
from penstock.spark.offsets import StreamOffset
from penstock.spark.options import SourceOptions, read_options
from penstock.spark.schema import RECORD
from penstock.spark.server_location import CombinedLocation, ServerLocation, location_of
from penstock.spark.source import GapReader, planned
from penstock.spark.stream import StreamReader
from penstock.spark.tasks import RemoteRange
from tests.support.serving import DEADLINE_S, Server
from tests.unit.spark.support import filled, gaps, opened, rows, seqs

Closing = Callable[[ServerLocation], ServerLocation]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    found = Server(tmp_path_factory.mktemp("server")).start()
    yield found
    found.close()


@pytest.fixture
def client(server: Server) -> Iterator[Client]:
    with connect(url_of(server), timeout_s=DEADLINE_S) as found:
        yield found


@pytest.fixture
def closing() -> Iterator[Closing]:
    """A location that is closed when the test ends."""
    with contextlib.ExitStack() as stack:
        yield lambda location: stack.enter_context(contextlib.closing(location))


@pytest.fixture
def topic() -> str:
    return f"t{uuid.uuid4().hex[:12]}"


def url_of(server: Server) -> str:
    host, port = server.address
    return f"http://{host}:{port}"


def options(server: Server, topic: str, **given: object) -> SourceOptions:
    texts = {name: str(value) for name, value in given.items()}
    return read_options({"url": url_of(server), "topic": topic, **texts})


def test_a_place_is_chosen_by_what_is_given() -> None:
    def kind(**given: str) -> type:
        return type(location_of(read_options({"topic": "t", **given})))

    assert kind(path="/data") is DirectoryLocation
    assert kind(url="http://localhost:1") is ServerLocation
    assert kind(path="/data", url="http://localhost:1") is CombinedLocation


def test_a_server_gives_what_its_log_reads(server: Server, client: Client, topic: str) -> None:
    filled(client, 50, topic)
    client.delete(topic, tag="k1")

    found = rows(options(server, topic, partitionRecords=7))

    expected = client.read(topic).records
    assert [(row["seq"], row["tag"], json.loads(row["data"])) for row in found] == [
        (record.seq, record.tag, record.data) for record in expected
    ]
    assert seqs(options(server, topic, startingSeq=10, endingSeq=12)) == [10, 12]


def test_gaps_are_found_when_a_batch_is_planned(
    server: Server, client: Client, topic: str, closing: Closing
) -> None:
    client.create(topic, cap_records=4)
    filled(client, 10, topic)
    location = closing(ServerLocation(options(server, topic)))
    epoch = client.topic(topic).epoch

    assert location.beginning() == {topic: StreamOffset(epoch, 6)}
    assert gaps(options(server, topic, startingSeq=3)) == [(topic, 3, 6, "cap")]
    with pytest.raises(GapFound, match="records 3 to 6"):
        rows(options(server, topic, startingSeq=3))


def test_losses_between_plan_and_read_are_told(server: Server, client: Client, topic: str) -> None:
    filled(client, 10, topic)
    reader = GapReader(options(server, topic, rows="gaps"), GAPS)
    parts = reader.partitions()
    client.create(topic, cap_records=4)

    found = [row for part in parts for b in reader.read(part) for row in b.to_pylist()]

    assert [(row["first"], row["last"], row["reason"]) for row in found] == [(1, 6, "cap")]


def test_an_unknown_topic_is_told(server: Server) -> None:
    with pytest.raises(TopicNotFound, match="no topic named 'nobody'"):
        rows(options(server, "nobody"))


def test_a_step_is_bounded(server: Server, client: Client, topic: str, closing: Closing) -> None:
    filled(client, 40, topic)
    location = closing(ServerLocation(options(server, topic)))
    begun, heads = location.beginning(), location.heads()

    assert location.within(begun, heads, 0, 0) == heads
    assert location.within(begun, heads, 10, 0)[topic].seq == 10
    assert location.within(begun, heads, 10, 1)[topic].seq == 1
    assert 1 < location.within(begun, heads, 0, 150)[topic].seq < 40


def test_positions_show_how_far_a_consumer_is(
    server: Server, client: Client, topic: str, closing: Closing
) -> None:
    filled(client, 10, topic)
    location = closing(ServerLocation(options(server, topic, consumer="spark")))

    location.record_progress(
        {topic: StreamOffset(client.topic(topic).epoch, 7), "gone": StreamOffset(1, 1)}
    )

    held = client.position(topic, "spark")
    assert held is not None
    assert (held.seq, held.lag_records) == (7, 3)


def test_a_recreated_topic_does_not_end_a_consumers_query(
    server: Server,
    client: Client,
    topic: str,
    closing: Closing,
    caplog: pytest.LogCaptureFixture,
) -> None:
    filled(client, 10, topic)
    epoch = client.topic(topic).epoch
    client.drop(topic)
    filled(client, 5, topic)
    location = closing(ServerLocation(options(server, topic, consumer="spark")))

    location.record_progress({topic: StreamOffset(epoch, 7)})
    location.record_progress({topic: StreamOffset(epoch, 7)})

    assert client.position(topic, "spark") is None
    assert [record.message for record in caplog.records if "was recreated" in record.message]


def test_a_batch_without_a_start_begins_with_what_there_is_when_it_is_planned(
    server: Server, client: Client, topic: str, closing: Closing, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.create(topic, cap_records=4)
    filled(client, 10, topic)
    location = closing(ServerLocation(options(server, topic)))
    known = location._topics()
    filled(client, 2, topic)
    monkeypatch.setattr(location, "_topics", lambda: known)

    plan = location.whole(Bounds())

    assert plan.gaps == []
    assert [(one.after, one.last) for one in plan.work if isinstance(one, RemoteRange)] == [(8, 10)]


def test_a_stream_of_a_server_keeps_to_its_time(server: Server, client: Client, topic: str) -> None:
    filled(client, 5, topic)

    def stream(moment: int, **given: object) -> list[int]:
        chosen = options(server, topic, startingTimestamp=moment, **given)
        reader = StreamReader(chosen, RECORD)
        with contextlib.closing(reader._location):
            start = reader.initialOffset()
            filled(client, 1, topic)
            end = reader.latestOffset(start, ReadAllAvailable())
            parts = reader.partitions(start, end)
            return [n for part in parts for b in reader.read(part) for n in b["seq"].to_pylist()]

    last = client.read(topic).records[-1].ts
    assert stream(last + 600_000) == []
    assert stream(1) == list(range(1, 8))
    client.create(topic, cap_records=3)
    with pytest.raises(GapFound, match="records 1 to 5"):
        stream(1)
    assert stream(1, onGap="ignore") == [7, 8, 9]


def test_old_records_come_from_the_directory_and_new_ones_from_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_location, "_SMALL_RANGE_RECORDS", 5)
    server = Server(tmp_path / "both")
    with opened(server.data_dir) as log:
        filled(log, 20)
        log.compact()
    server.start()
    try:
        with connect(url_of(server), timeout_s=DEADLINE_S) as client:
            filled(client, 10)
        chosen = options(server, "t", path=server.data_dir)
        plan = planned(chosen, Bounds())

        old, new = plan.work
        assert isinstance(old, Slice)
        assert isinstance(new, RemoteRange)
        assert (old.first, old.last, new.after, new.last) == (1, 20, 20, 30)
        assert seqs(chosen) == list(range(1, 31))
        assert seqs(options(server, "t", path=server.data_dir, startingSeq=27)) == [27, 28, 29, 30]
    finally:
        server.close()
