"""Feature verbs as requests, and answers as values. No sockets."""

from __future__ import annotations

import json
from typing import Any

import pytest

from penstock.client import feature_calls
from penstock.client.http import HttpResponse
from penstock.errors import InvalidArgument, ServerError
from penstock.feature_types import FeatureError, FeatureRead

PUSHED = {
    "event": "Ride",
    "topic": "rides",
    "first_seq": 1,
    "last_seq": 2,
    "count": 2,
    "deduped": 0,
    "ts": 9,
    "version": 3,
}


def answer(body: object, status: int = 200) -> HttpResponse:
    return HttpResponse(status, {"content-type": "application/json"}, json.dumps(body).encode())


def body_of(call: feature_calls.Call[Any]) -> Any:
    return json.loads(call.body)


def test_a_registration_sends_its_nodes_and_waits_for_at_most_half_a_minute() -> None:
    nodes = ({"events": [{"name": "Ride"}]}, '{"tables": [{"name": "Riders"}]}')

    call = feature_calls.register(nodes, dry_run=True, force=False, whole=True, wait_s=99)

    assert (call.method, call.target) == ("POST", "/v0/features/definition")
    body = body_of(call)
    assert (body["events"], body["derived"]) == ([{"name": "Ride"}], [])
    assert body["tables"] == [{"name": "Riders"}]
    assert (body["dry_run"], body["force"], body["whole"]) == (True, False, True)
    assert body["wait_ms"] == 30_000
    found = call.parse(
        answer({"version": 2, "changed": True, "changes": [], "tables": {"Riders": "ready"}}), "x"
    )
    assert (found.version, found.is_changed, found.tables) == (2, True, {"Riders": "ready"})


@pytest.mark.parametrize(
    ("data", "sent"),
    [
        ({"a": 1}, {"a": 1}),
        (b'{"a": 1.50}', {"a": 1.5}),
        ([{"a": 1}, b'{"a": 2}'], [{"a": 1}, {"a": 2}]),
        ([], []),
    ],
)
def test_a_push_sends_one_event_or_an_array(data: Any, sent: Any) -> None:
    call = feature_calls.push("Ride", data, "per_event")

    assert call.target == "/v0/features/push/Ride?sync=per_event"
    assert body_of(call) == sent
    assert not call.is_repeatable
    assert call.parse(answer(PUSHED), "x").last_seq == 2


def test_a_text_of_an_event_is_sent_as_it_is() -> None:
    assert feature_calls.push("Ride", b'{"a":1.50}', None).body == b'{"a":1.50}'


@pytest.mark.parametrize(
    "data",
    [b"{", b'{"a":1}, {"a":2}', {"a": object()}, {"a": "\ud800"}, [b"1 2"]],
    ids=["cut", "two", "object", "surrogate", "numbers"],
)
def test_what_is_no_json_is_not_sent(data: Any) -> None:
    with pytest.raises(InvalidArgument):
        feature_calls.push("Ride", data, None)


@pytest.mark.parametrize("name", ["", 5, "\ud800"])
def test_what_cannot_be_a_name_is_not_sent(name: Any) -> None:
    with pytest.raises(InvalidArgument, match="invalid name"):
        feature_calls.table(name)
    with pytest.raises(InvalidArgument, match="invalid name"):
        feature_calls.push(name, {}, None)


def test_a_get_sends_what_was_given_and_nothing_else() -> None:
    plain = feature_calls.get("T", None, None)
    full = feature_calls.get("T", ("a", 5), ["n"], as_of_seq=7, as_of_ts=8, eventual=True)

    assert body_of(plain) == {"table": "T"}
    assert body_of(full) == {
        "table": "T",
        "key": ["a", 5],
        "features": ["n"],
        "as_of_seq": 7,
        "as_of_ts": 8,
        "eventual": True,
    }
    assert plain.parse(answer({"table": "T", "row": {"n": None}}), "x") == {"n": None}


def test_rows_and_errors_of_a_batch_are_in_the_order_of_its_reads() -> None:
    reads = [("T", "a"), ("T", "b", ["n"]), FeatureRead("Fleet")]

    call = feature_calls.batch_get(reads, eventual=False)

    assert body_of(call)["requests"] == [
        {"table": "T", "key": "a"},
        {"table": "T", "key": "b", "features": ["n"]},
        {"table": "Fleet"},
    ]
    error = {"code": "table_not_found", "message": "no"}
    found = call.parse(answer({"results": [{"row": {"n": 1}}, {"row": {}}, {"error": error}]}), "x")
    assert found == [{"n": 1}, {}, FeatureError("table_not_found", "no")]


def test_a_push_with_reads_answers_both() -> None:
    call = feature_calls.push_and_get("Ride", [{"a": 1}], [("T", "a")], None)

    assert body_of(call) == {
        "event": "Ride",
        "data": [{"a": 1}],
        "reads": [{"table": "T", "key": "a"}],
        "sync": None,
    }
    assert not call.is_repeatable
    pushed, rows = call.parse(answer({"pushed": PUSHED, "results": [{"row": {"n": 1}}]}), "x")
    assert (pushed.count, rows) == (2, [{"n": 1}])
    with pytest.raises(ServerError, match="pushed"):
        call.parse(answer({"results": []}), "x")


@pytest.mark.parametrize(
    ("key", "features", "url"),
    [
        (None, None, "/v0/features/watch/T"),
        ("a b", None, "/v0/features/watch/T?key=%22a+b%22"),
        (5, ["n", "m"], "/v0/features/watch/T?key=5&features=n%2Cm"),
        (("a", True), None, "/v0/features/watch/T?key=%5B%22a%22%2Ctrue%5D"),
    ],
)
def test_a_watch_has_its_key_as_json_in_the_url(key: Any, features: Any, url: str) -> None:
    assert feature_calls.watch_url("T", key, features) == url


def test_a_page_of_rows_is_asked_for_and_read() -> None:
    call = feature_calls.scan("Riders", 5, 10, ["n"], 70)

    assert (call.method, call.target) == ("POST", "/v0/features/scan")
    assert body_of(call) == {
        "table": "Riders",
        "after": 5,
        "limit": 10,
        "features": ["n"],
        "now_ms": 70,
    }
    assert "now_ms" not in body_of(feature_calls.scan("Riders", 0, 10, None, None))
    page = {
        "rows": [{"key": ["ana"], "row": {"n": 1}}],
        "places": [{"features": ["n"], "applied": {"epoch": 1, "seq": 9}}],
        "now_ms": 70,
        "next_after": None,
    }
    found = call.parse(answer(page), "x")
    assert (found.rows[0].row, found.next_after) == ({"n": 1}, None)


def test_a_load_names_a_folder_and_waits_for_it() -> None:
    call = feature_calls.load("Riders", "/snapshots/1", 99.0)

    assert body_of(call) == {"table": "Riders", "folder": "/snapshots/1"}
    assert call.wait_s == 99.0
    offset = {"epoch": 1, "seq": 9}
    told = {"table": "Riders", "parts": ["Riders.1"], "keys": 2, "saved": True}
    found = call.parse(answer(told | {"snapshot": offset, "applied": offset}), "x")
    assert (found.snapshot.seq, found.is_saved) == (9, True)


def test_a_text_in_the_place_of_names_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="expected a list of names"):
        feature_calls.get("T", "a", "n")
    with pytest.raises(InvalidArgument, match="expected a list of names"):
        feature_calls.watch_url("T", "a", "n")
