"""Streams that end and come back: session cursors, event ids, patterns, topics made anew."""

from __future__ import annotations

from typing import Any

import pytest

from tests.server.conftest import Start
from tests.server.sse import EventStream, encode_cursors, seqs_in
from tests.server.support import Api, api_of, new_name, refused
from tests.support.serving import eventually


def backlog(stream: EventStream) -> list[int]:
    """The seqs up to the next caught-up."""
    return seqs_in(stream.until("caught-up"))


def test_a_plain_reconnect_goes_on_where_the_last_one_stopped(api: Api, topic: str) -> None:
    api.write(topic, 1, 2)
    wid = api.watch([topic])["wid"]
    with api.stream(wid) as stream:
        assert backlog(stream) == [1, 2]
    api.write(topic, 3)

    with api.stream(wid) as stream:
        assert backlog(stream) == [3]


def test_an_event_id_rewinds_the_session(api: Api, topic: str) -> None:
    api.write(topic, *range(6))
    wid = api.watch([topic], limit=2)["wid"]
    with api.stream(wid) as stream:
        ids = [f.id for f in stream.until("caught-up") if f.event == "record"]

    with api.stream(wid, {"Last-Event-ID": str(ids[0])}) as stream:
        assert backlog(stream) == [3, 4, 5, 6]
    with api.stream(wid, {"Last-Event-ID": str(ids[1])}) as stream:
        assert backlog(stream) == [5, 6]


def test_an_event_id_never_skips_ahead(api: Api, topic: str) -> None:
    api.write(topic, 1, 2, 3)
    wid = api.watch({topic: {"from_seq": 1}})["wid"]

    with api.stream(wid, {"Last-Event-ID": encode_cursors({topic: 3})}) as stream:
        assert backlog(stream) == [2, 3]


def test_an_event_id_rewinds_each_topic_for_itself(api: Api) -> None:
    one, two = new_name(), new_name()
    api.write(one, 1, 2)
    api.write(two, 1, 2)
    wid = api.watch([one, two])["wid"]
    with api.stream(wid) as stream:
        backlog(stream)
        backlog(stream)
    api.write(two, 3)

    ids = {one: 1, "unknown": 7}
    with api.stream(wid, {"Last-Event-ID": encode_cursors(ids)}) as stream:
        got = {f.json["topic"]: f.seqs for f in (stream.one("record"), stream.one("record"))}

    assert got == {one: [2], two: [3]}


@pytest.mark.parametrize(
    "text", ["", "nonsense", "!!!", "bm90IGpzb24", "WzEsMl0", "eyJhIjoieCJ9", "e30", "A" * 5000]
)
def test_an_event_id_that_is_none_of_ours_is_passed_over(api: Api, topic: str, text: str) -> None:
    api.write(topic, 1, 2)
    wid = api.watch([topic])["wid"]

    with api.stream(wid, {"Last-Event-ID": text}) as stream:
        assert backlog(stream) == [1, 2]


def test_a_loss_while_away_is_told(api: Api, topic: str) -> None:
    api.create(topic, cap_records=2)
    api.write(topic, 1)
    wid = api.watch([topic])["wid"]
    with api.stream(wid) as stream:
        assert backlog(stream) == [1]
    api.write(topic, *range(5))

    with api.stream(wid) as stream:
        tombstone, record, _ = stream.until("caught-up")

    assert tombstone.json["reason"] == "from_seq_too_old"
    assert (tombstone.json["gap_from"], tombstone.json["gap_to"]) == (2, 4)
    assert record.seqs == [5, 6]


def test_a_session_does_not_outlive_the_server(start: Start) -> None:
    server = start()
    api = api_of(server)
    api.create("t")
    wid = api.watch(["t"])["wid"]
    server.stop()

    server.start()

    refused(api_of(server).get(f"/v0/watch/{wid}"), 404, "not_found")


# Topics made anew.


def test_a_topic_made_anew_while_away_is_never_read_on_in_silence(api: Api, topic: str) -> None:
    """The new one has more records than the old cursor, which is what hides it elsewhere."""
    api.write(topic, 1, 2)
    wid = api.watch([topic])["wid"]
    with api.stream(wid) as stream:
        assert backlog(stream) == [1, 2]
    api.drop(topic)
    api.write(topic, *"abcd")

    with api.stream(wid) as stream:
        first = stream.next()
        while first is not None and not first.event:
            first = stream.next()

    assert first is not None
    assert first.event in ("tombstone", "topic-deleted")


