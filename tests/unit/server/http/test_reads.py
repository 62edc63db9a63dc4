"""Reads over HTTP: one answer whatever the way to it, and long polls that miss nothing."""

from __future__ import annotations

import asyncio
import json
import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.config import Settings
from penstock.engine.open_log import open_log
from penstock.server.http.message import BATCH
from penstock.server.http.reads import Poll
from penstock.testing import MemoryFilesystem
from penstock.testing.log import ROOT
from penstock.wire import binary_batch as binary
from tests.unit.server.support import PATIENCE_S, Site, on_loop, settled, until

DIFF = "/v0/topics/t/diff"
TIMED = ("performance",)


def timeless(answer: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in answer.items() if name not in TIMED}


def datas(answer: dict[str, Any]) -> list[Any]:
    return [record["data"] for record in answer["records"]]


@pytest.mark.parametrize("is_sealed", [False, True])
@given(
    from_seq=st.integers(0, 12),
    limit=st.integers(0, 5),
    tag=st.sampled_from([None, "a", "b*", ["tag", "Eq", "b"]]),
    node=st.sampled_from([None, "n", ["n", "m"]]),
    include_tags=st.booleans(),
    max_batch_bytes=st.sampled_from([0, 1]),  # others mean another number of records each
)
@on_loop
async def test_every_way_to_read_gives_the_same(is_sealed: bool, **body: Any) -> None:
    site = Site()
    for n in range(10):
        site.log.append("t", [n], tag=("a", "b", None)[n % 3], node=("n", None)[n % 2])
    if is_sealed:
        site.log.compact()

    plain = (await site.call("POST", DIFF, body)).json
    strong = (await site.call("POST", DIFF, {**body, "consistency": "strong"})).json
    polled = (await site.call("POST", DIFF, {**body, "wait_ms": 1})).json
    packed = await site.call("POST", DIFF, body, headers={b"accept": BATCH})
    head, records = binary.decode_page(packed.body)

    assert timeless(plain) == timeless(strong) == timeless(polled)
    assert timeless(head) == {k: v for k, v in timeless(plain).items() if k != "records"}
    assert [(r.seq, r.data) for r in records] == [(r["$seq"], r["data"]) for r in plain["records"]]
    assert plain["caught_up"] == (plain["next_from_seq"] == plain["head_seq"])
    assert plain["lag"] == max(0, plain["head_seq"] - plain["next_from_seq"])
    await site.close()


@on_loop
async def test_reading_on_from_each_answer_gives_everything_once() -> None:
    site = Site()
    site.log.append("t", list(range(100)))
    found: list[Any] = []
    at = 0

    while True:
        answer = (await site.call("POST", DIFF, {"from_seq": at, "limit": 7})).json
        found += datas(answer)
        assert answer["performance"]["records_scanned"] == answer["next_from_seq"] - at
        at = answer["next_from_seq"]
        if answer["caught_up"]:
            break

    assert found == list(range(100))


@on_loop
async def test_an_empty_body_asks_for_everything() -> None:
    site = Site()
    site.log.append("t", [1])

    assert datas((await site.call("POST", DIFF)).json) == [1]


@on_loop
async def test_a_time_is_a_place_when_no_place_is_given() -> None:
    site = Site()
    site.log.append("t", [1])
    site.clock.advance(1000)
    site.log.append("t", [2])
    now = site.clock.now_ms()

    assert datas((await site.call("POST", DIFF, {"from_ts": now})).json) == [2]
    assert datas((await site.call("POST", DIFF, {"from_ts": now + 1})).json) == []
    assert datas((await site.call("POST", DIFF, {"from_ts": now, "from_seq": 0})).json) == [1, 2]


@on_loop
async def test_a_gap_is_told_in_its_place() -> None:
    site = Site()
    site.log.create("t", cap_records=2)
    site.log.append("t", [1, 2, 3, 4, 5])

    answer = (await site.call("POST", DIFF, {"from_seq": 1})).json

    assert answer["tombstone"] == {
        "gap_from": 2,
        "gap_to": 3,
        "reason": "cap",
        "missed_estimate": 2,
        "earliest_seq": 4,
        "head_seq": 5,
    }
    assert datas(answer) == [4, 5]
    assert answer["performance"]["records_scanned"] == 2


