"""GET /v0/watch/:wid: the frames, their text, and what they carry."""

from __future__ import annotations

import pytest

from tests.server.conftest import Start
from tests.server.sse import Frame, seqs_in
from tests.server.support import JSON, Api, api_of, new_name


def events(frames: list[Frame]) -> list[str]:
    return [frame.event for frame in frames]


def test_a_stream_has_its_headers_and_starts_with_retry(api: Api, topic: str) -> None:
    api.create(topic)

    with api.follow([topic]) as stream:
        headers = stream.reply.headers
        first = stream.next()

    assert stream.reply.status == 200
    assert headers["content-type"].startswith("text/event-stream")
    assert headers["cache-control"] == "no-store"
    assert headers["x-accel-buffering"] == "no"
    assert "content-length" not in headers
    assert first is not None
    assert first.raw == "retry: 2000"


def test_the_text_of_the_frames(api: Api, topic: str) -> None:
    api.write(topic, "a", "b", "c", node="gw")

    with api.follow({topic: {"from_seq": 2}}) as stream:
        record, caught_up = stream.until("caught-up")

    lines = record.raw.split("\n")
    assert lines[0].startswith("id: ")
    assert lines[1] == "event: record"
    assert lines[2].startswith("data: {")
    assert len(lines) == 3
    for literal in (f'"topic":"{topic}"', '"$seq":3', '"$node":"gw"', '"data":"c"'):
        assert literal in record.raw
    assert record.json == {
        "topic": topic,
        "from_seq": 2,
        "to_seq": 3,
        "head_seq": 3,
        "records": record.json["records"],
    }
    assert set(record.json["records"][0]) == {"$seq", "$ts", "$node", "data"}
    assert record.cursors == {topic: 3}
    assert caught_up.raw.split("\n")[1] == "event: caught-up"
    assert caught_up.json == {"topic": topic, "head_seq": 3}
    assert caught_up.cursors == {topic: 3}


def test_a_backlog_comes_in_batches_that_join(api: Api, topic: str) -> None:
    api.write(topic, *range(10))

    with api.follow([topic], limit=4) as stream:
        *records, caught_up = stream.until("caught-up")

    assert events(records) == ["record"] * 3
    assert [(f.json["from_seq"], f.json["to_seq"]) for f in records] == [(0, 4), (4, 8), (8, 10)]
    assert [f.cursors for f in records] == [{topic: 4}, {topic: 8}, {topic: 10}]
    assert seqs_in(records) == list(range(1, 11))
    assert caught_up.json["head_seq"] == 10


def test_a_batch_is_bounded_in_bytes(api: Api, topic: str) -> None:
    """256 KiB unless told; a record larger than that comes alone."""
    api.write(topic, *["x" * 100_000] * 5, "y" * 300_000)

    with api.follow([topic]) as stream:
        plain = [f.seqs for f in stream.until("caught-up") if f.event == "record"]
    with api.follow([topic], max_batch_bytes=1) as stream:
        single = [f.seqs for f in stream.until("caught-up") if f.event == "record"]

    assert plain == [[1, 2], [3, 4], [5], [6]]
    assert single == [[n] for n in range(1, 7)]


def test_new_records_are_pushed(api: Api, topic: str) -> None:
    api.create(topic)

    with api.follow([topic], heartbeat_ms=60_000) as stream:
        for n in range(50):
            api.write(topic, n)

            frame = stream.one("record")
            assert [r["data"] for r in frame.json["records"]] == [n]
            assert (frame.json["from_seq"], frame.json["to_seq"]) == (n, n + 1)


def test_several_topics_share_a_stream(api: Api) -> None:
    one, two = new_name(), new_name()
    api.write(one, "a", "b")
    api.write(two, "c")

    with api.follow([one, two]) as stream:
        frames = stream.until("caught-up") + stream.until("caught-up")
        api.write(two, "d")
        last = stream.one("record")

    got = {f.json["topic"]: f.seqs for f in frames if f.event == "record"}
    assert got == {one: [1, 2], two: [1]}
    assert {f.json["topic"] for f in frames if f.event == "caught-up"} == {one, two}
    assert all(set(f.cursors) == {one, two} for f in frames)
    assert last.cursors == {one: 2, two: 2}


def test_a_stream_leaves_out_the_readers_own_records(api: Api, topic: str) -> None:
    api.write(topic, 1, 2, node="me")
    api.write(topic, 3, node="you")
    api.write(topic, 4, node="me")

    with api.follow([topic], node="me") as stream:
        frames = stream.until("caught-up")
    with api.follow([topic], node=["me", "you"]) as stream:
        silent = stream.until("caught-up")

    records = [f for f in frames if f.event == "record"]
    assert seqs_in(records) == [3]
    assert records[-1].cursors[topic] >= 3
    assert frames[-1].cursors == {topic: 4}
    assert seqs_in(silent) == []
    assert silent[-1].cursors == {topic: 4}


def test_what_a_frame_covers_includes_what_it_leaves_out(api: Api, topic: str) -> None:
    """One batch of records of which the reader's own are not shown: to_seq is past them."""
    records = [{"data": n, "node": node} for n, node in enumerate(["you", "me", "me"])]
    api.write(topic, records=records)

    with api.follow([topic], node="me") as stream:
        frame = stream.one("record")

    assert frame.seqs == [1]
    assert (frame.json["from_seq"], frame.json["to_seq"]) == (0, 3)


