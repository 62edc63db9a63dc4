"""claim_jitter_ms: claimers that come within one window share what there is.

Whether they do is a matter of time: a machine may pause between two of them. So they are sent one
right after the other on connections that are open, and when they did not meet, others try it with
a wider window.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Sequence
from typing import Any

from tests.server.queues import HOUR_MS, check_deadline, claim, counts, queue, seqs_in, work
from tests.server.sse import EventStream
from tests.server.support import JSON, Api, compact, holds, now_ms
from tests.server.wire import Connection

WINDOWS_MS = (1_000, 5_000)  # the widest there is comes last, and is tried several times
ATTEMPTS = 8

Claim = dict[str, Any]


def sent_together(api: Api, topic: str, claims: Sequence[Claim], data: Any = None) -> list[Any]:
    """The answers to claims that are all sent before any is read, and before a job is written."""
    with contextlib.ExitStack() as held:
        wires = [held.enter_context(Connection(api.address)) for _ in claims]
        for wire, fields in zip(wires, claims, strict=True):
            body = compact(fields).encode()
            wire.send_request("POST", f"/v0/topics/{topic}/claim", body, api.headers(JSON))
        if data is not None:
            api.write(topic, *data)
        replies = [wire.read_reply() for wire in wires]
    assert [reply.status for reply in replies] == [200] * len(claims), replies
    return [reply.json for reply in replies]


def windows(prefix: str) -> list[tuple[str, int]]:
    """Names of queues to try it with, and the window of each."""
    first, widest = WINDOWS_MS
    return [(f"{prefix}.{n}", widest if n else first) for n in range(ATTEMPTS)]


def met(
    api: Api,
    prefix: str,
    jobs: int,
    claims: Sequence[Claim],
    have_met: Callable[[list[Any]], bool],
) -> tuple[str, list[Any]]:
    """The queue in which claimers met, and what each got; the last one when they never did."""
    for topic, window_ms in windows(prefix):
        queue(api, topic, *range(jobs), claim_jitter_ms=window_ms)
        answers = sent_together(api, topic, claims)
        if have_met(answers):
            break
    return topic, answers


def claims_of(*wanted: int) -> list[Claim]:
    return [{"node": f"w{n}", "max": most} for n, most in enumerate(wanted)]


def sizes(answers: list[Any]) -> list[int]:
    return [len(seqs_in(answer)) for answer in answers]


def test_four_claimers_of_ten_get_five_of_twenty_each(api: Api, topic: str) -> None:
    name, answers = met(api, topic, 20, claims_of(*[10] * 4), lambda a: sizes(a) == [5] * 4)

    shares = [seqs_in(answer) for answer in answers]
    assert sizes(answers) == [5] * 4
    assert sorted(itertools.chain(*shares)) == list(range(1, 21))
    assert all(share == sorted(share) for share in shares)
    assert counts(api, name) == (0, 20)


def test_a_job_more_or_less_is_all_that_shares_differ_by(api: Api, topic: str) -> None:
    _, answers = met(api, topic, 10, claims_of(10, 10, 10), lambda a: max(sizes(a)) < 10)

    assert sorted(sizes(answers)) == [3, 3, 4]


def test_who_wants_less_leaves_the_rest_to_the_others(api: Api, topic: str) -> None:
    _, answers = met(api, topic, 12, claims_of(1, 3, 20), lambda a: sizes(a) == [1, 3, 8])

    assert sizes(answers) == [1, 3, 8]


def test_more_claimers_than_jobs_get_one_or_none(api: Api, topic: str) -> None:
    _, answers = met(api, topic, 3, claims_of(*[5] * 6), lambda a: max(sizes(a)) == 1)

    assert sorted(sizes(answers)) == [0, 0, 0, 1, 1, 1]


def test_one_worker_may_claim_twice_in_a_window(api: Api, topic: str) -> None:
    claims = [{"node": "same", "max": 2}] * 2

    _, answers = met(api, topic, 4, claims, lambda _: True)

    assert sorted(itertools.chain(*map(seqs_in, answers))) == [1, 2, 3, 4]


def test_a_lone_claimer_gets_what_it_asked_for_after_the_window(api: Api, topic: str) -> None:
    queue(api, topic, *range(5), claim_jitter_ms=300)
    began = now_ms()

    assert seqs_in(claim(api, topic, 3)) == [1, 2, 3]
    assert now_ms() - began >= 290


def test_an_empty_queue_answers_after_the_window_too(api: Api, topic: str) -> None:
    queue(api, topic, claim_jitter_ms=100)

    assert holds(claim(api, topic, 3), {"claimed": [], "count": 0})


def test_jobs_written_within_the_window_are_dealt(api: Api, topic: str) -> None:
    for name, window_ms in windows(topic):
        queue(api, name, claim_jitter_ms=window_ms)
        [answer] = sent_together(api, name, claims_of(3), ["a", "b"])
        if answer["count"]:
            break

    assert seqs_in(answer) == [1, 2]


def test_the_lease_of_who_came_first_holds_for_all(api: Api, topic: str) -> None:
    leases = [HOUR_MS, 9 * HOUR_MS]
    claims = [{"node": f"w{n}", "lease_ms": lease} for n, lease in enumerate(leases)]
    began = now_ms()

    def deadlines(answers: list[Any]) -> list[int]:
        return [job["deadline"] for answer in answers for job in answer["claimed"]]

    def is_one(answers: list[Any]) -> bool:
        found = deadlines(answers)
        return max(found) - min(found) < HOUR_MS

    _, answers = met(api, topic, 2, claims, is_one)

    assert len(deadlines(answers)) == 2
    first = leases[max(deadlines(answers)) > began + 5 * HOUR_MS]
    for deadline in deadlines(answers):
        check_deadline(deadline, first, began)


def test_streams_of_work_share_like_claimers(api: Api, topic: str) -> None:
    for name, window_ms in windows(topic):
        queue(api, name, claim_jitter_ms=window_ms)
        with work(api, name, "node=a&max=10") as one, work(api, name, "node=b&max=10") as two:
            one.next()
            two.next()
            api.write(name, *range(10))

            shares = pushed([one, two], 10)
        if len(shares[0]) == len(shares[1]):
            break

    assert [len(share) for share in shares] == [5, 5]
    assert sorted(itertools.chain(*shares)) == list(range(1, 11))


def pushed(streams: list[EventStream], count: int) -> list[list[int]]:
    """The seqs of so many jobs, by the stream that they came over."""
    shares: list[list[int]] = [[] for _ in streams]
    for _ in range(10_000):
        for stream, share in zip(streams, shares, strict=True):
            with contextlib.suppress(AssertionError):
                share.append(stream.one("job", 0.02).json["$seq"])
        if sum(map(len, shares)) == count:
            return shares
    raise AssertionError(f"not all jobs came: {shares}")


def test_without_a_window_nobody_waits(api: Api, topic: str) -> None:
    """The first takes all it asked for: sharing is for those who chose it."""
    queue(api, topic, *range(20))

    assert len(seqs_in(claim(api, topic, 20))) == 20
    assert seqs_in(claim(api, topic, 20, node="late")) == []
