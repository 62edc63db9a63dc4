"""What a sender counts, as it works."""

from __future__ import annotations

from penstock.sender.counters import Counters, SenderStatus, total
from penstock.sender.sender import Sender
from tests.support.sink import DEADLINE_S, SCHEMA, Sink, Visit, conf, take_all


def test_a_sender_begins_with_nothing() -> None:
    assert set(Counters().__struct_fields__) >= {"frames_sent", "frames_replayed", "frames_acked"}
    assert not any(getattr(Counters(), name) for name in Counters.__struct_fields__)


def test_counters_add_up() -> None:
    assert total([]) == Counters()
    assert total([Counters(connects=1, frames_lost=2), Counters(connects=3)]) == Counters(
        connects=4, frames_lost=2
    )


def test_counters_tell_what_happened() -> None:
    def refuses(visit: Visit) -> None:
        visit.keep(visit.take())
        visit.ok()
        visit.take()
        visit.reply((SCHEMA, 1, "no"), close=1000)
        visit.until_gone()

    with Sink(refuses, take_all) as sink, Sender(conf(sink)) as sender:
        sender.append_batch("t", [1, 2, 3])
        sender.flush()
        sink.wait_for(lambda: sender.acked_fsn == 0)
        sender.append("t", 4)
        sender.flush()
        sink.wait_for(lambda: sender.acked_fsn == 1)
        sender.append("t", 5)
        assert sender.drain(DEADLINE_S)

        sink.wait_for(lambda: sender.status().counters.frames_acked == 2)  # just after the answer
        told = sender.status()
    assert isinstance(told, SenderStatus)
    counts = told.counters
    assert (counts.rows_appended, counts.frames_flushed) == (5, 3)
    assert (counts.frames_sent, counts.frames_replayed, counts.frames_acked) == (3, 0, 2)
    assert (counts.frames_rejected, counts.frames_lost) == (1, 0)
    assert (counts.connects, counts.connect_attempts) == (2, 2)
    assert counts.bytes_sent == sum(20 + len(f.payload) for v in sink.visits for f in v.taken)
    assert (told.published_fsn, told.acked_fsn, told.halted) == (2, 2, "")
    assert (told.is_connected, told.host) == (True, sink.addr)
    assert told.orphans == {}
    assert (told.dead_letters, told.torn_bytes) == (0, 0)  # it has no folder