@pytest.mark.parametrize("given_", [{"epoch": 1}, {"from_seq": 50}])
@on_loop
async def test_a_place_in_an_earlier_topic_of_that_name_is_found_out(
    given_: dict[str, int],
) -> None:
    site = Site()
    site.log.append("t", [1, 2, 3])
    site.log.drop("t")
    site.log.append("t", ["new"])

    answer = (await site.call("POST", DIFF, given_)).json

    assert answer["tombstone"]["reason"] == "recreated"
    assert datas(answer) == ["new"]
    assert answer["epoch"] == 2
    assert answer["performance"]["records_scanned"] == 1


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"from_seq": -1}, 400),
        ({"from_seq": 2**64}, 400),
        ({"limit": "ten"}, 400),
        ({"tag": 5}, 400),
        ({"tag": ["tag", "Glob", "x"]}, 400),
        ({"consistency": "maybe"}, 400),
        ({"node": 5}, 400),
        ({"limit": 10**9, "max_batch_bytes": 10**12}, 200),
        ({"unknown": 1}, 200),
    ],
)
@on_loop
async def test_wishes_are_checked_or_brought_within_bounds(
    body: dict[str, Any], status: int
) -> None:
    site = Site()
    site.log.append("t", [1])

    assert (await site.call("POST", DIFF, body)).status == status


@on_loop
async def test_a_read_makes_no_topic_and_counts_as_a_read() -> None:
    site = Site()
    site.log.append("t", [1])

    assert (await site.call("POST", "/v0/topics/none/diff")).code == "topic_not_found"
    await site.call("POST", DIFF)

    assert site.log.core.catalogue.names() == ["t"]
    assert site.service.recency.last_read_ms(site.handle("t").topic.id) == site.clock.now_ms()


# Long polls.


@on_loop
async def test_a_poll_waits_for_the_next_record_and_no_longer(wait_ms: int) -> None:
    site = Site()
    site.log.append("t", [1])
    poll = site.send("POST", DIFF, {"from_seq": 1, "wait_ms": wait_ms})
    await settled()
    assert not poll.is_answered

    site.log.append("t", [2])
    await until(lambda: poll.is_answered)

    assert datas(json.loads(poll.responses[0].body)) == [2]
    assert site.handle("t").listeners == ()


@pytest.mark.parametrize("seq", [0, 99])
@on_loop
async def test_a_poll_that_has_something_to_say_does_not_wait(wait_ms: int, seq: int) -> None:
    site = Site()
    site.log.append("t", [1])

    answer = await site.call("POST", DIFF, {"from_seq": seq, "wait_ms": wait_ms})

    assert answer.json["records"]


@on_loop
async def test_a_poll_in_vain_gives_an_empty_answer() -> None:
    site = Site()
    site.log.append("t", [1])

    answer = await site.call("POST", DIFF, {"from_seq": 1, "wait_ms": 5})

    assert (answer.json["records"], answer.json["caught_up"]) == ([], True)
    assert site.handle("t").listeners == ()


@on_loop
async def test_a_poll_of_a_topic_that_goes_is_answered(wait_ms: int) -> None:
    site = Site()
    site.log.append("t", [1])
    poll = site.send("POST", DIFF, {"from_seq": 1, "wait_ms": wait_ms})
    await settled()

    await site.call("DELETE", "/v0/topics/t")
    await until(lambda: poll.is_answered)

    assert poll.responses[0].status == 404


@on_loop
async def test_a_poll_whose_caller_left_ends(wait_ms: int) -> None:
    site = Site()
    site.log.append("t", [1])
    poll = site.send("POST", DIFF, {"from_seq": 1, "wait_ms": wait_ms})
    await settled()

    assert poll.on_close is not None
    poll.on_close()
    await site.server._gate.drain()

    assert site.handle("t").listeners == ()


@on_loop
async def test_a_poll_has_joined_before_it_reads() -> None:
    """An append between the join and the wait has already woken it."""
    site = Site()
    site.log.append("t", [1])

    poll = Poll(site.service, site.handle("t"))
    site.log.append("t", [2])
    await settled()
    async with asyncio.timeout(PATIENCE_S):
        await poll.wait(10 * PATIENCE_S)
    poll.leave()


@on_loop
async def test_no_append_of_other_threads_slips_past_a_poll(wait_ms: int) -> None:
    """One that is not woken by the last append waits too long. One that is woken by an append that
    it has read already comes back empty, and its caller asks again."""
    site = Site()
    site.log.close()
    site.log = open_log(ROOT, settings=Settings(wal_shards=1), fs=MemoryFilesystem())
    site.service.adopt(site.log.core)
    site.log.create("t")
    count = 150
    thread = threading.Thread(
        target=lambda: [site.log.append("t", [n]) for n in range(count)]  # type: ignore[arg-type]
    )
    thread.start()
    found: list[Any] = []

    while len(found) < count:
        body = {"from_seq": len(found), "wait_ms": wait_ms}
        found += datas((await site.call("POST", DIFF, body)).json)

    thread.join()
    assert found == list(range(count))
    await site.close()
