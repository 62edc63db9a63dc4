"""Where a stream's batch begins and how it is cut: by offsets alone."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.spark import partitioning
from penstock.spark.gaps import GapRow
from penstock.spark.offsets import Offsets, StreamOffset, to_json
from penstock.spark.partitioning import SeqRange, divide, resolved, with_begun

seqs = st.integers(0, 500)
pairs = st.dictionaries(st.sampled_from("abcd"), st.tuples(st.integers(1, 2), seqs, seqs))


@given(pairs, st.integers(1, 200))
def test_every_seq_is_in_one_task_in_the_order_of_topics(
    ranges: dict[str, tuple[int, int, int]], records_max: int
) -> None:
    start = {
        topic: StreamOffset(epoch, min(one, two)) for topic, (epoch, one, two) in ranges.items()
    }
    end = {topic: StreamOffset(epoch, max(one, two)) for topic, (epoch, one, two) in ranges.items()}

    tasks = divide(start, end, records_max)

    asked = [
        (topic, seq)
        for topic in sorted(end)
        for seq in range(start[topic].seq + 1, end[topic].seq + 1)
    ]
    found = [(p.topic, n) for one in tasks for p in one for n in range(p.after + 1, p.last + 1)]
    assert found == asked
    sizes = [sum(p.last - p.after for p in one) for one in tasks]
    assert len(tasks) == -(-len(asked) // records_max)
    assert max(sizes, default=0) - min(sizes, default=0) <= 1


def test_many_records_are_many_tasks_and_never_too_many() -> None:
    five_million = divide({}, {"t": StreamOffset(1, 5_000_000)}, 262_144)
    assert len(five_million) == 20
    assert five_million[0] == [SeqRange("t", 1, 0, 250_000)]
    assert len(divide({}, {"t": StreamOffset(1, 1 << 50)}, 1)) == partitioning.TASKS_MAX


def test_another_epoch_is_cut_from_its_first_record() -> None:
    assert divide({"t": StreamOffset(1, 90)}, {"t": StreamOffset(2, 9)}, 100) == [
        [SeqRange("t", 2, 0, 9)]
    ]


def test_the_end_of_the_first_batch_tells_where_it_began() -> None:
    start = {"t": StreamOffset(1, 40, 40), "u": StreamOffset(2, 7, 7), "v": StreamOffset(3, 5, 5)}
    end = {
        "t": StreamOffset(1, 90),
        "u": StreamOffset(2, 7),
        "v": StreamOffset(4, 6),
        "w": StreamOffset(5, 3),
    }

    first = with_begun(start, end)

    assert to_json(first) == {
        "t": {"epoch": 1, "seq": 90, "begun": 40},
        "u": {"epoch": 2, "seq": 7},
        "v": {"epoch": 4, "seq": 6, "begun": 0},
        "w": {"epoch": 5, "seq": 3},
    }
    assert to_json(with_begun(first, end)) == to_json(first)  # nothing came: not another batch
    later = with_begun(first, end | {"t": StreamOffset(1, 95)})
    assert to_json(later)["t"] == {"epoch": 1, "seq": 95}


def test_a_first_batch_that_is_run_again_begins_where_it_began() -> None:
    end = with_begun(
        {"t": StreamOffset(1, 40, 40), "u": StreamOffset(2, 7, 7)},
        {"t": StreamOffset(1, 90), "u": StreamOffset(2, 7)},
    )
    now: list[Offsets] = [
        {"t": StreamOffset(1, 40, 40), "u": StreamOffset(2, 7, 7)},
        {"t": StreamOffset(1, 60, 60), "u": StreamOffset(2, 9, 9)},  # a floor rose meanwhile
        {"t": StreamOffset(6, 0, 0), "u": StreamOffset(2, 7, 7)},  # recreated
        {"t": StreamOffset(1, 40, 40), "u": StreamOffset(2, 7, 7), "new": StreamOffset(9, 0, 0)},
    ]

    for start in now:
        assert resolved(start, end) == ({"t": StreamOffset(1, 40), "u": StreamOffset(2, 7)}, [])


def test_later_batches_begin_at_their_start() -> None:
    start = {"t": StreamOffset(1, 90, 40), "gone": StreamOffset(3, 5)}
    end = {"t": StreamOffset(1, 95), "new": StreamOffset(4, 2)}

    found, gaps = resolved(start, end)

    assert found == {
        "t": StreamOffset(1, 90),
        "gone": StreamOffset(3, 5),
        "new": StreamOffset(4, 0),
    }
    assert gaps == []


def test_an_end_before_the_start_is_another_log_and_read_from_its_first_record() -> None:
    found, gaps = resolved({"t": StreamOffset(1, 90)}, {"t": StreamOffset(1, 50)})

    assert found == {"t": StreamOffset(1, 0)}
    assert gaps == [GapRow("t", 1, 51, 90, "recreated")]
