from __future__ import annotations

import pytest

from penstock.client.table_watching import TableWatchState
from penstock.errors import ServerError
from penstock.projection_types import TableChange
from penstock.types import Gap, Offset

CHANGE = (
    b"id: 3.7\nevent: change\n"
    b'data: {"key":5,"value":{"id":5},"is_deleted":false,"seq":7,"ts":9}\n\n'
)
LOST = b'id: 3.9\nevent: tombstone\ndata: {"first":8,"last":9,"reason":"cap"}\n\n'


def state(timeout_s: float | None = None) -> TableWatchState:
    return TableWatchState("t", None, source="here", timeout_s=timeout_s, now=100.0)


def test_events_are_changes_and_gaps() -> None:
    watch = state()

    assert watch.feed(CHANGE[:20]) == []
    assert watch.feed(CHANGE[20:]) == [TableChange(5, {"id": 5}, False, 7, 9, Offset(3, 7))]
    [gap] = watch.feed(b": hb\n\n" + LOST)
    assert isinstance(gap, Gap)
    assert (gap.first, gap.last, gap.reason, watch.last_id) == (8, 9, "cap", "3.9")


def test_an_incomplete_event_is_forgotten_with_its_connection() -> None:
    watch = state()
    watch.feed(CHANGE[:20])
    assert (watch.record_failure(), watch.record_failure()) == (1, 2)

    assert len(watch.feed(CHANGE)) == 1
    assert watch.record_failure() == 1


def test_only_a_reset_ends_it() -> None:
    watch = state()
    watch.feed(b'event: error\ndata: {"code":"server_shutting_down","message":""}\n\n')
    going_on = not watch.has_ended()
    watch.feed(b'event: error\ndata: {"code":"table_reset","message":""}\n\n')

    assert going_on
    assert watch.has_ended()


def test_time_runs_from_the_last_change() -> None:
    watch = state(timeout_s=2)
    assert watch.deadline(101) == 102
    assert watch.is_idle(102)
    watch.restart_timeout(102)

    assert not watch.is_idle(103)
    assert state().deadline(0) == 40


@pytest.mark.parametrize("data", [b"x", b'{"key":1}'])
def test_nonsense_is_not_understood(data: bytes) -> None:
    with pytest.raises(ServerError, match="is not one"):
        state().feed(b"id: 1.1\nevent: change\ndata: " + data + b"\n\n")