def test_a_cursor_with_its_epoch_notices_a_topic_made_anew(api: Api, topic: str) -> None:
    old = api.write(topic, 1, 2)
    api.drop(topic)
    api.write(topic, *"abcd")

    with api.follow({topic: {"from_seq": 2, "epoch": old["epoch"]}}) as stream:
        frames = stream.until("caught-up")

    assert frames[0].event == "tombstone"
    assert seqs_in(frames) == [1, 2, 3, 4]


# Patterns.


def test_a_pattern_follows_topics_that_come_later(api: Api) -> None:
    prefix = new_name("wild")
    api.write(f"{prefix}:a", 1)

    with api.follow({f"{prefix}:*": {}}, heartbeat_ms=60_000) as stream:
        first = stream.one("record")
        api.write(f"{prefix}.not", "hidden")
        api.write(f"{prefix}:b", "x", "y")
        second = stream.one("record")
        api.create(f"{prefix}:c")
        api.write(f"{prefix}:c", "z")
        third = stream.one("record")

    assert [f.json["topic"] for f in (first, second, third)] == [f"{prefix}:{e}" for e in "abc"]
    assert second.seqs == [1, 2]
    assert second.cursors[f"{prefix}:b"] == 2
    assert third.cursors == {f"{prefix}:a": 1, f"{prefix}:b": 2, f"{prefix}:c": 1}


def test_a_pattern_outlives_its_topics(api: Api) -> None:
    prefix = new_name("wild")
    name = f"{prefix}:a"
    api.write(name, "old", "old")

    with api.follow({f"{prefix}:*": {}}, heartbeat_ms=60_000) as stream:
        stream.until("caught-up")
        api.drop(name)
        stream.one("topic-deleted")
        api.write(name, "new")
        frame = stream.one("record")

    assert (frame.json["topic"], frame.seqs) == (name, [1])


def test_a_pattern_with_nothing_to_match_waits(api: Api) -> None:
    prefix = new_name("wild")

    with api.follow({f"{prefix}:*": {}}, heartbeat_ms=60_000) as stream:
        stream.next()
        api.write(f"{prefix}:first", 1)

        assert stream.one("record").json["topic"] == f"{prefix}:first"


def test_a_pattern_resumes(api: Api) -> None:
    prefix = new_name("wild")
    api.write(f"{prefix}:a", 1)
    wid = api.watch({f"{prefix}:*": {}})["wid"]
    with api.stream(wid) as stream:
        stream.until("caught-up")
    api.write(f"{prefix}:a", 2)
    api.write(f"{prefix}:b", 1)

    with api.stream(wid) as stream:
        got = {f.json["topic"]: f.seqs for f in (stream.one("record"), stream.one("record"))}

    assert got == {f"{prefix}:a": [2], f"{prefix}:b": [1]}


def test_a_name_beside_a_pattern_keeps_its_own_settings(api: Api) -> None:
    prefix = new_name("wild")
    api.write(f"{prefix}:a", 1, 2)
    api.write(f"{prefix}:b", 1, 2)

    answer = api.watch({f"{prefix}:*": {}, f"{prefix}:a": {"tail": True}})

    assert {name: at["from_seq"] for name, at in answer["topics"].items()} == {
        f"{prefix}:a": 2,
        f"{prefix}:b": 0,
    }


# Wake-ups.


def test_no_wake_up_of_a_stream_is_lost(api: Api) -> None:
    """One record at a time over several topics, with a heartbeat too slow to help."""
    names = [new_name() for _ in range(5)]
    for name in names:
        api.create(name)

    with api.follow(names, heartbeat_ms=60_000) as stream:
        for n in range(200):
            api.write(names[n % 5], n)

            frame = stream.one("record")
            assert (frame.json["topic"], frame.json["records"][0]["data"]) == (names[n % 5], n)


def test_a_stream_that_was_closed_is_forgotten(start: Start) -> None:
    api = api_of(start())
    api.create("t")

    def open_streams() -> Any:
        return api.get("/v0/metrics", {"Accept": "application/json"}).json["sse_connections"]

    for _ in range(5):
        with api.follow(["t"]) as stream:
            stream.next()

    eventually(lambda: open_streams() == 0, "no stream is open")
