"""A diff that waits: woken by what it waits for, and never missing it."""

from __future__ import annotations

import random

import pytest

from tests.server.support import Api, Later, at_once, datas_of, new_name, refused, seqs_of

LONG_MS = 30_000  # the most there is


def test_a_waiting_reader_gets_the_next_record(api: Api, topic: str) -> None:
    api.write(topic, "old")

    with Later(lambda: api.diff(topic, from_seq=1, wait_ms=LONG_MS)) as waiting:
        api.write(topic, "new")
        answer = waiting.result()

    assert datas_of(answer) == ["new"]
    assert (answer["next_from_seq"], answer["caught_up"]) == (2, True)


def test_who_has_something_to_read_does_not_wait(api: Api, topic: str) -> None:
    api.write(topic, 1)

    assert datas_of(api.diff(topic, wait_ms=LONG_MS)) == [1]


def test_who_has_a_gap_to_hear_of_does_not_wait(api: Api, topic: str) -> None:
    api.write(topic, 1)

    assert api.diff(topic, from_seq=9, wait_ms=LONG_MS)["tombstone"]["reason"] == "recreated"


def test_after_the_time_the_answer_is_empty(api: Api, topic: str) -> None:
    api.create(topic)

    answer = api.diff(topic, wait_ms=50)

    assert (answer["records"], answer["caught_up"], answer["tombstone"]) == ([], True, None)


def test_the_own_write_wakes_and_moves_the_cursor(api: Api, topic: str) -> None:
    """One wake, one look: what it finds is the answer, also when it is nothing to show."""
    api.create(topic)

    with Later(lambda: api.diff(topic, node="me", wait_ms=LONG_MS)) as waiting:
        while not waiting.is_done:
            api.write(topic, 1, node="me")
        answer = waiting.result()

    assert answer["records"] == []
    assert answer["next_from_seq"] >= 1


def test_a_topic_that_goes_wakes_its_readers(api: Api, topic: str) -> None:
    api.create(topic)

    with Later(lambda: api.post(f"/v0/topics/{topic}/diff", {"wait_ms": LONG_MS})) as waiting:
        api.get("/v0/health")
        api.drop(topic)

        refused(waiting.result(), 404, "topic_not_found")


def test_all_waiting_readers_are_woken(api: Api, topic: str) -> None:
    api.create(topic)

    def work(n: int) -> list[int]:
        if n == 0:
            api.write(topic, "go")
            return [1]
        return seqs_of(api.diff(topic, wait_ms=LONG_MS))

    assert at_once(12, work) == [[1]] * 12


@pytest.mark.parametrize("durability", ["ephemeral", "disk", "fsync"])
def test_no_wake_up_is_lost(api: Api, topic: str, durability: str) -> None:
    """A write at the same moment as the question: the answer is never an empty one."""
    api.create(topic, durability=durability)
    chance = random.Random(5)

    for n in range(100):
        work = chance.sample(["read", "read", "write"], 3)

        def run(index: int, n: int = n, work: list[str] = work) -> list[int]:
            if work[index] == "write":
                return list(api.write(topic, n)["seqs"])
            return seqs_of(api.diff(topic, from_seq=n, wait_ms=LONG_MS))

        assert at_once(3, run) == [[n + 1]] * 3


def test_no_wake_up_of_one_topic_is_lost_among_many(api: Api) -> None:
    names = [new_name("busy") for _ in range(8)]
    for name in names:
        api.create(name)

    def work(n: int) -> int:
        """Half of them write to all, the others each follow one."""
        if n < 4:
            for step in range(25):
                api.write(names[(n + step) % 4 + 4], step)
            return 25
        seen = 0
        while seen < 25:
            answer = api.diff(names[n], from_seq=seen, wait_ms=LONG_MS)
            assert answer["records"]
            seen = answer["next_from_seq"]
        return seen

    assert at_once(8, work) == [25] * 8
