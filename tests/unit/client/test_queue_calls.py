"""The verbs of queues: as values, and over real sockets with both clients."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from typing import Any

import pytest

from penstock.client import queue_calls
from penstock.client.calls import Call
from penstock.client.http import HttpResponse
from penstock.errors import InvalidArgument, NotAQueue, OutcomeUnknown, ServerError
from penstock.types import Claimed, Job, QueueCounts, Settled
from tests.unit.client.support import (
    CALLERS,
    Act,
    Caller,
    Peer,
    error_answer,
    hang_up,
    json_answer,
    peer_of,
    say,
)

JOB = Job(3, "lease_1f", 1_760_000_030_000, 1_760_000_000_000, 2, {"a": 1}, "t", {"m": 1})
SENT = {
    "$seq": 3,
    "lease_id": "lease_1f",
    "deadline": 1_760_000_030_000,
    "$ts": 1_760_000_000_000,
    "deliveries": 2,
    "data": {"a": 1},
    "$tag": "t",
    "meta": {"m": 1},
}
CLAIMED = {"topic": "q", "claimed": [SENT], "count": 1, "ready": 7, "performance": {}}
ACKED = {"topic": "q", "acked": 1, "skipped": [9], "ready": 4, "in_flight": 2}


def body_of(call: Call[Any]) -> Any:
    return json.loads(call.body)


def parsed(call: Call[Any], answer: Any) -> Any:
    body = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
    return call.parse(HttpResponse(200, {}, body), "http://peer")


# Claims.


def test_a_claim_says_who_and_how_many_and_the_rest_only_when_told() -> None:
    plain = queue_calls.claim("q/1", "ann", 5, None, 0.0)
    full = queue_calls.claim("q", "ann", 1, 700, 2.5)

    assert (plain.method, plain.target) == ("POST", "/v0/topics/q%2F1/claim")
    assert body_of(plain) == {"node": "ann", "max": 5}
    assert body_of(full) == {"node": "ann", "max": 1, "lease_ms": 700, "wait_ms": 2_500}
    assert (plain.wait_s, full.wait_s) == (0.0, 2.5)


def test_a_claim_is_a_change_that_is_never_repeated() -> None:
    call = queue_calls.claim("q", "ann", 1, None, 0.0)

    assert (call.is_change, call.is_repeatable) == (True, False)


@pytest.mark.parametrize(("given", "sent"), [(-1.0, 0.0), (31.0, 30.0), (1e9, 30.0)])
def test_a_claim_waits_no_longer_than_servers_do(given: float, sent: float) -> None:
    call = queue_calls.claim("q", "ann", 1, None, given)

    assert call.wait_s == sent
    assert body_of(call).get("wait_ms", 0) == sent * 1_000


def test_a_claim_s_answer_is_jobs() -> None:
    call = queue_calls.claim("q", "ann", 1, None, 0.0)
    bare = {key: SENT[key] for key in SENT if key not in ("$tag", "meta")}

    assert parsed(call, CLAIMED) == Claimed("q", [JOB], 7)
    assert parsed(call, {"topic": "q", "claimed": [bare | {"data": None}]}) == Claimed(
        "q", [Job(3, "lease_1f", 1_760_000_030_000, 1_760_000_000_000, 2)], 0
    )


@pytest.mark.parametrize("node", ["", None, 5])
def test_a_worker_has_a_name(node: Any) -> None:
    with pytest.raises(InvalidArgument, match="node"):
        queue_calls.claim("q", node, 1, None, 0.0)
    with pytest.raises(InvalidArgument, match="node"):
        queue_calls.resolve("ack", "q", node, [1], ())


# Settling.


def test_jobs_are_settled_under_their_leases() -> None:
    call = queue_calls.resolve("nack", "q", "ann", [JOB], (), delay_ms=50)

    assert (call.method, call.target) == ("POST", "/v0/topics/q/nack")
    assert body_of(call) == {
        "node": "ann",
        "seqs": [3],
        "lease_ids": ["lease_1f"],
        "delay_ms": 50,
    }
    assert (call.is_change, call.is_repeatable) == (True, True)


def test_seqs_alone_are_settled_once() -> None:
    call = queue_calls.resolve("ack", "q", "ann", [1, 2], ())

    assert body_of(call) == {"node": "ann", "seqs": [1, 2]}
    assert not call.is_repeatable


def test_seqs_among_jobs_are_settled_once_too() -> None:
    call = queue_calls.resolve("ack", "q", "ann", [JOB, 8], ())

    assert body_of(call)["lease_ids"] == ["lease_1f", ""]
    assert not call.is_repeatable


def test_lease_ids_stand_beside_seqs() -> None:
    call = queue_calls.resolve("extend", "q", "ann", [1, 2], ["lease_1", "lease_2"], lease_ms=900)

    assert body_of(call) == {
        "node": "ann",
        "seqs": [1, 2],
        "lease_ids": ["lease_1", "lease_2"],
        "lease_ms": 900,
    }
    assert call.is_repeatable


@pytest.mark.parametrize("word", ["acked", "nacked", "extended"])
def test_an_answer_says_what_was_settled(word: str) -> None:
    call = queue_calls.resolve("ack", "q", "ann", [JOB], ())
    answer = {
        "topic": "q",
        word: 2,
        "skipped": [9, 8],
        "ready": 4,
        "in_flight": 1,
        "deadlines": {"3": 77},
        "performance": {"fsync_ms": 1.5},
    }

    assert parsed(call, answer) == Settled("q", 2, [9, 8], 4, 1, {3: 77}, 1.5)
    assert parsed(call, {"topic": "q", word: 0}) == Settled("q", 0, [], 0, 0)


SENSELESS = [
    b"",
    b"[]",
    b"nothing",
    {"topic": "q"},
    {"topic": "q", "acked": "many"},
    {"acked": 1},
    {"topic": "q", "acked": 1, "skipped": 5},
    {"topic": "q", "acked": 1, "deadlines": {"x": 1}},
    {"topic": "q", "acked": 1, "deadlines": [1]},
]


@pytest.mark.parametrize("answer", SENSELESS)
def test_an_answer_without_sense_is_a_server_error(answer: Any) -> None:
    with pytest.raises(ServerError):
        parsed(queue_calls.resolve("ack", "q", "ann", [JOB], ()), answer)


@pytest.mark.parametrize(
    "answer", [b"", b"[]", {"topic": "q"}, {"topic": "q", "claimed": [{"$seq": 1}]}]
)
def test_a_claim_s_answer_without_sense_is_a_server_error(answer: Any) -> None:
    with pytest.raises(ServerError):
        parsed(queue_calls.claim("q", "ann", 1, None, 0.0), answer)


# Counts.


def test_counts_are_those_of_the_topic_untouched() -> None:
    call = queue_calls.counts("q")
    counted = {"ready": 1, "in_flight": 2, "delayed": 3, "dead_lettered": 4}

    assert (call.method, call.target) == ("GET", "/v0/topics/q?touch=false")
    assert parsed(call, {"topic": "q", "queue": counted}) == QueueCounts(1, 2, 3, 4)
    assert not call.is_change


def test_a_log_has_no_counts() -> None:
    with pytest.raises(ServerError, match="'q' may not be a queue"):
        parsed(queue_calls.counts("q"), {"topic": "q"})


# Over sockets.


@pytest.fixture(params=CALLERS, ids=["threads", "asyncio"])
def kind(request: pytest.FixtureRequest) -> type[Caller]:
    return request.param


@contextlib.contextmanager
def pair(kind: type[Caller], *acts: Act) -> Iterator[tuple[Caller, Peer]]:
    with peer_of(*acts) as peer, contextlib.closing(kind(peer.url)) as call:
        yield call, peer


def test_both_clients_speak_the_verbs(kind: type[Caller]) -> None:
    answers = [
        CLAIMED,
        ACKED,
        {"topic": "q", "nacked": 1},
        {"topic": "q", "extended": 1, "deadlines": {"3": 5}},
        {"queue": {"ready": 1, "in_flight": 0, "delayed": 0, "dead_lettered": 0}},
    ]
    with pair(kind, *[say(json_answer(answer)) for answer in answers]) as (call, peer):
        claimed = call("claim", "q", "ann", 4, lease_ms=900)
        acked = call("ack", "q", "ann", claimed.jobs)
        nacked = call("nack", "q", "ann", [3], delay_ms=20)
        extended = call("extend", "q", "ann", [3], ["lease_1f"], lease_ms=100)
        counts = call("queue_counts", "q")

    assert claimed == Claimed("q", [JOB], 7)
    assert acked == Settled("q", 1, [9], 4, 2)
    assert (nacked.done, extended.deadlines, counts) == (1, {3: 5}, QueueCounts(1, 0, 0, 0))
    assert [asked.target.rpartition("/")[2] for asked in peer.asked[:4]] == [
        "claim",
        "ack",
        "nack",
        "extend",
    ]
    assert peer.asked[0].json == {"node": "ann", "max": 4, "lease_ms": 900}
    assert peer.asked[2].json == {"node": "ann", "seqs": [3], "delay_ms": 20}
    assert peer.asked[3].json["lease_ids"] == ["lease_1f"]


def test_a_claim_whose_answer_was_lost_is_not_sent_again(kind: type[Caller]) -> None:
    with pair(kind, hang_up, say(json_answer(CLAIMED))) as (call, peer):
        with pytest.raises(OutcomeUnknown):
            call("claim", "q", "ann")

        assert len(peer.asked) == 1


def test_an_ack_whose_answer_was_lost_is_sent_again_under_its_lease(kind: type[Caller]) -> None:
    with pair(kind, hang_up, say(json_answer(ACKED))) as (call, peer):
        assert call("ack", "q", "ann", [JOB]).done == 1

        assert [asked.json for asked in peer.asked] == [
            {"node": "ann", "seqs": [3], "lease_ids": ["lease_1f"]}
        ] * 2


def test_an_ack_by_seq_alone_is_not_sent_again(kind: type[Caller]) -> None:
    with pair(kind, hang_up, say(json_answer(ACKED))) as (call, peer):
        with pytest.raises(OutcomeUnknown):
            call("ack", "q", "ann", [3])

        assert len(peer.asked) == 1


def test_a_log_is_no_queue(kind: type[Caller]) -> None:
    refused = error_answer(409, "not_a_queue", {"topic": "q"})
    with pair(kind, say(refused)) as (call, _), pytest.raises(NotAQueue):
        call("claim", "q", "ann")
