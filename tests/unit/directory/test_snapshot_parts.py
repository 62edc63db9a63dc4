from __future__ import annotations

import zlib
from collections.abc import Callable

import msgspec
import pytest

from penstock.directory import snapshot_parts
from penstock.directory.snapshot_parts import SnapshotBody, TopicPart
from penstock.engine.engine import Log
from penstock.testing import FakeClock, MemoryFilesystem
from penstock.testing.log import open_memory_log
from penstock.topics.topic import Topic
from tests.unit.engine.support import killed
from tests.unit.topics.support import live_seqs

LOG_ID = bytes(range(16))


# Compared in other ways: by what they hold; `removals` counts anew, the queue has its own test.
NOT_COMPARED = ("spans", "config", "queue", "removals")


def topic_of(log: Log) -> Topic:
    return log.core.parts.handles["t"].topic


def round_trip(log: Log) -> Topic:
    body = SnapshotBody(9, {"": (3, 4)}, [snapshot_parts.capture(topic_of(log))])
    decoded = snapshot_parts.decode(snapshot_parts.encode(body), of=LOG_ID, wanted=LOG_ID)
    assert (decoded.next_topic_id, decoded.positions) == (9, {"": (3, 4)})
    return snapshot_parts.restore(decoded.topics[0], log.core.parts.shelf)


def state(topic: Topic) -> object:
    plain = {name: getattr(topic, name) for name in Topic.__slots__ if name not in NOT_COMPARED}
    spans = [
        (s.first, s.start, s.count, s.live, s.bytes, s.run.is_sealed, s.run.last_ts)
        for s in topic.spans
    ]
    return plain, topic.config, spans, live_seqs(topic)


def plain(log: Log) -> None:
    log.append("t", [1, 2, 3], tag="a")


def with_holes(log: Log) -> None:
    plain(log)
    log.delete("t", seqs=[2])


def with_a_front_cut(log: Log) -> None:
    plain(log)
    log.delete("t", before_seq=3)


def with_keys(log: Log) -> None:
    log.append("t", [1], idempotency_key="k")
    log.append("t", [2, 3], idempotency_key="é")


def with_losses(log: Log) -> None:
    plain(log)
    log.core.catalogue.report_unreadable(log.core.parts.handles["t"], 2, 2)


def evicted(log: Log) -> None:
    log.create("t", cap_records=2)
    plain(log)


def sealed_and_more(log: Log) -> None:
    with_holes(log)
    log.checkpoint(everything=True)
    log.append("t", [4])
    log.delete("t", seqs=[1])


def with_positions(log: Log) -> None:
    plain(log)
    log.move_position("t", "billing", 2)
    log.move_position("t", "audit", 0)


def empty(log: Log) -> None:
    log.create("t", ttl_ms=5, priority=3)


@pytest.mark.parametrize(
    "make",
    [
        *(plain, with_holes, with_a_front_cut, with_keys, with_losses, evicted, sealed_and_more),
        *(with_positions, empty),
    ],
    ids=lambda make: make.__name__,
)
def test_a_topic_comes_back_as_it_was_captured(
    memory_log: Log, make: Callable[[Log], None]
) -> None:
    make(memory_log)

    assert state(round_trip(memory_log)) == state(topic_of(memory_log))


def test_an_expired_topic_comes_back_with_its_floor(
    memory_log: Log, penstock_clock: FakeClock
) -> None:
    memory_log.create("t", ttl_ms=10)
    plain(memory_log)
    penstock_clock.advance(11)
    memory_log.topic("t")

    assert state(round_trip(memory_log)) == state(topic_of(memory_log))


def test_ram_only_records_are_captured_as_lost(memory_log: Log) -> None:
    memory_log.create("t", durability="ephemeral")
    plain(memory_log)

    found = round_trip(memory_log)

    assert (found.head, found.live, found.spans) == (3, 0, [])
    assert [(loss.first, loss.last) for loss in found.losses] == [(1, 3)]
    assert topic_of(memory_log).losses == []


