"""The verbs over real sockets, for threads and for asyncio alike: one suite, both clients."""

from __future__ import annotations

import contextlib
import inspect
import itertools
import json
import threading
from collections.abc import Iterator
from typing import Any, Never, get_args, get_type_hints
from unittest.mock import ANY

import pytest

from penstock.client.async_client import AsyncClient
from penstock.client.client import Client
from penstock.client.connect import connect
from penstock.engine.engine import Log
from penstock.errors import (
    Closed,
    ConnectionFailed,
    CorruptFrame,
    Forbidden,
    InvalidArgument,
    OutcomeUnknown,
    Overloaded,
    ServerError,
    TopicNotFound,
    Unauthorized,
)
from penstock.types import CaughtUp, Dropped, Gap, Record
from penstock.wire import binary_batch
from penstock.wire.models import Publish, WriteBody
from tests.support.serving import eventually
from tests.support.wire_texts import event_text, written
from tests.unit.client.support import (
    CALLERS,
    DEADLINE_S,
    PASSING_S,
    Act,
    Asked,
    Caller,
    Hold,
    Peer,
    answer,
    appended_answer,
    error_answer,
    hang_up,
    json_answer,
    no_one_listens,
    page_answer,
    peer_of,
    reset,
    say,
    say_and_close,
)

BUSY = error_answer(503, "not_ready", retry_after="0")
MISSING = error_answer(404, "topic_not_found", {"topic": "t"})


@pytest.fixture(params=CALLERS, ids=["threads", "asyncio"])
def kind(request: pytest.FixtureRequest) -> type[Caller]:
    return request.param


@contextlib.contextmanager
def pair(kind: type[Caller], *acts: Act, **told: Any) -> Iterator[tuple[Caller, Peer]]:
    with peer_of(*acts) as peer, contextlib.closing(kind(peer.url, **told)) as call:
        yield call, peer


def key_of(asked: Asked) -> Any:
    return written(asked.body)[0].get("idempotency_key")


# The same verbs.


def parameters(kind: type, verb: str) -> dict[str, Any]:
    """By name: the kind and the default. Keywords that are declared elsewhere have no default."""
    found: dict[str, Any] = {}
    hints = get_type_hints(inspect.unwrap(getattr(kind, verb)))
    for name, one in inspect.signature(getattr(kind, verb)).parameters.items():
        if one.kind is not inspect.Parameter.VAR_KEYWORD or hints[name] in (Any, Never):
            found[name] = one.kind, one.default
        else:
            [keywords] = get_args(hints[name])
            found |= dict.fromkeys(get_type_hints(keywords), (inspect.Parameter.KEYWORD_ONLY, ANY))
    return found


def verbs(kind: type) -> set[str]:
    held = vars(kind).items()
    return {name for name, one in held if name[0] != "_" and not isinstance(one, property)}


def test_both_clients_have_the_same_verbs_with_the_same_parameters() -> None:
    assert verbs(Client) == verbs(AsyncClient)
    for verb in verbs(Client):
        assert parameters(Client, verb) == parameters(AsyncClient, verb), verb


LOCAL = {"seqs"}  # parameters of the embedded log that cannot be asked for over HTTP
APART = {
    "watch",  # the log calls a function back; a client iterates over a stream
    "read_columns",  # a client has every column
}


@pytest.mark.parametrize("verb", sorted(verbs(Client) & verbs(Log) - APART))
def test_a_verb_takes_what_the_embedded_log_s_verb_takes(verb: str) -> None:
    held, ours = parameters(Log, verb), parameters(Client, verb)

    assert {name: held[name] for name in held if name not in LOCAL} == {
        name: ours[name] for name in held if name not in LOCAL
    }
    extra = [ours[name][0] for name in ours if name not in held]
    assert all(one is inspect.Parameter.KEYWORD_ONLY for one in extra)


@pytest.mark.parametrize("body", [WriteBody, Publish], ids=["http", "websocket"])
def test_an_option_of_append_reaches_every_protocol(body: type[WriteBody]) -> None:
    """A tag is a member of each record over HTTP."""
    options = set(parameters(Log, "append")) - {"self", "topic", "records", "tag"}

    assert options <= set(body.__struct_fields__)


# Secrets.


def test_the_token_is_sent_and_never_shown(kind: type[Caller]) -> None:
    refused = error_answer(401, "unauthorized")
    with pair(kind, say(refused), token="s3cret") as (call, peer):
        with pytest.raises(Unauthorized) as caught:
            call("health")

        assert peer.asked[0].headers["authorization"] == "Bearer s3cret"
        assert "s3cret" not in repr(call.client) + str(caught.value) + repr(caught.value)
        assert peer.url in repr(call.client)


