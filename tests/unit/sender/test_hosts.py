"""Which host comes next, and how long a sender rests."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.sender.connect_string import Endpoint
from penstock.sender.hosts import Health, Hosts

A, B, C = Endpoint("a", 1), Endpoint("b", 1), Endpoint("c", 1)


def made(*hosts: Endpoint, initial_s: float = 0.1, cap_s: float = 5.0) -> Hosts:
    return Hosts(hosts, initial_s=initial_s, cap_s=cap_s)


def round_of(hosts: Hosts, health: Health = Health.UNREACHABLE) -> list[Endpoint]:
    """A whole round of failures."""
    tried = []
    while (host := hosts.pick()) is not None:
        tried.append(host)
        hosts.record_failure(host, health)
    return tried


def test_a_round_tries_each_once_in_the_order_of_the_connect_string() -> None:
    hosts = made(A, B, C)

    assert round_of(hosts) == [A, B, C]
    hosts.backoff_s(0)
    assert round_of(hosts) == [A, B, C]


def test_the_one_that_was_healthy_comes_first() -> None:
    hosts = made(A, B, C)
    hosts.pick()
    hosts.record_connected(B)

    assert hosts.pick() == B


def test_a_connection_that_broke_sends_to_the_others_first() -> None:
    hosts = made(A, B, C)
    hosts.record_connected(hosts.pick() or A)
    hosts.record_failure(A, Health.UNREACHABLE)

    assert round_of(hosts) == [B, C]


def test_who_says_soon_comes_before_who_does_not_answer() -> None:
    hosts = made(A, B, C)
    hosts.record_connected(A)
    for host, health in ((A, Health.WRONG_ROLE), (B, Health.UNREACHABLE), (C, Health.CATCHING_UP)):
        hosts.record_failure(host, health)
    hosts._tried.clear()

    assert round_of(hosts) == [C, B, A]


def test_a_rest_forgets_all_but_the_latest_healthy_one() -> None:
    hosts = made(A, B)
    hosts.record_connected(B)
    hosts.record_failure(B, Health.UNREACHABLE)
    assert hosts.pick() == A
    hosts.record_failure(A, Health.UNREACHABLE)

    hosts.backoff_s(0)

    assert round_of(hosts) == [A, B]


def test_rests_double_up_to_the_cap_and_begin_anew_with_progress() -> None:
    hosts = made(A, initial_s=0.1, cap_s=1.0)
    rests = []
    for _ in range(6):
        round_of(hosts)
        rests.append(hosts.backoff_s(0))
    hosts.record_connected(A)  # which may be all that it does

    assert rests == pytest.approx([0.1, 0.2, 0.4, 0.5, 0.5, 0.5])
    assert hosts.backoff_s(0) == pytest.approx(0.5)
    hosts.record_progress()
    assert hosts.backoff_s(0) == pytest.approx(0.1)


def test_chance_spreads_rests_at_the_cap_too() -> None:
    hosts = made(A, initial_s=0.1, cap_s=1.0)
    for _ in range(6):
        hosts.backoff_s(0)

    assert hosts.backoff_s(0.5) == pytest.approx(0.75)
    assert hosts.backoff_s(0.999) == pytest.approx(1.0, abs=0.001)


@pytest.mark.parametrize("health", [Health.CATCHING_UP, Health.WRONG_ROLE])
def test_who_answers_with_a_role_is_asked_again_soon(health: Health) -> None:
    hosts = made(A, initial_s=0.1, cap_s=1.0)
    for _ in range(3):
        round_of(hosts)
        hosts.backoff_s(0)
    round_of(hosts, health)

    assert hosts.backoff_s(0) == pytest.approx(0.1)
    round_of(hosts)
    assert hosts.backoff_s(0) == pytest.approx(0.1)


@given(st.floats(0, 1, exclude_max=True), st.integers(0, 20))
def test_a_rest_is_once_to_twice_as_long_and_never_over_the_cap(roll: float, rounds: int) -> None:
    hosts, plain = made(A), made(A)
    for _ in range(rounds):
        hosts.backoff_s(0.5)
        plain.backoff_s(0)

    rest_s, least_s = hosts.backoff_s(roll), plain.backoff_s(0)

    assert least_s <= rest_s <= min(5.0, 2 * least_s + 1e-9)
