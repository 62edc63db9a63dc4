"""claim_jitter_ms: claimers that come within one window share what there is."""

from __future__ import annotations

import itertools

from tests.server.queues import check_deadline, claim, counts, jobs, queue, seqs_in, work
from tests.server.support import Api, Later, at_once, holds, now_ms

WINDOW_MS = 1000  # wide enough that threads started together meet in it


def test_four_claimers_of_ten_get_five_of_twenty_each(api: Api, topic: str) -> None:
    queue(api, topic, *range(20), claim_jitter_ms=WINDOW_MS)

    shares = at_once(4, lambda n: seqs_in(claim(api, topic, 10, node=f"w{n}")))

    assert [len(share) for share in shares] == [5] * 4
    assert sorted(itertools.chain(*shares)) == list(range(1, 21))
    assert all(share == sorted(share) for share in shares)
    assert counts(api, topic) == (0, 20)


def test_a_job_more_or_less_is_all_that_shares_differ_by(api: Api, topic: str) -> None:
    queue(api, topic, *range(10), claim_jitter_ms=WINDOW_MS)

    shares = at_once(3, lambda n: len(seqs_in(claim(api, topic, 10, node=f"w{n}"))))

    assert sorted(shares) == [3, 3, 4]


def test_who_wants_less_leaves_the_rest_to_the_others(api: Api, topic: str) -> None:
    queue(api, topic, *range(12), claim_jitter_ms=WINDOW_MS)
    wanted = [1, 3, 20]

    shares = at_once(3, lambda n: len(seqs_in(claim(api, topic, wanted[n], node=f"w{n}"))))

    assert shares == [1, 3, 8]


def test_more_claimers_than_jobs_get_one_or_none(api: Api, topic: str) -> None:
    queue(api, topic, 1, 2, 3, claim_jitter_ms=WINDOW_MS)

    answers = at_once(6, lambda n: claim(api, topic, 5, node=f"w{n}"))

    assert sorted(answer["count"] for answer in answers) == [0, 0, 0, 1, 1, 1]


def test_one_worker_may_claim_twice_in_a_window(api: Api, topic: str) -> None:
    queue(api, topic, *range(4), claim_jitter_ms=WINDOW_MS)

    shares = at_once(2, lambda _: seqs_in(claim(api, topic, 2, node="same")))

    assert sorted(itertools.chain(*shares)) == [1, 2, 3, 4]


def test_a_lone_claimer_gets_what_it_asked_for_after_the_window(api: Api, topic: str) -> None:
    queue(api, topic, *range(5), claim_jitter_ms=300)
    began = now_ms()

    assert seqs_in(claim(api, topic, 3)) == [1, 2, 3]
    assert now_ms() - began >= 290


def test_an_empty_queue_answers_after_the_window_too(api: Api, topic: str) -> None:
    queue(api, topic, claim_jitter_ms=100)

    assert holds(claim(api, topic, 3), {"claimed": [], "count": 0})


def test_jobs_written_within_the_window_are_dealt(api: Api, topic: str) -> None:
    queue(api, topic, claim_jitter_ms=3000)

    with Later(lambda: claim(api, topic, 3)) as waiting:
        api.write(topic, "a", "b")

        assert seqs_in(waiting.result()) == [1, 2]


def test_the_lease_of_who_came_first_holds_for_all(api: Api, topic: str) -> None:
    queue(api, topic, 1, 2, claim_jitter_ms=WINDOW_MS)
    leases = [60_000, 600_000]
    began = now_ms()

    answers = at_once(2, lambda n: claim(api, topic, node=f"w{n}", lease_ms=leases[n]))

    deadlines = [job["deadline"] for answer in answers for job in answer["claimed"]]
    assert len(deadlines) == 2
    for deadline in deadlines:
        check_deadline(deadline, 60_000 if max(deadlines) < began + 300_000 else 600_000, began)


def test_streams_of_work_share_like_claimers(api: Api, topic: str) -> None:
    queue(api, topic, claim_jitter_ms=WINDOW_MS)

    with work(api, topic, "node=a&max=10") as one, work(api, topic, "node=b&max=10") as two:
        one.next()
        two.next()
        api.write(topic, *range(10))

        shares = [[job["$seq"] for job in jobs(stream, 5)] for stream in (one, two)]

    assert sorted(itertools.chain(*shares)) == list(range(1, 11))


def test_without_a_window_nobody_waits(api: Api, topic: str) -> None:
    """The first takes all it asked for: sharing is for those who chose it."""
    queue(api, topic, *range(20))

    assert len(seqs_in(claim(api, topic, 20))) == 20
    assert seqs_in(claim(api, topic, 20, node="late")) == []