@pytest.mark.parametrize(
    ("settings", "keys"),
    [
        ({}, {"$seq", "$ts", "$node", "data", "meta"}),
        ({"include_tags": True}, {"$seq", "$ts", "$node", "$tag", "data", "meta"}),
        ({"include_meta": False}, {"$seq", "$ts", "$node", "data"}),
        ({"include_data": False}, {"$seq", "$ts", "$node", "meta"}),
    ],
)
def test_a_stream_shows_what_was_asked_for(
    api: Api, topic: str, settings: dict[str, bool], keys: set[str]
) -> None:
    api.write(topic, records=[{"data": 1, "tag": "t", "node": "n", "meta": {"m": 1}}])

    with api.follow([topic], **settings) as stream:
        record = stream.one("record").json["records"][0]

    assert set(record) == keys


def test_a_stream_can_be_filtered_by_tag(api: Api) -> None:
    one, two = new_name(), new_name()
    api.tagged(one, "a:1", "b:1", None, "a:2")
    api.tagged(two, "a:1", "b:1")

    with api.follow({one: {}, two: {"tag": "b:*"}}, tag="a:*") as stream:
        frames = stream.until("caught-up") + stream.until("caught-up")
        api.tagged(one, "b:2", "a:3")
        live = stream.records(1)

    got = {name: [] for name in (one, two)}
    for frame in frames:
        if frame.event == "record":
            got[frame.json["topic"]] += frame.seqs
    assert got == {one: [1, 4], two: [2]}
    assert frames[-1].cursors == {one: 4, two: 2}
    assert live[0]["$seq"] == 6


def test_a_gap_at_the_start_is_told_first(api: Api, topic: str) -> None:
    """For the first read of a connection the reason is always the same."""
    api.create(topic, cap_records=3)
    api.write(topic, *range(5))

    with api.follow([topic]) as stream:
        tombstone, record, _ = stream.until("caught-up")

    assert tombstone.event == "tombstone"
    assert tombstone.json == {
        "topic": topic,
        "reason": "from_seq_too_old",
        "gap_from": 1,
        "gap_to": 2,
        "earliest_seq": 3,
        "head_seq": 5,
    }
    assert tombstone.cursors == {topic: 2}
    assert record.seqs == [3, 4, 5]
    assert record.json["from_seq"] == 2


def test_deleted_records_are_passed_over_in_silence(api: Api, topic: str) -> None:
    api.tagged(topic, "a", "b", "c", "b")
    api.remove(topic, match="b")
    api.remove(topic, before_seq=2)

    with api.follow([topic]) as stream:
        frames = stream.until("caught-up")

    assert events(frames) == ["record", "caught-up"]
    assert frames[0].seqs == [3]
    assert frames[-1].cursors == {topic: 4}


def test_a_topic_that_goes_is_told_and_others_go_on(api: Api) -> None:
    one, two = new_name(), new_name()
    api.write(one, 1)
    api.write(two, 1)

    with api.follow([one, two], heartbeat_ms=60_000) as stream:
        stream.until("caught-up")
        stream.until("caught-up")
        api.drop(one)
        gone = stream.one("topic-deleted")
        api.write(one, "made again")
        api.write(two, "goes on")
        frame = stream.one("record")
        api.drop(two)
        rest = stream.rest()

    assert gone.json == {"topic": one, "head_seq": 0, "reason": "deleted"}
    assert gone.id is not None
    assert frame.json["topic"] == two
    assert [f.json["topic"] for f in rest if f.event == "topic-deleted"] == [two]


def test_a_newline_in_a_payload_does_not_break_the_frames(api: Api, topic: str) -> None:
    """Payloads are kept as they were sent, blanks between tokens included (S22)."""
    body = b'{"records":[{"data":{\r\n "a":\n 1,\r"b": "x\\ny"}, "meta":[\n1\r]}]}'
    assert api.post(f"/v0/topics/{topic}", body, JSON).status == 201
    api.write(topic, "\u2028 and \r\n and event: record\n\ndata: x", node="a\r\nb")

    with api.follow([topic]) as stream:
        frames = stream.until("caught-up")

    records = [r for f in frames if f.event == "record" for r in f.json["records"]]
    assert events(frames)[-1] == "caught-up"
    assert [r["data"] for r in records] == [
        {"a": 1, "b": "x\ny"},
        "\u2028 and \r\n and event: record\n\ndata: x",
    ]
    assert records[0]["meta"] == [1]
    assert records[1]["$node"] == "a\r\nb"


def test_an_idle_stream_has_a_heart_beat(start: Start) -> None:
    api = api_of(start(PENSTOCK_TEST_MIN_HEARTBEAT_MS="20"))
    api.create("t")

    with api.follow(["t"], heartbeat_ms=20) as stream:
        comments = 0
        while comments < 3:
            frame = stream.next()
            assert frame is not None
            if frame.comment is not None:
                assert ": hb" in frame.raw
                assert frame.event == ""
                comments += 1
        api.write("t", 1)
        assert stream.one("record").seqs == [1]


def test_watchers_of_one_topic_each_get_everything(api: Api, topic: str) -> None:
    api.create(topic)
    streams = [api.follow([topic], include_tags=n % 2 == 0, limit=n + 1) for n in range(10)]
    try:
        for n in range(30):
            api.write(topic, n)
        for stream in streams:
            found: list[int] = []
            while len(found) < 30:
                found += stream.one("record").seqs
            assert found == list(range(1, 31))
    finally:
        for stream in streams:
            stream.close()


def test_streams_are_counted(start: Start) -> None:
    api = api_of(start())
    api.create("t")

    with api.follow(["t"]) as stream:
        stream.next()
        counted = api.get("/v0/metrics", {"Accept": "application/json"}).json

    assert (counted["sse_connections"], counted["watch_sessions"]) == (1, 1)
