"""Keys that hold for some names only, and tickets that stand in for a key once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from websockets.exceptions import InvalidStatus

from tests.server.support import Api, api_of, new_name, refused, socket_error
from tests.support.serving import Server

RECORDS = {"records": [{"data": 1}]}


@pytest.fixture(scope="module")
def divided(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    keys = "root,ann::a:|shared.,bob:rw+d:b:,reader:r"
    server = Server(tmp_path_factory.mktemp("divided"), {"PENSTOCK_API_KEYS": keys}).start()
    root = api_of(server, "root")
    for name in ("a:1", "a:2", "b:1", "shared.x", "other"):
        root.write(name, 1)
    yield server
    server.close()


@pytest.fixture
def root(divided: Server) -> Api:
    return api_of(divided, "root")


@pytest.fixture
def ann(divided: Server) -> Api:
    return api_of(divided, "ann")


@pytest.mark.parametrize("name", ["b:1", "other", "shared", "a", "A:1", "nobodys", "xa:1"])
def test_names_outside_are_forbidden_whether_they_exist_or_not(ann: Api, name: str) -> None:
    for reply in (
        ann.get(f"/v0/topics/{name}"),
        ann.post(f"/v0/topics/{name}", RECORDS),
        ann.post(f"/v0/topics/{name}/diff", {}),
        ann.post(f"/v0/topics/{name}/delete", {"before_seq": 1}),
        ann.put(f"/v0/topics/{name}"),
        ann.delete(f"/v0/topics/{name}"),
        ann.get(f"/v0/topics/{name}/positions"),
        ann.put(f"/v0/topics/{name}/positions/p", {"seq": 0}),
    ):
        refused(reply, 403, "forbidden")


@pytest.mark.parametrize("name", ["a:1", "a%3A1", "shared.x", "%61:2"])
def test_names_inside_are_open(ann: Api, name: str) -> None:
    assert ann.get(f"/v0/topics/{name}").status == 200


def test_a_path_is_judged_by_the_name_it_means(ann: Api) -> None:
    """A prefix in the path text that is not one of the name opens nothing."""
    for target in ("/v0/topics/a:1/../b:1", "/v0/topics/a:1%2F..%2Fb:1", "/v0/topics//a:1"):
        assert ann.get(target).status in (400, 403, 404)


def test_lists_show_the_names_inside_only(ann: Api, root: Api) -> None:
    def names(api: Api, query: str = "") -> list[str]:
        return [item["topic"] for item in api.get(f"/v0/topics{query}").json["topics"]]

    assert {"a:1", "a:2", "shared.x"} <= set(names(ann))
    assert all(name.startswith(("a:", "shared.")) for name in names(ann))
    assert {"b:1", "other"} <= set(names(root))
    assert names(ann, "?prefix=b:") == []


def test_paging_through_a_filtered_list_skips_nothing(ann: Api) -> None:
    found, cursor = [], ""
    for _ in range(10):
        page = ann.get(f"/v0/topics?page_size=1&prefix=a:&cursor={cursor}").json
        found += [item["topic"] for item in page["topics"]]
        cursor = page.get("next_cursor", "")
        if not cursor:
            break

    assert found == ["a:1", "a:2"]


def test_one_name_outside_refuses_a_whole_watch(ann: Api) -> None:
    reply = ann.post("/v0/watch", {"topics": {"a:1": {}, "b:1": {}}})

    refused(reply, 403, "forbidden", {"topic": "b:1"})
    assert ann.post("/v0/watch", {"topics": {"a:1": {}, "shared.x": {}}}).status == 200


def test_leniency_does_not_reach_past_the_prefix(ann: Api) -> None:
    body = {"topics": {"a:1": {}, "b:absent": {}}}

    refused(ann.post("/v0/watch?lenient=true", body), 403, "forbidden", {"topic": "b:absent"})


def test_a_pattern_shows_no_name_outside(ann: Api, root: Api) -> None:
    """Either the pattern is refused, or its matches are those the key may see."""
    for pattern in ("*", "b:*", "a:*", "a*"):
        reply = ann.post("/v0/watch", {"topics": {pattern: {}}})

        if reply.status == 403:
            continue
        assert reply.status == 200
        assert all(name.startswith(("a:", "shared.")) for name in reply.json["topics"])
    assert set(ann.watch({"a:*": {}})["topics"]) >= {"a:1", "a:2"}
    assert {"a:1", "b:1", "other"} <= set(root.watch({"*": {}})["topics"])


def test_a_pattern_shows_no_name_outside_that_comes_later(ann: Api, root: Api) -> None:
    reply = ann.post("/v0/watch", {"topics": {"*": {}}})
    if reply.status == 403:
        reply = ann.post("/v0/watch", {"topics": {"a:*": {}}})
    with ann.stream(reply.json["wid"]) as stream:
        root.write("b:later", "hidden")
        root.write("zz-later", "hidden")
        mine = f"a:{new_name('later')}"
        root.write(mine, "seen")

        while (frame := stream.one("record")).json["topic"] != mine:
            assert frame.json["topic"].startswith(("a:", "shared."))


def test_one_name_outside_refuses_a_whole_batch(ann: Api, root: Api) -> None:
    before = root.state("a:1")["head_seq"]
    writes = [{"topic": "a:1", **RECORDS}, {"topic": "b:1", **RECORDS}]

    refused(ann.post("/v0/batch", {"writes": writes}), 403, "forbidden", {"topic": "b:1"})

    assert root.state("a:1")["head_seq"] == before


def test_messages_of_a_socket_are_held_to_the_prefix(ann: Api) -> None:
    with ann.socket() as socket:
        socket_error(socket.ask("subscribe", topic="b:1"), "forbidden")
        both = {"a:1": {}, "b:1": {}}
        socket_error(socket.ask("subscribe", topics=both), "forbidden")
        socket_error(socket.ask("publish", topic="b:1", **RECORDS), "forbidden")
        assert socket.ask("publish", topic="a:1", **RECORDS)["op"] == "ack"
        assert socket.ask("subscribe", topic="a:1")["op"] == "subscribed"


def test_an_idempotency_key_of_somebody_else_reveals_nothing(divided: Server, ann: Api) -> None:
    """S28: keys belong to a topic, and a topic to who may name it."""
    bob = api_of(divided, "bob")
    mine = ann.write(f"a:{new_name()}", "mine", idempotency_key="same")
    other = f"b:{new_name()}"

    theirs = bob.write(other, "theirs", idempotency_key="same")

    assert mine["deduped"] is False
    assert theirs["deduped"] is False
    refused(
        ann.post(f"/v0/topics/{other}", {**RECORDS, "idempotency_key": "same"}), 403, "forbidden"
    )


# Tickets.


def ticket_of(api: Api) -> str:
    answer = api.post("/v0/tickets", {}).json
    assert answer["expires_in_ms"] == 30_000
    return str(answer["ticket"])


def test_a_ticket_opens_a_stream_once(ann: Api) -> None:
    wid = ann.watch(["a:1"])["wid"]
    nobody = ann.as_key(None)
    ticket = ticket_of(ann)

    with nobody.stream(f"{wid}?ticket={ticket}") as stream:
        assert stream.reply.status == 200
    refused(nobody.get(f"/v0/watch/{wid}?ticket={ticket}"), 401, "unauthorized")


def test_a_ticket_opens_a_socket_once_with_the_powers_of_its_key(divided: Server) -> None:
    reader = api_of(divided, "reader")
    ticket = ticket_of(reader)

    with reader.as_key(None).socket(f"?ticket={ticket}") as socket:
        assert socket.ask("subscribe", topic="other")["op"] == "subscribed"
        socket_error(socket.ask("publish", topic="other", **RECORDS), "forbidden")
    with pytest.raises(InvalidStatus) as caught:
        reader.as_key(None).socket(f"?ticket={ticket}")
    assert caught.value.response.status_code == 401


def test_the_ticket_of_another_key_does_not_open_a_session(ann: Api, root: Api) -> None:
    wid = ann.watch(["a:1"])["wid"]

    refused(ann.as_key(None).get(f"/v0/watch/{wid}?ticket={ticket_of(root)}"), 401, "unauthorized")


def test_a_ticket_is_worth_nothing_elsewhere(ann: Api) -> None:
    ticket = ticket_of(ann)
    nobody = ann.as_key(None)

    refused(nobody.get(f"/v0/topics/a:1?ticket={ticket}"), 401, "unauthorized")
    refused(nobody.post(f"/v0/tickets?ticket={ticket}", {}), 401, "unauthorized")
    refused(nobody.as_key(ticket).get("/v0/topics/a:1"), 401, "unauthorized")


def test_a_made_up_ticket_opens_nothing(ann: Api) -> None:
    wid = ann.watch(["a:1"])["wid"]

    for text in ("", "nonsense", "%zz"):
        refused(ann.as_key(None).get(f"/v0/watch/{wid}?ticket={text}"), 401, "unauthorized")


def test_tickets_are_all_different(ann: Api) -> None:
    assert len({ticket_of(ann) for _ in range(20)}) == 20
