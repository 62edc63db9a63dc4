"""Many workers at once: nobody gets a job that somebody has, and no job is left behind."""

from __future__ import annotations

import itertools
import random

from tests.server.queues import ack, claim, counts, jobs, nack, queue, seqs_in, work
from tests.server.support import Api, at_once


def test_sixteen_claimers_never_get_the_same_job(api: Api, topic: str) -> None:
    queue(api, topic, *range(500))

    def work_on(number: int) -> list[int]:
        found: list[int] = []
        while got := seqs_in(claim(api, topic, 7, node=f"w{number}", lease_ms=600_000)):
            found += got
        return found

    shares = at_once(16, work_on)

    assert sorted(itertools.chain(*shares)) == list(range(1, 501))
    assert counts(api, topic) == (0, 500)


def test_sixteen_workers_do_each_job_once(api: Api, topic: str) -> None:
    queue(api, topic, *range(500))

    def work_on(number: int) -> list[int]:
        done: list[int] = []
        while got := seqs_in(claim(api, topic, 7, node=f"w{number}", lease_ms=600_000)):
            assert ack(api, topic, *got, node=f"w{number}")["acked"] == len(got)
            done += got
        return done

    shares = at_once(16, work_on)

    assert sorted(itertools.chain(*shares)) == list(range(1, 501))
    assert api.state(topic)["count"] == 0
    assert counts(api, topic) == (0, 0)


def test_one_job_among_many_claimers_has_one_holder(api: Api, topic: str) -> None:
    queue(api, topic)

    for seq in range(1, 6):
        api.write(topic, seq)
        found = at_once(8, lambda n: seqs_in(claim(api, topic, 5, node=f"w{n}")))
        assert sorted(found) == [[]] * 7 + [[seq]]


def test_jobs_given_back_and_written_meanwhile_are_all_done(api: Api, topic: str) -> None:
    """Two write, six work; a worker gives a job back now and then, and each is acked once."""
    queue(api, topic)
    total = 120

    def work_on(number: int) -> list[int]:
        if number < 2:
            for n in range(total // 2 // 5):
                api.write(topic, *[n] * 5)
            return []
        choice, node, done = random.Random(number), f"w{number}", list[int]()
        while api.state(topic)["head_seq"] < total or counts(api, topic) != (0, 0):
            for seq in seqs_in(claim(api, topic, 4, node=node, lease_ms=600_000)):
                if choice.random() < 0.2:
                    assert nack(api, topic, seq, node=node)["nacked"] == 1
                else:
                    assert ack(api, topic, seq, node=node)["acked"] == 1
                    done.append(seq)
        return done

    shares = at_once(8, work_on)

    assert sorted(itertools.chain(*shares)) == list(range(1, total + 1))
    assert api.state(topic)["count"] == 0


def test_a_race_of_two_acks_has_one_winner(api: Api, topic: str) -> None:
    queue(api, topic, *range(20))
    claim(api, topic, 20)

    answers = at_once(4, lambda _: ack(api, topic, *range(1, 21)))

    assert sum(answer["acked"] for answer in answers) == 20
    assert sum(len(answer["skipped"]) for answer in answers) == 60
    assert api.state(topic)["count"] == 0


def test_an_ack_and_a_nack_of_one_job_have_one_winner(api: Api, topic: str) -> None:
    queue(api, topic, *range(10))
    claim(api, topic, 10)

    def settle_all(number: int) -> int:
        if number:
            return sum(int(ack(api, topic, seq)["acked"]) for seq in range(1, 11))
        return sum(int(nack(api, topic, seq)["nacked"]) for seq in range(1, 11))

    nacked, acked = at_once(2, settle_all)

    assert nacked + acked == 10
    assert counts(api, topic) == (nacked, 0)
    assert api.state(topic)["count"] == nacked


def test_streams_and_claimers_never_get_the_same_job(api: Api, topic: str) -> None:
    queue(api, topic)

    def work_on(number: int) -> list[int]:
        node, found = f"w{number}", list[int]()
        if number == 0:
            for n in range(12):
                api.write(topic, *[n] * 5)
        elif number < 3:
            while len(found) < 20:
                most = min(2, 20 - len(found))
                found += (got := seqs_in(claim(api, topic, most, node=node, lease_ms=600_000)))
                ack(api, topic, *got, node=node)
        else:
            with work(api, topic, f"node={node}&max=2&lease_ms=600000") as stream:
                while len(found) < 10:
                    found += (got := [job["$seq"] for job in jobs(stream, 1)])
                    ack(api, topic, *got, node=node)
        return found

    shares = at_once(5, work_on)

    assert sorted(itertools.chain(*shares)) == list(range(1, 61))
