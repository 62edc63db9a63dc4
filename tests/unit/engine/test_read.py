"""The path of a read, through the log: pages, filters, budgets, and where the bytes come from."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import limits
from penstock.codec import kernel
from penstock.codec.frame import FrameType, decode_frame
from penstock.engine import read
from penstock.engine.engine import Log
from penstock.errors import CorruptFrame, InvalidArgument, TopicNotFound
from penstock.testing import FakeClock, MemoryFilesystem
from penstock.testing.log import open_memory_log
from penstock.types import Record
from tests.unit.engine.support import TOPICS, everything, paths, told


def numbers(log: Log, count: int, topic: str = "t") -> None:
    log.append(topic, list(range(1, count + 1)))


# Pages.


def test_an_empty_topic_is_read_to_its_end_at_once(memory_log: Log) -> None:
    memory_log.create("t")

    page = memory_log.read("t")

    assert (page.records, page.gap, page.next_seq, page.head_seq) == ([], None, 0, 0)
    assert (page.earliest_seq, page.caught_up) == (1, True)


@pytest.mark.parametrize("limit", [1, 2, 3, 9, 10, 11])
def test_pages_follow_one_another_without_a_seam(memory_log: Log, limit: int) -> None:
    numbers(memory_log, 10)
    seen: list[int] = []
    page = memory_log.read("t", 0, limit)

    while True:
        seen.extend(record.seq for record in page.records)
        assert len(page.records) <= limit
        assert page.next_seq == seen[-1]
        assert page.caught_up == (page.next_seq == 10)
        if page.caught_up:
            break
        page = memory_log.read("t", page.next_seq, limit)

    assert seen == list(range(1, 11))


def test_a_record_comes_back_with_everything_it_was_given(
    memory_log: Log, penstock_clock: FakeClock
) -> None:
    memory_log.append("t", [Record({"a": [1, None]}, tag="x", node="n", meta={"m": 1})])

    assert memory_log.read("t").records == [
        Record({"a": [1, None]}, "x", "n", {"m": 1}, seq=1, ts=penstock_clock.now_ms())
    ]


@given(
    steps=st.lists(
        st.tuples(st.just("append"), st.integers(1, 5), st.sampled_from(["me", "you", None]))
        | st.tuples(st.just("delete"), st.integers(1, 30), st.integers(0, 5))
        | st.tuples(st.just("seal"), st.just(0), st.none()),
        max_size=10,
    ),
    limit=st.integers(1, 6),
)
def test_next_seq_is_always_good_for_the_next_read(
    steps: list[tuple[str, int, Any]], limit: int
) -> None:
    """Whatever was deleted, filtered or sealed, a reader who passes `next_seq` on gets every
    record that is neither, once, in order, and arrives."""
    log = open_memory_log(wal_file_bytes=64 * 1024)
    log.create("t", durability="memory")
    alive: dict[int, str | None] = {}
    for step, number, what in steps:
        if step == "append":
            first = log.append("t", [0] * number, node=what).first_seq
            alive |= {first + at: what for at in range(number)}
        elif step == "delete":
            log.delete("t", seqs=range(number, number + what + 1))
            alive = {s: n for s, n in alive.items() if not number <= s <= number + what}
        else:
            log.checkpoint(everything=True)

    seen: list[int] = []
    after, reads = 0, 0
    while True:
        page = log.read("t", after, limit, node="me")
        seen.extend(record.seq for record in page.records)
        reads += 1
        if page.caught_up:
            break
        assert page.next_seq > after
        after = page.next_seq

    assert page.gap is None
    assert seen == [seq for seq, node in alive.items() if node != "me"]
    assert reads <= len(seen) // limit + 2


# Filters.


def test_a_reader_does_not_hear_its_own_echo(memory_log: Log) -> None:
    for data, node in [(1, "a"), (2, "b"), (3, None), (4, "a"), (5, "ab")]:
        memory_log.append("t", [data], node=node)

    assert everything(memory_log, node="a") == [2, 3, 5]
    assert everything(memory_log, node=["a", "b"]) == [3, 5]
    assert everything(memory_log, node=[]) == [1, 2, 3, 4, 5]


def test_a_page_of_nothing_but_ones_own_records_still_moves_the_cursor(memory_log: Log) -> None:
    memory_log.append("t", [0] * 20, node="me")

    page = memory_log.read("t", 3, 5, node="me")

    assert (page.records, page.next_seq, page.caught_up) == ([], 20, True)


def test_a_topic_may_turn_the_filter_off(memory_log: Log) -> None:
    memory_log.create("t", dedupe_node=False)
    memory_log.append("t", [1], node="me")

    assert everything(memory_log, node="me") == [1]


# Tags.


def tagged(log: Log) -> None:
    for data, tag in [(1, "a"), (2, "ab"), (3, None), (4, "b"), (5, "a"), (6, "*")]:
        log.append("t", [data], tag=tag)


@pytest.mark.parametrize("sealed", [False, True])
@pytest.mark.parametrize(
    ("tag", "expected"),
    [
        ("a", [1, 5]),
        ("a*", [1, 2, 5]),
        ("*", [1, 2, 4, 5, 6]),
        ("ab*", [2]),
        ("c", []),
        (("tag", "Eq", "*"), [6]),
        (["tag", "Glob", "b*"], [4]),
    ],
)
def test_a_reader_may_ask_for_one_tag_or_a_prefix(
    memory_log: Log, tag: Any, expected: list[int], sealed: bool
) -> None:
    tagged(memory_log)
    if sealed:
        memory_log.checkpoint(everything=True)

    page = memory_log.read("t", tag=tag)

    assert [record.data for record in page.records] == expected
    assert (page.next_seq, page.caught_up) == (6, True)
    assert everything(memory_log, tag=tag, limit=1) == expected
    assert json.loads(memory_log.read_json("t", 1, tag=tag, include_tags=False).records) == [
        {"$seq": n, "$ts": page.records[0].ts, "data": n} for n in expected if n > 1
    ]
    assert memory_log.read_frames("t", tag=tag).count == len(expected)


def test_tag_and_node_both_leave_out(memory_log: Log) -> None:
    for data, tag, node in [(1, "a", "me"), (2, "a", "you"), (3, "b", "you"), (4, "a", None)]:
        memory_log.append("t", [data], tag=tag, node=node)

    assert everything(memory_log, tag="a", node="me") == [2, 4]


@pytest.mark.parametrize("tag", ["", 5, ("tag", "Like", "x"), ("tag", "Glob", "x"), "x" * 257])
def test_a_senseless_tag_is_refused(memory_log: Log, tag: Any) -> None:
    memory_log.create("t")

    with pytest.raises(InvalidArgument):
        memory_log.read("t", tag=tag)


def test_a_page_of_rare_records_is_gathered_from_far_apart(memory_log: Log) -> None:
    for round_ in range(4):
        memory_log.append("t", [0] * 5000)
        memory_log.append("t", [round_], tag="rare")

    page = memory_log.read("t", tag="rare", limit=3)
    rest = memory_log.read("t", page.next_seq, tag="rare", limit=3)

    assert [record.data for record in page.records] == [0, 1, 2]
    assert page.next_seq == page.records[-1].seq
    assert [record.data for record in rest.records] == [3]
    assert rest.caught_up


def test_a_gap_is_told_whatever_the_tag(memory_log: Log) -> None:
    memory_log.create("t", cap_records=2)
    tagged(memory_log)

    assert everything(memory_log, tag="a") == [(1, 4, "cap"), 5]


def test_a_gap_further_on_ends_the_page_and_begins_the_next(memory_log: Log) -> None:
    memory_log.append("t", [0] * 5000, tag="b")
    memory_log.append("t", [1, 2, 3], tag="a")
    memory_log.core.catalogue.report_unreadable(memory_log.core.parts.handles["t"], 5002, 5002)

    first = memory_log.read("t", tag="a")
    second = memory_log.read("t", first.next_seq, tag="a")

    assert ([record.data for record in first.records], first.gap) == ([1], None)
    assert second.gap is not None
    assert (told(second.gap), second.records[0].data) == ((5002, 5002, "damage"), 3)


def test_damage_further_on_costs_nothing_of_what_was_gathered_before_it() -> None:
    fs = MemoryFilesystem()
    log = open_memory_log(fs)
    log.append("t", ["here"], tag="a")
    log.append("t", [0] * 5000, tag="b")
    log.checkpoint(everything=True)
    log.append("t", ["there"], tag="a")
    log.checkpoint(everything=True)
    fs.corrupt(paths(fs, TOPICS, ".data")[1], 20)
    log = open_memory_log(fs.kill())

    page = log.read("t", tag="a")

    assert [record.data for record in page.records] == ["here"]
    with pytest.raises(CorruptFrame, match="seq 5002"):
        log.read("t", page.next_seq, tag="a")


# Frames.


@pytest.mark.parametrize("sealed", [False, True])
def test_frames_are_those_of_the_wal_and_carry_the_whole_record(
    memory_log: Log, sealed: bool
) -> None:
    records = [Record({"n": n}, tag="x" if n % 2 else None, meta=[n]) for n in range(5)]
    memory_log.append("t", records, node="me")
    memory_log.delete("t", seqs=[2])
    if sealed:
        memory_log.checkpoint(everything=True)
    epoch = memory_log.topic("t").epoch

    page = memory_log.read_frames("t", 0, 3)

    frames, at = [], 0
    while at < len(page.frames):
        frame, at = decode_frame(page.frames, at)
        frames.append(frame)
    assert [(f.type, f.topic_id, f.seq, f.node, f.tag) for f in frames] == [
        (FrameType.APPEND, epoch, seq, b"me", b"" if seq % 2 else b"x") for seq in (1, 3, 4)
    ]
    assert frames[0].data == b'{"m":[0],"d":{"n":0}}'
    assert (page.count, page.next_seq, page.head_seq, page.earliest_seq) == (3, 4, 5, 1)
    assert (page.caught_up, page.gap, page.epoch) == (False, None, epoch)
    assert memory_log.read_frames("t", 5).frames == b""


def test_frames_of_segments_and_tail_follow_each_other(memory_log: Log) -> None:
    memory_log.append("t", [1, 2])
    memory_log.checkpoint(everything=True)
    memory_log.append("t", [3])

    page = memory_log.read_frames("t")
    one = memory_log.read_frames("t", max_bytes=1)

    items, stop, reason = kernel.scan(page.frames, 0, len(page.frames))
    assert (items[0][2], items[0][6], stop, reason) == (1, 3, len(page.frames), 0)
    assert (one.count, one.next_seq) == (1, 1)


# Seeking.


@pytest.mark.parametrize("sealed", [False, True])
def test_a_reader_may_begin_at_a_time(
    memory_log: Log, penstock_clock: FakeClock, sealed: bool
) -> None:
    times = []
    for number in range(1, 6):
        times.append(penstock_clock.now_ms())
        memory_log.append("t", [number])
        if sealed and number % 2:
            memory_log.checkpoint(everything=True)
        penstock_clock.advance(10)
    memory_log.delete("t", seqs=[3])

    found = [memory_log.seek("t", ts) for ts in (0, times[0], times[0] + 1, times[2], times[4])]

    assert found == [0, 0, 1, 2, 4]
    assert memory_log.seek("t", times[4] + 1) == 5
    assert [record.data for record in memory_log.read("t", found[3]).records] == [4, 5]


def test_a_time_before_all_that_is_left_is_where_the_topic_begins(
    memory_log: Log, penstock_clock: FakeClock
) -> None:
    memory_log.create("t", cap_records=2)
    numbers(memory_log, 5)
    memory_log.create("empty")

    assert memory_log.seek("t", 0) == 3
    assert memory_log.read("t", 3).gap is None
    assert memory_log.seek("empty", 0) == 0


def test_seeking_reads_no_data_file() -> None:
    fs = MemoryFilesystem()
    log = open_memory_log(fs)
    numbers(log, 5)
    log.checkpoint(everything=True)
    ts = log.read("t").records[0].ts
    log = open_memory_log(fs.kill())
    fs = log.core.parts.fs
    for path in paths(fs, TOPICS, ".data"):
        fs.unlink(path)

    assert (log.seek("t", ts), log.seek("t", ts + 1)) == (0, 5)


@pytest.mark.parametrize("ts", [-1, "1", None, 1 << 64])
def test_a_senseless_time_is_refused(memory_log: Log, ts: Any) -> None:
    memory_log.create("t")

    with pytest.raises(InvalidArgument):
        memory_log.seek("t", ts)


# Budgets.


def test_a_page_keeps_its_byte_budget_but_never_starves(memory_log: Log) -> None:
    memory_log.append("t", ["x" * 100] * 10)

    one = memory_log.read_json("t", max_bytes=1)
    some = memory_log.read_json("t", max_bytes=500)

    assert one.count == 1
    assert 1 < some.count < 10
    assert len(some.records) <= 700
    assert some.next_seq == some.count


@pytest.mark.parametrize("limit", [0, -1, "5", 1.5])
def test_a_senseless_limit_is_refused(memory_log: Log, limit: Any) -> None:
    memory_log.create("t")

    with pytest.raises(InvalidArgument):
        memory_log.read("t", 0, limit)


def test_a_limit_beyond_the_bound_is_clamped(memory_log: Log) -> None:
    for _ in range(2):
        memory_log.append("t", [0] * limits.BATCH_RECORDS_MAX)

    assert len(memory_log.read("t", 0, 1 << 40).records) == limits.READ_RECORDS_MAX
    assert len(memory_log.read("t").records) == limits.READ_RECORDS_DEFAULT


@pytest.mark.parametrize("after", [-1, "1", None, 1.0])
def test_a_senseless_cursor_is_refused(memory_log: Log, after: Any) -> None:
    memory_log.create("t")

    with pytest.raises(InvalidArgument):
        memory_log.read("t", after)


@pytest.mark.parametrize("node", ["", "x" * 129, [5], ["a", ""]])
def test_a_senseless_node_is_refused(memory_log: Log, node: Any) -> None:
    memory_log.create("t")

    with pytest.raises(InvalidArgument):
        memory_log.read("t", node=node)


def test_a_missing_topic_is_told_from_a_bad_name(memory_log: Log) -> None:
    with pytest.raises(TopicNotFound):
        memory_log.read("t")
    with pytest.raises(InvalidArgument):
        memory_log.read("not a name")


# Gaps.


def test_a_gap_is_part_of_the_page_and_told_once(memory_log: Log) -> None:
    memory_log.create("t", cap_records=3)
    numbers(memory_log, 10)

    page = memory_log.read("t", 0, 2)
    rest = memory_log.read("t", page.next_seq)

    assert told(page.gap) == (1, 7, "cap")
    assert [record.seq for record in page.records] == [8, 9]
    assert (rest.gap, [record.seq for record in rest.records]) == (None, [10])


def test_time_makes_a_gap_by_itself(memory_log: Log, penstock_clock: FakeClock) -> None:
    memory_log.create("t", ttl_ms=1000)
    memory_log.append("t", [1, 2])
    penstock_clock.advance(600)
    memory_log.append("t", [3])
    before = everything(memory_log)

    penstock_clock.advance(401)

    assert before == [1, 2, 3]
    assert everything(memory_log) == [(1, 2, "ttl"), 3]
    assert memory_log.topic("t").count == 1


def test_a_recreated_topic_is_noticed_by_its_epoch(memory_log: Log) -> None:
    numbers(memory_log, 5)
    old = memory_log.read("t").epoch
    memory_log.drop("t")
    numbers(memory_log, 9)

    page = memory_log.read("t", 5, epoch=old)

    assert told(page.gap) == (1, 9, "recreated")
    assert [record.seq for record in page.records] == list(range(1, 10))
    assert page.epoch != old
    assert memory_log.read("t", 9, epoch=page.epoch).gap is None


def test_deletes_are_silent(memory_log: Log) -> None:
    numbers(memory_log, 6)
    memory_log.delete("t", before_seq=3)
    memory_log.delete("t", seqs=[4, 6])

    assert everything(memory_log) == [3, 5]
    assert everything(memory_log, limit=1) == [3, 5]


# Where the bytes come from.


def test_sealed_records_read_as_the_same_bytes_as_the_tail(memory_log: Log) -> None:
    for number in range(50):
        tag = f"t{number % 3}" if number % 2 else None
        records = [Record({"n": number, "é": '"'}, tag=tag, meta=[1] if number % 5 else None)]
        memory_log.append("t", records, node="n" if number % 7 else None)
    memory_log.delete("t", seqs=[1, 7, 30])

    def pages() -> list[object]:
        return [
            memory_log.read_json("t", 0, 999, include_tags=True),
            memory_log.read_json("t", 5, 10),
            memory_log.read_json("t", 5, 10, node="n"),
            memory_log.read_json("t", 0, 999, include_data=False, include_meta=False),
        ]

    from_memory = pages()
    report = memory_log.checkpoint(everything=True)

    assert report.segments_sealed == 1
    assert memory_log.topic("t").segments == 1
    assert pages() == from_memory


def test_a_page_spans_segments_and_the_tail(memory_log: Log) -> None:
    for start in (1, 4, 7):
        memory_log.append("t", [start, start + 1, start + 2])
        if start < 7:
            memory_log.checkpoint(everything=True)

    assert memory_log.topic("t").segments == 2
    assert everything(memory_log) == everything(memory_log, limit=2) == list(range(1, 10))


def test_a_damaged_record_stops_the_reader_and_not_the_records_before_it() -> None:
    fs = MemoryFilesystem()
    log = open_memory_log(fs)
    log.append("t", [1])
    log.checkpoint(everything=True)
    log.append("t", [2])
    log.checkpoint(everything=True)
    second = paths(fs, TOPICS, ".data")[1]
    fs.corrupt(second, 20)
    log = open_memory_log(fs.kill())

    page = log.read("t")

    assert ([record.data for record in page.records], page.next_seq) == ([1], 1)
    with pytest.raises(CorruptFrame, match="seq 2") as caught:
        log.read("t", 1)
    assert (caught.value.path, caught.value.offset) == (second, 0)


def test_json_is_never_parsed_on_its_way_through(memory_log: Log) -> None:
    text = b'{"b": 1.10,  "a":2, "a":3, "s":"\\u00e9"}'
    memory_log.append("t", [text])

    page = memory_log.read_json("t")

    assert text in page.records
    assert list(json.loads(page.records)[0]) == ["$seq", "$ts", "data"]


@pytest.mark.parametrize(
    "text", [b"1e999", b"-1e999", b"9" * 400, b"9" * 5000, b'"\\ud800"', b'{"\\udfff":1}', b"-0"]
)
def test_what_an_append_accepted_can_be_read(memory_log: Log, text: bytes) -> None:
    """A record that no reader can get past would end the topic for all of them."""
    try:
        memory_log.append("t", [text, "after"])
    except InvalidArgument:
        return

    assert memory_log.read("t").records[-1].data == "after"


def test_a_node_that_is_no_text_is_a_usage_error(memory_log: Log) -> None:
    memory_log.create("t")

    with pytest.raises(InvalidArgument):
        memory_log.read("t", node=5)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["json", "frames"])
def test_a_hot_read_touches_no_disk_when_upkeep_seals_meanwhile(
    monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Upkeep seals between the look at what is in memory and the read itself."""
    mapped: list[str] = []

    class Watched(MemoryFilesystem):
        def map(self, path: str) -> memoryview:
            mapped.append(path)
            return super().map(path)

    log = open_memory_log(Watched(), segment_max_events=20)
    log.append("t", list(range(30)))
    is_quick = read.is_quick

    def and_then_sealed(*given: Any) -> bool:
        found = is_quick(*given)
        log.compact()
        mapped.clear()
        return found

    monkeypatch.setattr(read, "is_quick", and_then_sealed)
    wanted = read.options(1000, None, None, is_wire=True)
    hot = read.read_hot if kind == "json" else read.frames_hot

    assert hot(log.core.catalogue.find("t"), 0, None, wanted) is None
    assert mapped == []
    log.close()
