"""Copies on the disk: they outlast their originals, files that come and go, and other settings.

The servers here have tiny files and checkpoint all the time, so that what lies under a copy moves
while the test runs.
"""

from __future__ import annotations

import itertools
import struct
import subprocess
import sys
from typing import Any

import pytest
import xxhash

from tests.server.conftest import Start
from tests.server.queues import ack, claim, queue, restarted
from tests.server.routers import (
    chain,
    datas,
    each_end,
    forwarded,
    guaranteed,
    names,
    records,
    ring,
    route,
    walk,
    write_on,
)
from tests.server.support import BATCH, JSON, Api, Later, api_of, datas_of, seqs_of
from tests.server.wire import Connection
from tests.support.serving import DEADLINE_S, Server, eventually

TINY = {
    "PENSTOCK_WAL_FILE_BYTES": "16384",
    "PENSTOCK_CHECKPOINT_WAL_BYTES": "16384",
    "PENSTOCK_SEGMENT_MAX_EVENTS": "20",
    "PENSTOCK_UPKEEP_INTERVAL_MS": "5",
}
PAD = "x" * 200

each_shards = pytest.mark.parametrize("shards", ["1", "4"])


def tiny(start: Start, shards: str = "2") -> Server:
    return start(**TINY, PENSTOCK_WAL_SHARDS=shards)


def fill(api: Api, topic: str, first: int, last: int) -> None:
    """Records of some size, in batches of ten."""
    for n in range(first, last, 10):
        rows = [{"data": m, "tag": f"t{m % 3}", "meta": {"pad": PAD}} for m in range(n, n + 10)]
        api.write(topic, records=rows)


def check(server: Server) -> None:
    """The directory of a server that has ended is sound."""
    command = [sys.executable, "-m", "penstock.cli.main", "fsck", str(server.data_dir)]
    done = subprocess.run(
        command, env=server.env, capture_output=True, text=True, timeout=DEADLINE_S
    )
    assert done.returncode == 0, done.stdout + done.stderr


# What lies under them.


@each_end
@each_shards
@guaranteed
def test_copies_are_whole_while_the_files_under_them_go(
    start: Start, how: str, shards: str, guarantee: str
) -> None:
    server = tiny(start, shards)
    api = api_of(server)
    chain(api, "abc", guarantee=guarantee)

    for turn in range(3):
        fill(api, "a", 200 * turn, 200 * turn + 200)
        api = restarted(server, how)

        for topic in "abc":
            found = records(api, topic)
            assert [record["data"] for record in found] == list(range(200 * turn + 200))
            assert [record["$seq"] for record in found] == list(range(1, 200 * turn + 201))
            assert {record["meta"]["pad"] for record in found} == {PAD}
        assert forwarded(api, "b->c") == 200 * turn + 200


@each_end
@each_shards
def test_copies_outlast_deleted_originals(start: Start, how: str, shards: str) -> None:
    server = tiny(start, shards)
    api = api_of(server)
    chain(api, "abc")

    for n in range(0, 400, 100):
        fill(api, "a", n, n + 100)
        assert api.state("c")["head_seq"] == n + 100
        api.remove("a", before_seq=10_000)
        api.remove("b", before_seq=10_000)
    assert datas(api, "c") == list(range(400))
    api = restarted(server, how)
    assert datas(api, "c") == list(range(400))
    fill(api, "a", 400, 500)
    api = restarted(server, how)

    assert datas(api, "c") == list(range(500))


@each_end
def test_copies_outlast_their_source(start: Start, how: str) -> None:
    server = tiny(start)
    api = api_of(server)
    chain(api, "abc")
    fill(api, "a", 0, 300)
    assert api.state("c")["head_seq"] == 300

    api.drop("a")
    api.drop("b")
    fill(api, "other", 0, 300)
    assert datas(api, "c") == list(range(300))
    api = restarted(server, how)
    fill(api, "other", 300, 600)

    assert datas(api, "c") == list(range(300))
    api = restarted(server, how)
    assert datas(api, "c") == list(range(300))


