"""S8: keys stay out of addresses; what may be in one is worthless a moment later."""

from __future__ import annotations

import pytest
from websockets.exceptions import InvalidStatus

from penstock.server.auth import ApiKey
from penstock.server.auth_tickets import AuthTickets
from penstock.testing import FakeClock
from tests.server.support import Api, new_name
from tests.support.serving import Server

STREAMS = "/v0/watch/"


def ticket_of(api: Api) -> str:
    return str(api.post("/v0/tickets", {}).json["ticket"])


def refused_socket(api: Api, query: str) -> int:
    with pytest.raises(InvalidStatus) as caught:
        api.as_key(None).socket(query)
    return int(caught.value.response.status_code)


def test_a_ticket_opens_one_socket(full: Api) -> None:
    """S8: the second use is refused, also while the first socket is open."""
    ticket = ticket_of(full)

    with full.as_key(None).socket(f"?ticket={ticket}") as socket:
        assert socket.ask("ping")["op"] == "pong"
        assert refused_socket(full, f"?ticket={ticket}") == 401
    assert refused_socket(full, f"?ticket={ticket}") == 401


def test_a_ticket_opens_one_stream(full: Api) -> None:
    """S8: and a failed use is a use."""
    topic = new_name()
    full.create(topic)
    target = STREAMS + full.watch([topic])["wid"]
    ticket = ticket_of(full)

    assert full.as_key(None).get(f"{STREAMS}wid_no?ticket={ticket}").status == 404
    assert full.as_key(None).get(f"{target}?ticket={ticket}").status == 401


def test_a_ticket_is_of_no_use_elsewhere(full: Api) -> None:
    """S8: only streams take it, and only as a ticket."""
    ticket = ticket_of(full)
    nobody = full.as_key(None)

    for target in ("/v0/topics", "/v0/metrics", "/v0/topics/x"):
        assert nobody.get(f"{target}?ticket={ticket}").status == 401
    assert nobody.post(f"/v0/topics/x?ticket={ticket}", {"records": [{"data": 1}]}).status == 401
    assert nobody.post(f"/v0/tickets?ticket={ticket}", {}).status == 401
    assert full.as_key(ticket).get("/v0/topics").status == 401
    assert refused_socket(full, f"?token={ticket}") == 401


def test_a_ticket_has_the_rights_of_its_key_and_no_others(full: Api, ann: Api) -> None:
    """S8: names outside the key's prefixes stay closed."""
    name = new_name("ben-")
    full.create(name)

    with full.as_key(None).socket(f"?ticket={ticket_of(ann)}") as socket:
        answer = socket.ask("subscribe", topic=name)

    assert answer["code"] == "forbidden"


def test_a_ticket_ends_with_its_time() -> None:
    """S8: thirty seconds by the server's clock."""
    clock, key = FakeClock(), ApiKey(b"x")
    tickets = AuthTickets(clock)
    late, good = tickets.issue(key), tickets.issue(key)

    clock.advance(29_999)
    assert tickets.redeem(good) is key
    clock.advance(1)
    assert tickets.redeem(late) is None


def test_tickets_cannot_be_guessed_from_each_other(full: Api) -> None:
    """S8: each has 192 random bits."""
    found = {ticket_of(full) for _ in range(50)}

    assert len(found) == 50
    assert all(len(one) == len("tkt_") + 32 for one in found)
    assert len({one[:12] for one in found}) == 50


def test_one_key_cannot_push_out_the_tickets_of_another() -> None:
    """S8: when there are too many of one key, its own oldest go."""
    tickets = AuthTickets(FakeClock())
    quiet, noisy = ApiKey(b"quiet"), ApiKey(b"noisy")
    ticket = tickets.issue(quiet)
    first = tickets.issue(noisy)

    for _ in range(20_000):
        tickets.issue(noisy)

    assert tickets.redeem(ticket) is quiet
    assert tickets.redeem(first) is None


def test_addresses_are_not_logged(full: Api, secured: Server) -> None:
    """S8: neither tickets nor keys of an address reach the log."""
    ticket = ticket_of(full)
    with full.as_key(None).socket(f"?ticket={ticket}"):
        pass
    full.as_key(None).get(f"/v0/watch/wid_x?token={full.key}")
    full.as_key(None).get(f"/v0/topics?token={full.key}&ticket={ticket}")

    assert ticket not in secured.said()
    assert str(full.key) not in secured.said()


def test_a_key_in_an_address_opens_streams_only(full: Api) -> None:
    """S8: a key itself is taken on the stream of a watch, as ever, and nowhere else."""
    topic = new_name()
    full.create(topic)
    wid = full.watch([topic])["wid"]
    nobody = full.as_key(None)

    for target in (f"/v0/topics/{topic}", "/v0/topics", "/v0/metrics"):
        assert nobody.get(f"{target}?token={full.key}").status == 401
    assert refused_socket(full, f"?token={full.key}") == 401
    with nobody.stream(f"{wid}?token={full.key}") as stream:
        assert stream.reply.status == 200
