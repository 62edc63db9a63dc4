"""What a source lost before its router had copied it: seqs without records, and a tombstone."""

from __future__ import annotations

from typing import Any

import pytest

from tests.server.conftest import Start
from tests.server.queues import ack, claim, queue, restarted
from tests.server.routers import (
    datas,
    each_end,
    each_guarantee,
    gap,
    names,
    reluctant,
    route,
    seqs_lost,
    wait_for_datas,
    walk,
)
from tests.server.sse import seqs_in
from tests.server.support import Api, api_of, datas_of, new_name, seqs_of
from tests.support.serving import eventually


@pytest.fixture
def ends() -> tuple[str, str]:
    return new_name("source"), new_name("dest")


def wait_for_head(api: Api, topic: str, seq: int) -> None:
    eventually(lambda: api.state(topic)["head_seq"] == seq, f"{topic} is at {seq}")


def lossy(api: Api, source: str, dest: str, **knobs: Any) -> str:
    """1 and 2 are in the full dest; 3 and 4 were let go by the source; 5, 6 and 7 wait there."""
    api.create(source, cap_records=3)
    name = reluctant(api, source, dest, **knobs)
    for n in range(1, 8):
        api.write(source, n)
        api.state(dest)
    assert datas_of(api.diff(source)) == [5, 6, 7]
    return name


@each_guarantee
def test_what_was_lost_before_it_was_copied_is_told(
    api: Api, ends: tuple[str, str], guarantee: str
) -> None:
    source, dest = ends
    lossy(api, source, dest, guarantee=guarantee)
    api.remove(dest, before_seq=3)

    answer = api.diff(dest, from_seq=2)

    assert gap(answer) == (3, 4, "source_trim")
    assert (datas_of(answer), seqs_of(answer)) == ([5, 6], [5, 6])
    assert answer["tombstone"]["missed_estimate"] == 2
    assert answer["earliest_seq"] == answer["tombstone"]["earliest_seq"] == 5
    assert gap(api.diff(dest, from_seq=4)) is None
    assert gap(api.diff(dest, from_seq=3)) == (4, 4, "source_trim")
    api.remove(dest, before_seq=7)
    later = api.diff(dest, from_seq=6)
    assert (gap(later), datas_of(later), seqs_of(later)) == (None, [7], [7])


def test_who_reads_from_the_start_is_told_once(api: Api, ends: tuple[str, str]) -> None:
    source, dest = ends
    lossy(api, source, dest)
    api.remove(dest, before_seq=3)

    found, [lost] = walk(api, dest)

    assert (lost["gap_to"], lost["reason"]) == (4, "source_trim")
    assert lost["gap_from"] in (1, 3)  # with or without what was deleted below
    assert [record["data"] for record in found] == [5, 6]


def test_an_open_stream_is_told_what_was_lost(api: Api, ends: tuple[str, str]) -> None:
    """At once or bit by bit, as the source loses it."""
    source, dest = ends
    api.create(source, cap_records=3)
    reluctant(api, source, dest)

    with api.follow([dest], heartbeat_ms=60_000) as stream:
        stream.until("caught-up")
        for n in range(1, 8):
            api.write(source, n)
            api.state(dest)
        api.remove(dest, before_seq=3)
        frames = []
        while 6 not in seqs_in(frames):
            frames += [f for f in stream.until("record") if f.event != "caught-up"]

    told = [frame.json for frame in frames if frame.event == "tombstone"]
    assert (seqs_lost(told), {gap["reason"] for gap in told}) == ([3, 4], {"source_trim"})
    assert seqs_in(frames) == [1, 2, 5, 6]
    assert datas_of(frames[-1].json)[-1] == 6


def test_an_open_socket_is_told_what_was_lost(api: Api, ends: tuple[str, str]) -> None:
    source, dest = ends
    api.create(source, cap_records=3)
    reluctant(api, source, dest)

    with api.socket() as socket:
        socket.ask("subscribe", topic=dest)
        assert socket.one("caught_up")["head_seq"] == 0
        for n in range(1, 8):
            api.write(source, n)
            api.state(dest)
        api.remove(dest, before_seq=3)
        seen: list[int] = []
        told = []
        while 6 not in seen:
            message = socket.next()
            seen += [record["data"] for record in message.get("records", [])]
            told += [message] * (message["op"] == "tombstone")

    assert seen == [1, 2, 5, 6]
    assert (seqs_lost(told), {gap["reason"] for gap in told}) == ([3, 4], {"source_trim"})


def test_every_seq_of_the_dest_is_read_or_told_of(api: Api, ends: tuple[str, str]) -> None:
    """Also one below the loss that nobody has removed."""
    source, dest = ends
    lossy(api, source, dest)
    api.remove(dest, before_seq=2)
    wait_for_head(api, dest, 5)

    found, lost = walk(api, dest, 1, limit=1)

    seen = {record["$seq"]: record["data"] for record in found}
    assert {3, 4} <= set(seqs_lost(lost))
    assert sorted([*seen, *seqs_lost(lost)]) == [2, 3, 4, 5]
    assert seen[5] == 5
    assert len(seen) == api.state(dest)["count"]


