"""The pool of connections, without a connection."""

from __future__ import annotations

import os

import pytest

from penstock.client.connection_pool import IDLE_MAX, Checkout, ConnectionPool
from penstock.clock import SystemClock
from penstock.errors import Closed
from tests.support.child import in_child


class FakeConnection:
    def __init__(self) -> None:
        self.idle_since = 0.0
        self.is_left = False

    def leave_to_parent(self) -> None:
        self.is_left = True


def pool_of(*busy: FakeConnection) -> ConnectionPool[FakeConnection]:
    pool: ConnectionPool[FakeConnection] = ConnectionPool(SystemClock())
    for connection in busy:
        pool.add_busy(connection)
    return pool


def release(
    pool: ConnectionPool[FakeConnection], connection: FakeConnection, *, is_reusable: bool = True
) -> bool:
    """The call ends; must it close the connection?"""
    checkout = Checkout(connection)
    checkout.is_reusable = is_reusable
    return pool.release(checkout)


def test_a_released_connection_is_used_for_the_next_call() -> None:
    first, second = FakeConnection(), FakeConnection()
    pool = pool_of(first, second)

    release(pool, first)
    release(pool, second)

    assert pool.pop_idle() is second, "the one used last"
    assert pool.pop_idle() is first
    assert pool.pop_idle() is None
    assert first.idle_since > 0


def test_a_connection_that_is_not_reusable_is_closed_by_its_call() -> None:
    kept, failed = FakeConnection(), FakeConnection()
    pool = pool_of(kept, failed)

    assert not release(pool, kept)
    assert release(pool, failed, is_reusable=False)
    assert pool.pop_idle() is kept
    assert pool.pop_idle() is None


def test_a_full_pool_keeps_no_more_connections() -> None:
    connections = [FakeConnection() for _ in range(IDLE_MAX + 1)]
    pool = pool_of(*connections)

    assert [release(pool, one) for one in connections] == [False] * IDLE_MAX + [True]


def test_a_closed_pool_returns_its_connections_and_refuses_calls() -> None:
    busy, idle = FakeConnection(), FakeConnection()
    pool = pool_of(busy, idle)
    release(pool, idle)

    assert pool.close() == ([busy], [idle])
    assert pool.is_closed
    with pytest.raises(Closed, match="the client is closed"):
        pool.pop_idle()
    assert release(pool, busy), "a closed pool keeps nothing"


def test_a_forked_child_leaves_every_connection_to_its_parent() -> None:
    busy, idle = FakeConnection(), FakeConnection()
    pool = pool_of(busy, idle)
    release(pool, idle)
    owner = os.getpid()

    def check() -> None:
        assert busy.is_left
        assert idle.is_left
        assert not pool.is_ours
        with pytest.raises(Closed, match=f"belongs to process {owner}"):
            pool.pop_idle()

    assert in_child(check) == ""
    assert pool.pop_idle() is idle
    assert not busy.is_left