# Appends and retries.


def test_an_append_is_sent_as_a_binary_batch_with_a_key(kind: type[Caller]) -> None:
    with pair(kind, say(appended_answer())) as (call, peer):
        done = call("append", "t", [{"a": 1}], tag="x")

        (asked,) = peer.asked
        assert asked.headers["content-type"] == binary_batch.CONTENT_TYPE
        assert written(asked.body)[1:] == ([b'{"a":1}'], None, [b"x"], None)
        assert len(key_of(asked)) == 32
        assert (done.first_seq, done.fsync_ms) == (1, 2.5)


@pytest.mark.parametrize("trouble", [reset, hang_up, say_and_close(b"HTTP/1.1 2"), say(BUSY)])
def test_an_append_that_fails_on_the_way_is_repeated_with_the_same_key(
    kind: type[Caller], trouble: Act
) -> None:
    with pair(kind, trouble, trouble, say(appended_answer())) as (call, peer):
        assert call("append", "t", [1]).first_seq == 1
        assert len(peer.asked) == 3
        assert len({key_of(asked) for asked in peer.asked}) == 1


def test_two_appends_have_two_keys_and_a_caller_s_own_is_kept(kind: type[Caller]) -> None:
    with pair(kind, say(appended_answer())) as (call, peer):
        call("append", "t", [1])
        call("append", "t", [1])
        call("append", "t", [1], idempotency_key="own")

        keys = [key_of(asked) for asked in peer.asked]
        assert len(set(keys)) == 3
        assert keys[2] == "own"


def test_an_append_whose_answer_never_comes_is_unknown_and_not_failed(kind: type[Caller]) -> None:
    for timeout_s in PASSING_S:
        hold = Hold()
        with pair(kind, hold, timeout_s=timeout_s) as (call, peer):
            with pytest.raises(Overloaded) as caught:
                call("append", "t", [1])
            if hold.reached.wait(timeout_s):
                break

    assert isinstance(caught.value, OutcomeUnknown)
    assert caught.value.idempotency_key == key_of(peer.asked[0])


def test_without_keys_an_append_is_sent_once(kind: type[Caller]) -> None:
    with pair(kind, reset, idempotency=False) as (call, peer):
        with pytest.raises(OutcomeUnknown) as caught:
            call("append", "t", [1])

        assert caught.value.idempotency_key is None
        assert key_of(peer.asked[0]) is None
        assert len(peer.asked) == 1


def test_a_drop_whose_answer_was_lost_is_not_repeated(kind: type[Caller]) -> None:
    with pair(kind, reset) as (call, peer):
        with pytest.raises(OutcomeUnknown):
            call("drop", "t")

        assert len(peer.asked) == 1


def test_a_question_is_repeated_and_in_the_end_the_connection_failed(kind: type[Caller]) -> None:
    with pair(kind, reset, attempts_max=4) as (call, peer):
        with pytest.raises(ConnectionFailed):
            call("topic", "t")

        assert len(peer.asked) == 4


def test_where_nobody_listens_the_connection_failed(kind: type[Caller]) -> None:
    with (
        no_one_listens() as url,
        contextlib.closing(kind(url, attempts_max=3)) as call,
        pytest.raises(ConnectionFailed, match="refused"),
    ):
        call("append", "t", [1])


def test_a_wait_beyond_the_deadline_is_not_waited_for(kind: type[Caller]) -> None:
    busy = say(error_answer(429, "throttled", retry_after="3600"))
    with pair(kind, busy) as (call, peer):
        with pytest.raises(Overloaded) as caught:
            call("append", "t", [1])

        assert caught.value.retry_after_ms == 3_600_000
        assert len(peer.asked) == 1


def test_an_answer_that_is_final_is_not_repeated(kind: type[Caller]) -> None:
    with pair(kind, say(error_answer(500, "internal"))) as (call, peer):
        with pytest.raises(ServerError, match="it is internal"):
            call("append", "t", [1])

        assert len(peer.asked) == 1


def test_a_record_that_cannot_be_sent_is_not_sent(kind: type[Caller]) -> None:
    with pair(kind, say(b"")) as (call, peer):
        with pytest.raises(InvalidArgument):
            call("append", "t", [object()])

        assert not peer.asked