@each_end
def test_deletes_in_the_dest_hold_over_checkpoints(start: Start, how: str) -> None:
    server = tiny(start)
    api = api_of(server)
    route(api, "a", "b")
    fill(api, "a", 0, 300)
    assert api.state("b")["count"] == 300

    assert api.remove("b", match="t1")["deleted"] == 100
    api.remove("b", before_seq=51)
    fill(api, "a", 300, 330)
    left = [n for n in range(50, 330) if n % 3 != 1 or n >= 300]
    assert datas(api, "b") == left
    api = restarted(server, how)

    assert datas(api, "b") == left
    assert len(datas(api, "a")) == 330


@each_end
def test_jobs_copied_into_a_queue_are_done_for_good(start: Start, how: str) -> None:
    server = tiny(start)
    api = api_of(server)
    queue(api, "q", durability="fsync")
    route(api, "a", "q")
    fill(api, "a", 0, 100)
    done = [job["$seq"] for job in claim(api, "q", 60)["claimed"]]
    ack(api, "q", *done)
    fill(api, "a", 100, 200)

    api = restarted(server, how)

    assert [job["data"] for job in claim(api, "q", 1000)["claimed"]] == list(range(60, 200))


@pytest.mark.parametrize("first", ["ephemeral", "disk", "fsync"])
@pytest.mark.parametrize("second", ["memory", "disk", "fsync"])
def test_a_dest_keeps_what_its_class_says_whatever_it_came_through(
    start: Start, first: str, second: str
) -> None:
    server = tiny(start)
    api = api_of(server)
    api.create("a", durability=first)
    api.create("b", durability=second)
    api.create("c", durability="fsync")
    chain(api, "abc")
    fill(api, "a", 0, 100)
    assert api.state("c")["head_seq"] == 100

    api = restarted(server, "kill")

    assert [record["data"] for record in walk(api, "c")[0]] == list(range(100))
    fill(api, "a", 100, 120)
    assert [record["data"] for record in walk(api, "c")[0]] == list(range(120))


def test_other_numbers_of_shards_find_the_same_copies(start: Start) -> None:
    server = tiny(start, "4")
    api = api_of(server)
    topics = ["a", "b", "c"]
    ring(api, topics)
    expected: list[int] = []

    for turn, (shards, how) in enumerate([("1", "stop"), ("3", "kill"), ("8", "kill")]):
        fill(api, topics[turn], 100 * turn, 100 * turn + 100)
        expected += range(100 * turn, 100 * turn + 100)
        server.env["PENSTOCK_WAL_SHARDS"] = shards
        api = restarted(server, how)

        for topic in topics:
            assert sorted(datas(api, topic)) == expected


@each_end
def test_the_directory_is_sound(start: Start, how: str) -> None:
    server = tiny(start)
    api = api_of(server)
    ring(api, ["a", "b", "c"])
    route(api, "a", "d", guarantee="exactly_once", filter="t1", preserve_tag=False)
    for n, topic in enumerate("abc"):
        fill(api, topic, 100 * n, 100 * n + 100)
    api.remove("d", before_seq=5)
    api.drop("b")

    if how == "stop":
        assert server.stop() == 0
    else:
        server.kill()

    check(server)


@each_shards
def test_kills_among_checkpoints_cost_no_copy_and_make_none_twice(
    start: Start, shards: str
) -> None:
    server = tiny(start, shards)
    api = api_of(server)
    chain(api, "abc")
    route(api, "a", "d", guarantee="exactly_once")
    answered: list[Any] = []

    for turn in range(4):
        enough = len(answered) + 50 + 37 * turn
        with (
            Later(lambda t=turn: write_on(server, "a", answered, f"{t}a{PAD}")) as one,
            Later(lambda t=turn: write_on(server, "a", answered, f"{t}b{PAD}")) as two,
        ):
            eventually(lambda most=enough: len(answered) > most, "some writes")
            server.kill()
            one.result()
            two.result()
        check(server)
        api = api_of(server.start())

        everything = datas(api, "a")
        assert all(data in everything for data in answered)
        for topic in "bcd":
            assert datas(api, topic) == everything