def test_ram_only_records_between_other_losses_are_captured_as_lost(memory_log: Log) -> None:
    memory_log.create("t", durability="ephemeral")
    plain(memory_log)
    topic_of(memory_log).trim(4, 5, hops=1)
    handle = memory_log.core.parts.handles["t"]
    handle.next_seq = 6
    plain(memory_log)

    found = round_trip(memory_log)

    assert [(loss.first, loss.last) for loss in found.losses] == [(1, 3), (4, 5), (6, 8)]


def test_the_key_of_a_ram_only_record_is_forgotten_with_it() -> None:
    log = open_memory_log()
    log.create("t", durability="fsync")
    log.append("t", ["kept"], idempotency_key="a")
    log.create("t", durability="ephemeral")
    log.append("t", ["lost"], idempotency_key="b")
    log.checkpoint()

    again = killed(log)

    assert again.append("t", ["kept"], idempotency_key="a").deduped
    assert not again.append("t", ["lost"], idempotency_key="b").deduped
    assert [record.data for record in again.read("t").records] == ["kept"]
    assert [record.data for record in again.read("t", 1).records] == ["lost"]


def test_a_topic_without_positions_is_written_as_before_there_were_any(memory_log: Log) -> None:
    plain(memory_log)
    without = snapshot_parts.encode(
        SnapshotBody(1, {}, [snapshot_parts.capture(topic_of(memory_log))])
    )
    memory_log.move_position("t", "a", 1)
    with_one = snapshot_parts.encode(
        SnapshotBody(1, {}, [snapshot_parts.capture(topic_of(memory_log))])
    )

    lengths = [len(msgspec.msgpack.decode(data)["topics"][0]) for data in (without, with_one)]

    assert lengths == [14, 15]
    assert snapshot_parts.decode(without, of=LOG_ID, wanted=LOG_ID).topics[0].consumers == []


def test_a_snapshot_of_another_log_is_refused() -> None:
    with pytest.raises(ValueError, match="another log"):
        snapshot_parts.decode(
            snapshot_parts.encode(SnapshotBody(1, {}, [])), of=LOG_ID, wanted=bytes(16)
        )


@pytest.mark.parametrize("data", [b"", b"\xc1", msgspec.msgpack.encode([1, 2]), b"\x80"])
def test_what_is_no_snapshot_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="cannot be decoded"):
        snapshot_parts.decode(data, of=LOG_ID, wanted=LOG_ID)


def tail_part(memory_log: Log) -> TopicPart:
    plain(memory_log)
    return snapshot_parts.capture(topic_of(memory_log))


@pytest.mark.parametrize("change", ["flip", "cut", "first", "count"])
def test_a_tail_that_contradicts_itself_is_refused(memory_log: Log, change: str) -> None:
    part = tail_part(memory_log)
    (span,) = part.spans
    harmed = {
        "flip": {"frames": span.frames[:20] + bytes([span.frames[20] ^ 1]) + span.frames[21:]},
        "cut": {"frames": span.frames[:-1]},
        "first": {"first": span.first + 1},
        "count": {"count": span.count + 1},
    }[change]
    replaced = msgspec.structs.replace(part, spans=[msgspec.structs.replace(span, **harmed)])

    with pytest.raises(ValueError, match="frames of a tail"):
        snapshot_parts.restore(replaced, memory_log.core.parts.shelf)


def test_restoring_reads_no_segment() -> None:
    fs = MemoryFilesystem()
    log = open_memory_log(fs)
    plain(log)
    log.checkpoint(everything=True)
    part = snapshot_parts.capture(topic_of(log))
    opened = fs.counts["open"]

    snapshot_parts.restore(part, log.core.parts.shelf)

    assert fs.counts["open"] == opened


@pytest.mark.parametrize("change", ["frames", "dead"])
def test_a_check_refuses_what_restoring_would_refuse(memory_log: Log, change: str) -> None:
    part = tail_part(memory_log)
    (span,) = part.spans
    harmed = {
        "frames": {"frames": span.frames[:-1]},
        "dead": {"dead": zlib.compress(bytes(1000))},
    }[change]
    replaced = msgspec.structs.replace(part, spans=[msgspec.structs.replace(span, **harmed)])

    snapshot_parts.check(snapshot_parts.encode(SnapshotBody(1, {}, [part])))
    with pytest.raises(ValueError, match=r"tail|bitmap"):
        snapshot_parts.check(snapshot_parts.encode(SnapshotBody(1, {}, [replaced])))