def test_another_deadline_shares_the_connections(kind: type[Caller]) -> None:
    busy = say(error_answer(429, "throttled", retry_after="250"))
    with pair(kind, say(json_answer({})), busy, timeout_s=500.0) as (call, peer):
        call("health")
        call.client = call.client.within(DEADLINE_S)
        with pytest.raises(Overloaded):
            call("health")

        assert [asked.connection for asked in peer.asked] == [1, 1]


def test_the_caller_s_trace_travels_with_appends(
    kind: type[Caller], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.client.tracing.headers", lambda: {"traceparent": "00-a-b-01"})
    with pair(kind, say(appended_answer())) as (call, peer):
        call("append", "t", [1])

        assert peer.asked[0].headers["traceparent"] == "00-a-b-01"


# Reads.


def test_a_read_brings_verified_records(kind: type[Caller]) -> None:
    with pair(kind, say(page_answer(1, 2, head=9))) as (call, peer):
        page = call("read", "t", 0, 2, tag="x")

        assert page.records == [Record(data=seq, seq=seq, ts=1000 + seq) for seq in (1, 2)]
        assert (page.next_seq, page.head_seq, page.caught_up) == (2, 9, False)
        assert peer.asked[0].headers["accept"] == binary_batch.CONTENT_TYPE
        assert peer.asked[0].json == {"from_seq": 0, "limit": 2, "tag": "x"}


def test_a_read_as_json_keeps_the_texts(kind: type[Caller]) -> None:
    with pair(kind, say(page_answer(1))) as (call, _):
        page = call("read_json", "t")

        assert json.loads(page.records) == [{"$seq": 1, "$ts": 1001, "data": 1}]
        assert page.count == 1


def test_a_page_that_was_damaged_on_the_way_is_corrupt(kind: type[Caller]) -> None:
    damaged = bytearray(page_answer(1, 2))
    damaged[-3] ^= 1
    with (
        pair(kind, say(bytes(damaged))) as (call, _),
        pytest.raises(CorruptFrame, match="checksum"),
    ):
        call("read", "t")


def test_verbs_of_several_calls_are_carried_out(kind: type[Caller]) -> None:
    put = json_answer({"topic": "t", "created": True, "config": {}, "epoch": 3}, 201)
    with pair(kind, say(put), say(page_answer(7, head=9))) as (call, peer):
        assert call("create", "t", cap_records=5).epoch == 3
        assert call("seek", "t", 1000) == 6
        assert peer.asked[0].json == {"cap_records": 5}


def test_the_server_s_own_words_are_passed_on(kind: type[Caller]) -> None:
    acts = [
        *(say(json_answer({"status": "ok"})), say(json_answer({"status": "ready"}))),
        *(say(BUSY), say(answer(200, b"a 1\n")), say(json_answer({"topics": 3}))),
    ]
    with pair(kind, *acts) as (call, peer):
        assert call("health") == {"status": "ok"}
        assert call("ready") is True
        assert call("ready") is False
        assert call("metrics") == "a 1\n"
        assert call("stats") == {"topics": 3}
        assert [asked.target for asked in peer.asked][-1] == "/v0/metrics"


def test_positions_come_and_go(kind: type[Caller]) -> None:
    one = {"name": "n", "seq": 1, "epoch": 2, "ts": 3, "lag_records": 4, "lag_ms": 5, "head_seq": 6}
    missing = error_answer(404, "position_not_found", {"topic": "t", "name": "n"})
    acts = [
        *(say(json_answer(one)), say(json_answer(one)), say(missing)),
        *(say(json_answer({"positions": [one]})), say(json_answer({"deleted": True}))),
    ]
    with pair(kind, *acts) as (call, _):
        assert call("move_position", "t", "n", 1).lag_records == 4
        assert call("position", "t", "n").seq == 1
        assert call("position", "t", "n") is None
        assert [position.name for position in call("positions", "t")] == ["n"]
        assert call("drop_position", "t", "n") is True


# Following.


def test_a_topic_is_followed_through_gaps_lost_connections_and_restarts(
    kind: type[Caller],
) -> None:
    stone = {"gap_from": 3, "gap_to": 4, "reason": "cap", "earliest_seq": 5, "head_seq": 6}
    acts = [
        *(say(page_answer(1, 2)), reset, say(BUSY), hang_up, say_and_close(b"HTTP/1.1 garb\r\n")),
        *(say(page_answer(5, 6, gap=stone)), say(page_answer(head=6)), say(page_answer(7))),
        say(MISSING),
    ]
    with pair(kind, *acts) as (call, peer):
        items = call.items("follow", "t")

        assert [getattr(item, "seq", "gap") for item in items] == [1, 2, "gap", 5, 6, 7]
        asked = [(one.json["from_seq"], one.json.get("epoch")) for one in peer.asked]
        assert asked == [(0, None), *[(2, 1)] * 5, (6, 1), (6, 1), (7, 1)]


def test_following_outlasts_more_failures_than_a_call_has_attempts(kind: type[Caller]) -> None:
    acts = [say(page_answer(1)), *[reset] * 12, say(page_answer(2)), say(MISSING)]
    with pair(kind, *acts, attempts_max=3) as (call, _):
        assert [item.seq for item in call.items("follow", "t")] == [1, 2]


@pytest.mark.parametrize(
    ("trouble", "error"),
    [(say(MISSING), TopicNotFound), (reset, ConnectionFailed), (say(BUSY), Overloaded)],
)
def test_following_that_cannot_begin_says_why(
    kind: type[Caller], trouble: Act, error: type[Exception]
) -> None:
    with pair(kind, trouble, attempts_max=2) as (call, _), pytest.raises(error):
        call.items("follow", "t")


def test_following_ends_when_nothing_came_for_so_long(kind: type[Caller]) -> None:
    with pair(kind, say(page_answer(1)), say(page_answer(head=1))) as (call, peer):
        items = call.items("follow", "t", timeout_s=0.05)

        assert [item.seq for item in items] == [1]
        assert peer.asked[0].json.get("wait_ms", 0) <= 50


def test_following_ends_when_nobody_has_answered_for_so_long(kind: type[Caller]) -> None:
    with pair(kind, say(page_answer(1)), reset) as (call, _):
        assert [item.seq for item in call.items("follow", "t", timeout_s=0.05)] == [1]


def test_a_topic_that_was_made_anew_is_a_gap(kind: type[Caller]) -> None:
    stone = {"gap_from": 1, "gap_to": 2, "reason": "recreated", "earliest_seq": 1, "head_seq": 2}
    acts = [say(page_answer(9)), say(page_answer(1, 2, gap=stone, epoch=5)), say(MISSING)]
    with pair(kind, *acts) as (call, peer):
        _, gap, *others = call.items("follow", "t")

        assert isinstance(gap, Gap)
        assert gap.reason == "recreated"
        assert [item.seq for item in others] == [1, 2]
        assert peer.asked[-1].json["epoch"] == 5


# Watching.

STREAM = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\nretry: 2000\n\n"


def session_answer(**topics: int) -> bytes:
    told = {name: {"from_seq": seq, "head_seq": seq} for name, seq in topics.items()}
    return json_answer({"wid": "wid_1", "stream_url": "/v0/watch/wid_1", "topics": told})


def event(kind: str, id: str = "", **fields: Any) -> bytes:
    return event_text(kind, json.dumps(fields).encode(), id)


def records(topic: str, first: int, last: int, id: str = "") -> bytes:
    made = [{"$seq": seq, "$ts": 1, "data": seq} for seq in range(first, last + 1)]
    return event("record", id, topic=topic, from_seq=first - 1, to_seq=last, records=made)


GONE = event("topic-deleted", topic="t", head_seq=0)


def test_a_watch_goes_on_through_lost_connections_and_a_forgotten_session(
    kind: type[Caller],
) -> None:
    forgotten = error_answer(404, "not_found")
    bye = event("error", code="server_shutting_down", message="bye")
    acts = [
        say(session_answer(t=0)),
        say_and_close(STREAM + records("t", 1, 2, "two") + records("t", 3, 4, "four")[:-1]),
        reset,
        say_and_close(STREAM + records("t", 3, 4, "four") + bye),
        say(BUSY),
        say(forgotten),
        say(session_answer(t=4)),
        say_and_close(STREAM + records("t", 5, 5) + GONE),
    ]
    with pair(kind, *acts) as (call, peer):
        items = call.items("watch", "t")

        assert [getattr(item, "seq", item) for _, item in items] == [1, 2, 3, 4, 5, Dropped()]
        assert {topic for topic, _ in items} == {"t"}
        last_ids = [one.headers.get("last-event-id") for one in peer.asked if one.method == "GET"]
        assert last_ids == [None, "two", "two", "four", "four", None]
        assert peer.asked[6].json["topics"] == {"t": {"from_seq": 4}}


def test_a_watch_brings_gaps_and_tells_when_it_has_caught_up(kind: type[Caller]) -> None:
    stone = event(
        "tombstone", topic="t", reason="cap", gap_from=1, gap_to=2, earliest_seq=3, head_seq=3
    )
    stream = STREAM + stone + records("t", 3, 3) + event("caught-up", topic="t", head_seq=3)
    with pair(kind, say(session_answer(t=0)), say(stream)) as (call, _):
        items = call.items("watch", ["t"], count=3)

        assert items == [
            ("t", Gap(1, 2, "cap", 2, 3, 3)),
            ("t", Record(data=3, seq=3, ts=1)),
            ("t", CaughtUp(3)),
        ]


def test_a_watch_ends_when_nothing_came_for_so_long(kind: type[Caller]) -> None:
    hold = Hold()

    def stream(asked: Asked, sock: Any) -> bool:
        sock.sendall(STREAM + records("t", 1, 1) + b": hb\n\n")
        return hold(asked, sock)

    for timeout_s in PASSING_S:
        with pair(kind, say(session_answer(t=0)), stream) as (call, _):
            items = call.items("watch", "t", timeout_s=timeout_s)
            hold.go.set()
        if items:
            break
        hold.go.clear()

    assert len(items) == 1


@pytest.mark.parametrize(
    ("trouble", "error"),
    [(say(MISSING), TopicNotFound), (reset, ConnectionFailed), (say(BUSY), Overloaded)],
)
def test_a_watch_that_cannot_begin_says_why(
    kind: type[Caller], trouble: Act, error: type[Exception]
) -> None:
    with pair(kind, trouble, attempts_max=2) as (call, _), pytest.raises(error):
        call.items("watch", "t")


def test_a_watch_that_is_refused_says_why(kind: type[Caller]) -> None:
    refused = say(error_answer(403, "forbidden"))
    with pair(kind, say(session_answer(t=0)), refused) as (call, _), pytest.raises(Forbidden):
        call.items("watch", "t")


# Closing.


def test_a_closed_client_sends_nothing(kind: type[Caller]) -> None:
    with pair(kind, say(json_answer({}))) as (call, peer):
        call("health")
        call("close")
        call("close")
        with pytest.raises(Closed):
            call("health")
        with pytest.raises(Closed):
            call.items("follow", "t")
        with pytest.raises(Closed):
            call.items("watch", "t")

        assert len(peer.asked) == 1


@pytest.mark.parametrize("verb", ["follow", "watch"])
def test_closing_ends_what_goes_on_in_another_thread(verb: str) -> None:
    hold = Hold()
    begin = [say(page_answer(1)), hold]
    if verb == "watch":

        def stream(asked: Asked, sock: Any) -> bool:
            sock.sendall(STREAM + records("t", 1, 1))
            return hold(asked, sock)

        begin = [say(session_answer(t=0)), stream]
    with peer_of(*begin) as peer:
        client = connect(peer.url, timeout_s=DEADLINE_S)
        found: list[Any] = []
        thread = threading.Thread(target=lambda: found.extend(getattr(client, verb)("t")))
        thread.start()
        assert hold.reached.wait(DEADLINE_S)
        eventually(lambda: found, "the record before the end")
        client.close()
        thread.join(DEADLINE_S)
        hold.go.set()

        assert not thread.is_alive()
        assert len(found) == 1


def test_closing_ends_a_pause_between_attempts() -> None:
    with peer_of(say(error_answer(503, "not_ready", retry_after="200"))) as peer:
        client = connect(peer.url, timeout_s=4 * DEADLINE_S)
        caught: list[Exception] = []

        def call() -> None:
            try:
                client.health()
            except Closed as error:
                caught.append(error)

        thread = threading.Thread(target=call)
        thread.start()
        peer.wait_for_asked()
        client.close()
        thread.join(DEADLINE_S)

        assert len(caught) == 1


def test_a_client_is_a_context_manager() -> None:
    with peer_of(say(json_answer({}))) as peer:
        with connect(peer.url, timeout_s=DEADLINE_S) as client:
            client.health()
        with pytest.raises(Closed):
            client.health()


def test_one_client_serves_several_threads() -> None:
    numbers = itertools.count(1)

    def number(asked: Asked, sock: Any) -> None:
        sock.sendall(appended_answer(first=next(numbers)))

    with peer_of(number) as peer, connect(peer.url, timeout_s=DEADLINE_S) as client:
        seqs: list[int] = []

        def work() -> None:
            seqs.extend(client.append("t", [1]).first_seq for _ in range(20))

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(DEADLINE_S)

        assert sorted(seqs) == list(range(1, 81))
        assert peer.connections <= 4