# What is read of them.


@each_end
def test_what_a_copy_dropped_is_not_found_by_anybody(start: Start, how: str) -> None:
    """The tag and the node of the original are no longer there to be asked for."""
    server = tiny(start)
    api = api_of(server)
    route(api, "a", "kept")
    route(api, "a", "bare", preserve_tag=False, preserve_node=False)
    rows = [{"data": n, "tag": f"t{n % 2}", "node": "n", "meta": {"p": PAD}} for n in range(100)]
    api.write("a", records=rows)

    for _ in range(2):
        assert datas(api, "kept", tag="t1") == list(range(1, 100, 2))
        assert datas(api, "kept", node="n") == []
        assert datas(api, "bare", tag="*") == []
        assert datas(api, "bare", node="n") == list(range(100))
        for record in records(api, "bare", include_tags=True):
            assert not {"$tag", "$node"} & set(record)
        assert api.remove("bare", match="*")["deleted"] == 0
        api = restarted(server, how)

    assert api.remove("kept", match="t0")["deleted"] == 50


def test_a_dest_measures_its_copies_itself(api: Api) -> None:
    source, dest = names(2)
    api.write(source, "before")
    route(api, source, dest)

    api.write(source, records=[{"data": {"w": 41}, "tag": "t"}, {"data": None, "meta": {"m": 1}}])

    state = api.state(dest)
    assert (state["count"], state["head_seq"]) == (2, 2)
    assert state["bytes"] == len('{"w":41}') + len("null") + len('{"m":1}')
    assert state["last_write_ts"] == records(api, dest)[-1]["$ts"]


def test_the_time_of_a_dest_does_not_go_back(api: Api) -> None:
    source, dest = names(2)
    route(api, source, dest)
    for n in range(20):
        api.write([source, dest][n % 3 == 0], n)
        if n % 4 == 0:
            api.state(dest)

    times = [record["$ts"] for record in records(api, dest)]

    assert len(times) == 20
    assert times == sorted(times)
    found = api.diff(dest, from_ts=times[10])
    assert found["records"][0]["$ts"] == times[10]
    assert seqs_of(found)[-1] == 20


def test_a_copy_can_be_read_as_the_frame_of_its_own_topic(api: Api) -> None:
    source, dest = names(2)
    api.write(source, *range(5))
    route(api, source, dest, preserve_tag=False)
    api.tagged(source, "t1", "t2")

    with Connection(api.address) as wire:
        target = f"/v0/topics/{dest}/diff"
        reply = wire.request("POST", target, b"{}", {**JSON, "Accept": BATCH})

    (head,) = struct.unpack_from("<I", reply.body, 4)
    (count,) = struct.unpack_from("<I", reply.body, 8 + head)
    rest, seqs = reply.body[12 + head :], []
    while rest:
        (length,) = struct.unpack_from("<I", rest)
        frame, rest = rest[4 : 4 + length], rest[4 + length :]
        assert xxhash.xxh3_64_intdigest(frame[:-8]) == struct.unpack("<Q", frame[-8:])[0]
        seqs.append(struct.unpack_from("<Q", frame, 10)[0])
        (tag_length,) = struct.unpack_from("<H", frame, 28)
        assert tag_length == 0
    assert seqs == list(range(1, count + 1)) == [1, 2]


def test_a_long_chain_of_pages_has_each_copy_once(start: Start) -> None:
    """Small pages over what is sealed, what is not, and what comes while they are read."""
    api = api_of(tiny(start))
    chain(api, "ab")
    fill(api, "a", 0, 500)

    seen: list[int] = []
    cursor = 0
    for turn in itertools.count():
        page = api.diff("b", from_seq=cursor, limit=7)
        assert page["tombstone"] is None
        seen += datas_of(page)
        cursor = page["next_from_seq"]
        if turn < 20:
            fill(api, "a", 500 + 10 * turn, 510 + 10 * turn)
        if page["caught_up"]:
            break

    assert seen == list(range(700))
