"""What a queue still knows after its server was stopped or killed."""

from __future__ import annotations

import pytest

from tests.server.conftest import Start
from tests.server.queues import (
    CLOCK_SLACK_MS,
    HOUR_MS,
    ack,
    claim,
    counts,
    dead_lettered,
    deliveries_in,
    each_end,
    extended_in_time,
    leases_in,
    nack,
    queue,
    restarted,
    seqs_in,
    wait_for_counts,
)
from tests.server.support import api_of, datas_of, now_ms
from tests.support.serving import eventually

# Every class that keeps jobs, with every end that it outlives.
each_keeper = pytest.mark.parametrize(
    ("durability", "how"),
    [("fsync", "stop"), ("fsync", "kill"), ("disk", "stop"), ("disk", "kill")],
)
each_lease = pytest.mark.parametrize("leases_durable", [False, True])


# Jobs.


@pytest.mark.parametrize(
    ("durability", "how"), [("fsync", "stop"), ("fsync", "kill"), ("disk", "stop")]
)
@each_lease
def test_an_acked_job_does_not_come_back(
    start: Start, durability: str, how: str, leases_durable: bool
) -> None:
    server = start()
    api = api_of(server)
    queue(api, "q", *range(10), durability=durability, leases_durable=leases_durable)
    claim(api, "q", 8)
    for seq in (1, 3, 5, 7):
        assert ack(api, "q", seq)["acked"] == 1
    assert ack(api, "q", 2, 4, 6)["acked"] == 3

    api = restarted(server, how)

    assert api.state("q")["count"] == 3
    assert datas_of(api.diff("q")) == [7, 8, 9]


def test_acks_under_way_when_the_server_dies_are_kept_once_answered(start: Start) -> None:
    server = start()
    api = api_of(server)
    queue(api, "q", *range(60), durability="fsync")
    done: list[int] = []
    while len(done) < 40:
        got = seqs_in(claim(api, "q", 3))
        done += got[: ack(api, "q", *got)["acked"]]

    api = restarted(server, "kill")

    left = seqs_in(claim(api, "q", 100))
    assert sorted(done + left) == list(range(1, 61))


@each_end
def test_an_ephemeral_queue_is_empty_afterwards_and_goes_on(start: Start, how: str) -> None:
    server = start()
    queue(api_of(server), "q", 1, 2, durability="ephemeral", leases_durable=True)
    claim(api_of(server), "q")

    api = restarted(server, how)

    assert api.state("q")["type"] == "queue"
    assert counts(api, "q") == (0, 0)
    [seq] = api.write("q", 3)["seqs"]
    assert deliveries_in(claim(api, "q", 5)) == {seq: 1}
    assert ack(api, "q", seq)["acked"] == 1


# Leases that go with the server.


@each_keeper
def test_without_durable_leases_every_job_is_claimable(
    start: Start, durability: str, how: str
) -> None:
    """A delayed one too."""
    server = start()
    api = api_of(server)
    queue(api, "q", 1, 2, 3, durability=durability, lease_ms=HOUR_MS)
    [token, _] = leases_in(claim(api, "q", 2))
    nack(api, "q", 2, delay_ms=HOUR_MS)

    api = restarted(server, how)

    assert counts(api, "q") == (3, 0)
    assert ack(api, "q", 1, lease_ids=[token])["skipped"] == [1]
    assert seqs_in(claim(api, "q", 5, node="other")) == [1, 2, 3]


# Counts.


@each_keeper
@each_lease
def test_deliveries_are_counted_on(
    start: Start, durability: str, how: str, leases_durable: bool
) -> None:
    server = start()
    api = api_of(server)
    queue(api, "q", 1, 2, 3, durability=durability, leases_durable=leases_durable)
    for _ in range(2):
        claim(api, "q", 1)
        nack(api, "q", 1)
    claim(api, "q", 2)
    nack(api, "q", 1, 2)

    api = restarted(server, how)

    assert deliveries_in(claim(api, "q", 5)) == {1: 4, 2: 2, 3: 1}


def test_deliveries_are_counted_on_over_many_servers(start: Start) -> None:
    server = start()
    queue(api_of(server), "q", "job", "fresh")

    for time, how in enumerate(["stop", "kill", "stop", "stop"], 1):
        assert deliveries_in(claim(api_of(server), "q")) == {1: time}
        restarted(server, how)

    assert deliveries_in(claim(api_of(server), "q", 5)) == {1: 5, 2: 1}


