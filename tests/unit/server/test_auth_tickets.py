"""Tickets: once, in time, and bounded."""

from __future__ import annotations

from penstock.server.auth import ApiKey
from penstock.server.auth_tickets import TICKET_TTL_S, AuthTickets
from penstock.testing import FakeClock

KEY = ApiKey(b"digest")


def test_a_ticket_opens_once() -> None:
    tickets = AuthTickets(FakeClock())
    ticket = tickets.issue(KEY)

    assert tickets.redeem(ticket) is KEY
    assert tickets.redeem(ticket) is None
    assert tickets.redeem("tkt_made-up") is None


def test_a_ticket_that_is_too_old_opens_nothing() -> None:
    clock = FakeClock()
    tickets = AuthTickets(clock)
    ticket = tickets.issue(KEY)
    clock.advance(TICKET_TTL_S * 1000 + 1)

    assert tickets.redeem(ticket) is None


def test_no_two_are_alike() -> None:
    tickets = AuthTickets(FakeClock())

    assert len({tickets.issue(KEY) for _ in range(1000)}) == 1000


def test_one_caller_who_asks_for_ever_more_takes_nothing_from_another() -> None:
    tickets = AuthTickets(FakeClock())
    other = ApiKey(b"other")
    theirs = tickets.issue(other)

    mine = [tickets.issue(KEY) for _ in range(3000)]

    assert tickets.redeem(theirs) is other
    assert tickets.redeem(mine[-1]) is KEY
    assert tickets.redeem(mine[0]) is None
    assert sum(tickets.redeem(ticket) is KEY for ticket in mine) < 1_000


def test_old_tickets_are_not_kept() -> None:
    clock = FakeClock()
    tickets = AuthTickets(clock)
    for _ in range(100):
        tickets.issue(KEY)

    clock.advance(TICKET_TTL_S * 1000 + 1)
    tickets.issue(KEY)

    assert len(tickets._issued) == 1
