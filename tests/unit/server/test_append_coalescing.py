"""Plain appends of one turn of the loop: one commit, and the answers of single ones."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.codec import kernel
from penstock.engine import batch as batches
from penstock.errors import Overloaded, TopicFull, TopicNotFound
from penstock.server.appends import CREATE_AND_WAIT
from tests.unit.server.bench import Bench
from tests.unit.server.support import on_loop, until


@on_loop
async def test_plain_appends_of_one_turn_are_one_commit_and_each_gets_its_own_seqs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bench = Bench()
    bench.log.create("t")
    counts: list[int] = []
    submit = bench.log.core.submit_to

    def counted(handle: Any, batch: batches.Batch, *rest: Any, **named: Any) -> None:
        counts.append(batch.count)
        submit(handle, batch, *rest, **named)

    monkeypatch.setattr(bench.log.core, "submit_to", counted)

    for n in range(4):
        bench.append("t", [n] * (n + 1))
    bench.append("t", [4], key="k")
    bench.append("t", [5])
    bench.append("t", [6], expected_seq=12)
    bench.append("t", [7])
    await until(lambda: len(bench.answers) == 8)

    assert counts == [10, 1, 1, 1, 1]
    assert [seq for seq, _ in bench.answers] == [1, 2, 4, 7, 11, 12, 13, 14]
    assert bench.datas("t") == [0, 1, 1, 2, 2, 2, 3, 3, 3, 3, 4, 5, 6, 7]


@pytest.mark.skipif(not kernel.COMPILED, reason="records stay in their text with the kernel alone")
@on_loop
async def test_records_that_stay_in_their_texts_share_a_commit_among_themselves(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bench = Bench()
    bench.log.create("t")
    counts: list[int] = []
    submit = bench.log.core.submit_to

    def counted(handle: Any, batch: batches.Batch, *rest: Any, **named: Any) -> None:
        counts.append(batch.count)
        submit(handle, batch, *rest, **named)

    monkeypatch.setattr(bench.log.core, "submit_to", counted)

    def append(body: bytes) -> None:
        split = batches.split_json(body)
        assert split is not None
        bench.submit("t", batches.from_spans(split[1]))

    append(b'{"records":[{"data":0},{"data":1,"tag":"a"}]}')
    append(b'{"records":[{"data":2}]}')
    bench.append("t", [3])
    append(b'{"records":[{"data":4,"node":"n"}]}')
    await until(lambda: len(bench.answers) == 4)

    assert counts == [3, 1, 1]
    assert [seq for seq, _ in bench.answers] == [1, 3, 4, 5]
    assert bench.datas("t") == [0, 1, 2, 3, 4]
    found = [(record.tag, record.node) for record in bench.log.read("t").records]
    assert found == [(None, None), ("a", None), (None, None), (None, None), (None, "n")]


@on_loop
async def test_a_full_topic_refuses_each_append_of_a_turn_by_itself() -> None:
    bench = Bench()
    bench.log.create("t", discard="reject", cap_records=2)
    refused = 0

    for n in range(4):
        try:
            bench.append("t", [n])
        except TopicFull:
            refused += 1
    await until(lambda: len(bench.answers) == 2)

    assert refused == 2
    assert bench.datas("t") == [0, 1]


@on_loop
async def test_a_topic_that_is_dropped_within_the_turn_is_not_found() -> None:
    bench = Bench()
    bench.log.create("t")

    bench.append("t", [1])
    bench.append("t", [2])
    bench.log.drop("t")
    await until(lambda: len(bench.answers) == 2)

    assert all(isinstance(answer, TopicNotFound) for answer in bench.answers)


@on_loop
async def test_a_long_run_is_submitted_in_pieces() -> None:
    bench = Bench()
    bench.log.create("t")

    for n in range(2500):
        bench.append("t", [n])
    await until(lambda: len(bench.answers) == 2500)

    assert bench.datas("t") == list(range(2500))
    assert [seq for seq, _ in bench.answers] == list(range(1, 2501))


@on_loop
async def test_when_there_is_no_room_those_who_wait_wait_and_those_behind_them_do_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bench = Bench()
    bench.log.create("t")
    is_full = True
    submit = bench.log.core.submit_to

    def full(*args: Any, **named: Any) -> None:
        if is_full:
            raise Overloaded("the write queue is full", retry_after_ms=100)
        submit(*args, **named)

    monkeypatch.setattr(bench.log.core, "submit_to", full)

    bench.append("t", [1])
    bench.append("t", [2], disable_backpressure=True)
    bench.append("t", [3])
    await until(lambda: bench.answers)
    bench.append("t", [4])
    is_full = False
    await until(lambda: len(bench.answers) == 4)

    assert isinstance(bench.answers[0], Overloaded)
    assert bench.service.writes_throttled == 1
    assert bench.datas("t") == [2, 3, 4]


@on_loop
async def test_a_caller_that_fails_on_its_answer_keeps_no_other_from_its_own() -> None:
    bench = Bench()
    bench.log.create("t")
    batch = batches.prepare([1], tag=None, node=None, key=None)

    def broken(answer: object) -> None:
        raise RuntimeError("a bug")

    bench.append("t", [0])
    bench.service.append("t", batch, CREATE_AND_WAIT, broken)
    bench.append("t", [2])
    await until(lambda: len(bench.answers) == 2)

    assert bench.answers == [(1, False), (3, False)]