@each_end
def test_the_number_of_dead_jobs_is_kept(start: Start, how: str) -> None:
    server = start()
    api = api_of(server)
    queue(api, "q", *"abc", max_deliveries=1, dead_letter="dead", durability="fsync")
    claim(api, "q", 2)
    nack(api, "q", 1, 2)
    eventually(lambda: claim(api, "q", 1)["count"] == 1, "the fresh job")

    api = restarted(server, how)

    assert dead_lettered(api, "q") == 2
    assert sorted(datas_of(api.diff("dead"))) == ["a", "b"]
    assert api.state("q")["count"] == 1


@each_end
def test_a_job_that_kills_its_server_is_set_aside(start: Start, how: str) -> None:
    server = start()
    queue(api_of(server), "q", "poison", max_deliveries=2, dead_letter="dead")
    for time in (1, 2):
        assert deliveries_in(claim(api_of(server), "q")) == {1: time}
        restarted(server, how)

    api = api_of(server)
    assert claim(api, "q")["claimed"] == []
    assert datas_of(api.diff("dead")) == ["poison"]
    assert dead_lettered(api, "q") == 1


@each_end
def test_a_queue_made_anew_inherits_nothing_by_a_restart(start: Start, how: str) -> None:
    server = start()
    api = api_of(server)
    queue(api, "q", "old", durable=True, leases_durable=True, lease_ms=HOUR_MS)
    claim(api, "q")
    api.drop("q")
    queue(api, "q", "new", durable=True, leases_durable=True)

    api = restarted(server, how)

    assert counts(api, "q") == (1, 0)
    assert deliveries_in(claim(api, "q")) == {1: 1}


# Leases that are kept.


@pytest.mark.parametrize(
    ("durability", "how"), [("fsync", "stop"), ("fsync", "kill"), ("disk", "stop")]
)
def test_a_durable_lease_goes_on(start: Start, durability: str, how: str) -> None:
    server = start()
    api = api_of(server)
    queue(api, "q", 1, 2, 3, durability=durability, leases_durable=True)
    one, two = leases_in(claim(api, "q", 2, lease_ms=HOUR_MS))

    api = restarted(server, how)

    assert counts(api, "q") == (1, 2)
    assert seqs_in(claim(api, "q", 5, node="other")) == [3]
    assert ack(api, "q", 1, node="other")["skipped"] == [1]
    assert ack(api, "q", 1, 2, lease_ids=[two, two])["skipped"] == [1]
    assert ack(api, "q", 1, lease_ids=[one])["acked"] == 1


@each_end
def test_a_durable_lease_runs_out_at_its_time(start: Start, how: str) -> None:
    server = start()
    api = api_of(server)
    queue(api, "q", 1, durable=True, leases_durable=True)
    [job] = claim(api, "q", lease_ms=500)["claimed"]

    api = restarted(server, how)

    found = eventually(lambda: deliveries_in(claim(api, "q", node="other")), "the job again")
    assert found == {1: 2}
    assert now_ms() >= job["deadline"] - CLOCK_SLACK_MS


@each_end
def test_an_extension_of_a_durable_lease_is_kept(start: Start, how: str) -> None:
    server = start()
    api = api_of(server)
    name = extended_in_time(api, "q", durable=True, leases_durable=True)

    api = restarted(server, how)

    wait_for_counts(api, name, 1, 1)
    assert seqs_in(claim(api, name, 5, node="other")) == [2]
    assert ack(api, name, 1)["acked"] == 1


@each_end
def test_a_durable_lease_that_was_given_back_stays_so(start: Start, how: str) -> None:
    server = start()
    api = api_of(server)
    queue(api, "q", 1, 2, durable=True, leases_durable=True)
    claim(api, "q", 2, lease_ms=HOUR_MS)
    nack(api, "q", 1)

    api = restarted(server, how)

    assert counts(api, "q") == (1, 1)
    assert deliveries_in(claim(api, "q", 5, node="other")) == {1: 2}


@each_end
def test_no_id_of_a_durable_lease_is_given_again(start: Start, how: str) -> None:
    server = start()
    api = api_of(server)
    queue(api, "q", 1, 2, 3, durable=True, leases_durable=True)
    before = leases_in(claim(api, "q", 2, lease_ms=HOUR_MS))

    api = restarted(server, how)

    after = leases_in(claim(api, "q", 5))
    assert len(after) == 1
    assert not set(before) & set(after)


def test_a_durable_lease_goes_on_over_two_restarts(start: Start) -> None:
    server = start()
    queue(api_of(server), "q", 1, 2, durable=True, leases_durable=True)
    [token] = leases_in(claim(api_of(server), "q", lease_ms=HOUR_MS))

    restarted(server, "stop")
    api = restarted(server, "kill")

    assert counts(api, "q") == (1, 1)
    assert ack(api, "q", 1, lease_ids=[token])["acked"] == 1