def test_jobs_after_a_loss_are_handed_out(api: Api, ends: tuple[str, str]) -> None:
    source, dest = ends
    api.create(source, cap_records=2)
    queue(api, dest, cap_records=1, discard="reject")
    route(api, source, dest)
    for n in range(1, 6):
        api.write(source, n)
        api.state(dest)

    done = []
    for _ in range(3):
        [job] = claim(api, dest, wait_ms=30_000)["claimed"]
        done.append((job["$seq"], job["data"]))
        ack(api, dest, job["$seq"])

    assert done == [(1, 1), (4, 4), (5, 5)]
    assert gap(api.diff(dest, from_seq=1)) == (2, 3, "source_trim")


def test_another_loss_below_hides_that_of_the_source(api: Api, ends: tuple[str, str]) -> None:
    source, dest = ends
    lossy(api, source, dest)
    api.remove(dest, before_seq=3)
    assert gap(api.diff(dest, from_seq=2)) == (3, 4, "source_trim")

    api.create(dest, cap_records=1, discard="old")

    answer = api.diff(dest, from_seq=2)
    assert answer["tombstone"]["reason"] == "cap"
    assert answer["tombstone"]["gap_from"] == 3
    assert datas_of(answer) == [7]


def test_the_loss_of_a_source_by_age_is_told_as_well(api: Api, ends: tuple[str, str]) -> None:
    source, dest = ends
    reluctant(api, source, dest, cap=1)
    api.write(source, *range(1, 4))
    assert datas(api, dest) == [1]
    api.create(source, ttl_ms=1)
    eventually(lambda: api.state(source)["count"] == 0, "the source has forgotten")
    api.create(source)
    api.write(source, 4)

    api.remove(dest, before_seq=2)

    answer = api.diff(dest, from_seq=1)
    assert gap(answer) == (2, 3, "source_trim")
    assert (datas_of(answer), seqs_of(answer)) == ([4], [4])


def test_what_was_deleted_at_the_source_meanwhile_is_passed_over_in_silence(
    api: Api, ends: tuple[str, str]
) -> None:
    source, dest = ends
    reluctant(api, source, dest, cap=1)
    api.tagged(source, *"abcd")
    assert datas(api, dest) == ["a"]

    api.remove(source, match="b")
    api.remove(source, before_seq=4)
    api.remove(dest, match="a")

    wait_for_datas(api, dest, ["d"])
    assert api.state(dest)["head_seq"] == 2


def test_a_batch_larger_than_its_source_is_copied_or_told_of(
    api: Api, ends: tuple[str, str]
) -> None:
    source, dest = ends
    api.create(source, cap_records=3)
    route(api, source, dest)

    api.write(source, *range(1, 11))

    answer = api.diff(dest)
    assert answer["head_seq"] == 10
    if answer["tombstone"]:
        assert gap(answer) == (1, 7, "source_trim")
    first = 8 if answer["tombstone"] else 1
    assert datas_of(answer) == seqs_of(answer) == list(range(first, 11))


def test_a_small_source_in_a_hurry_loses_nothing_in_silence(
    api: Api, ends: tuple[str, str]
) -> None:
    """Nobody reads the dest while the source forgets."""
    source, dest = ends
    api.create(source, cap_records=2)
    route(api, source, dest)

    for n in range(1, 31):
        api.write(source, n)

    found, lost = walk(api, dest)
    assert {gap["reason"] for gap in lost} <= {"source_trim"}
    assert all(record["data"] == record["$seq"] for record in found)
    seqs = [record["$seq"] for record in found]
    assert sorted([*seqs, *seqs_lost(lost)]) == list(range(1, 31))


def test_a_loss_in_the_middle_of_a_chain_is_told_at_its_end(api: Api) -> None:
    a, b, c = names(3)
    route(api, b, c)
    lossy(api, a, b)
    assert datas_of(api.diff(c)) == [1, 2]

    api.remove(b, before_seq=3)

    answer = api.diff(c, from_seq=2)
    assert gap(answer) == (3, 4, "source_trim")
    assert (datas_of(answer), seqs_of(answer)) == ([5, 6], [5, 6])


# And over a restart.


@each_end
def test_a_loss_of_the_source_is_told_afterwards_too(start: Start, how: str) -> None:
    server = start()
    api = api_of(server)
    lossy(api, "a", "b")
    api.remove("b", before_seq=3)
    before = api.diff("b", from_seq=2)
    assert gap(before) == (3, 4, "source_trim")

    api = restarted(server, how)

    after = api.diff("b", from_seq=2)
    for field in ("records", "tombstone", "head_seq", "earliest_seq"):
        assert after[field] == before[field]
    api.remove("b", before_seq=6)
    wait_for_head(api, "b", 7)
    assert datas_of(api.diff("b", from_seq=6)) == [7]


@each_end
def test_a_loss_that_was_not_told_yet_is_told_afterwards(start: Start, how: str) -> None:
    server = start()
    lossy(api_of(server), "a", "b")

    api = restarted(server, how)
    api.remove("b", before_seq=3)

    answer = api.diff("b", from_seq=2)
    assert gap(answer) == (3, 4, "source_trim")
    assert (datas_of(answer), seqs_of(answer)) == ([5, 6], [5, 6])
