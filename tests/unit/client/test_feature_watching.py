from __future__ import annotations

import pytest

from penstock.client.feature_watching import FeatureWatchState
from penstock.client.http import HttpResponse
from penstock.errors import ServerError, TableNotFound

ROW = b'event: row\ndata: {"n":1}\n\n'
OTHER = b'event: row\ndata: {"n":2}\n\n'
ERROR = b'event: error\ndata: {"code":"table_failed","message":"no"}\n\n'


def state(timeout_s: float | None = None) -> FeatureWatchState:
    return FeatureWatchState("T", "a", None, source="here", timeout_s=timeout_s, now=100.0)


def test_rows_come_whole_from_pieces() -> None:
    watch = state()

    assert watch.stream_url == "/v0/features/watch/T?key=%22a%22"
    assert watch.feed(b"retry: 2000\n\n" + ROW[:15]) == []
    assert watch.feed(ROW[15:] + b": hb\n\n" + OTHER) == [{"n": 1}, {"n": 2}]


def test_the_row_of_another_connection_is_left_out_if_it_is_known() -> None:
    watch = state()
    was_new = watch.is_new({"n": 1})

    assert was_new
    assert watch.feed(ROW) == []
    watch.record_failure()
    assert watch.feed(ROW + OTHER) == [{"n": 2}]


def test_an_incomplete_row_is_forgotten_with_its_connection() -> None:
    watch = state()
    watch.feed(ROW[:15])
    assert (watch.record_failure(), watch.record_failure()) == (1, 2)

    assert watch.feed(ROW) == [{"n": 1}]
    assert watch.record_failure() == 1


def test_an_error_of_the_server_is_kept_until_the_next_connection() -> None:
    watch = state()
    watch.feed(ERROR)
    had_failed = watch.has_failed
    watch.record_failure()

    assert had_failed
    assert not watch.has_failed


def test_a_stream_that_did_not_open_has_the_reason() -> None:
    body = b'{"error":{"code":"table_not_found","message":"no","detail":{"table":"T"}}}'

    refused = state().refused(HttpResponse(404, {}, body))

    assert isinstance(refused, TableNotFound)


def test_time_runs_from_the_last_change() -> None:
    watch = state(timeout_s=2)
    assert watch.deadline(101) == 102
    assert watch.is_idle(102)
    watch.restart_timeout(102)

    assert not watch.is_idle(103)
    assert state().deadline(0) == 40
    assert not state().is_idle(1e9)


@pytest.mark.parametrize("data", [b"x", b"[1]", b"5"])
def test_nonsense_is_not_understood(data: bytes) -> None:
    with pytest.raises(ServerError, match="is not one"):
        state().feed(b"event: row\ndata: " + data + b"\n\n")
