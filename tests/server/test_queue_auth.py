"""Who may work on a queue: scopes, names, and keys in the query of a stream."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from tests.server.queues import BODIES, claim, each_verb, jobs, queue, work
from tests.server.support import Api, api_of, new_name, refused
from tests.support.serving import Server

SCOPES = ("read", "write", "delete", "admin")
SETS = [
    frozenset(chosen) for count in range(1, 5) for chosen in itertools.combinations(SCOPES, count)
]
NEEDS = {
    "claim": {"read", "write"},
    "ack": {"write"},
    "nack": {"write"},
    "extend": {"write"},
}
STREAM = {"Accept": "text/event-stream"}


def key_of(*scopes: str) -> str:
    return "key-" + "-".join(sorted(scopes))


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    keys = ["full", "ann::a:|shared.", "bob:rw:b:"]
    keys += [f"{key_of(*chosen)}:{'+'.join(sorted(chosen))}" for chosen in SETS]
    server = Server(tmp_path_factory.mktemp("queues"), {"PENSTOCK_API_KEYS": ",".join(keys)})
    server.start()
    full = api_of(server, "full")
    for name in ("a:q", "b:q", "shared.q", "other"):
        queue(full, name)
    yield server
    server.close()


@pytest.fixture
def full(secured: Server) -> Api:
    return api_of(secured, "full")


@pytest.fixture
def existing(full: Api) -> str:
    name = new_name("q")
    queue(full, name)
    return name


@each_verb
def test_a_verb_is_open_to_exactly_the_keys_that_hold_its_scopes(
    full: Api, existing: str, verb: str
) -> None:
    for chosen in SETS:
        api = full.as_key(key_of(*chosen))
        reply = api.post(f"/v0/topics/{existing}/{verb}", BODIES[verb])

        if NEEDS[verb] <= chosen:
            assert reply.status == 200, chosen
        else:
            refused(reply, 403, "forbidden")


def test_work_is_open_to_exactly_the_keys_that_read_and_write(full: Api, existing: str) -> None:
    for chosen in SETS:
        api = full.as_key(key_of(*chosen))
        if {"read", "write"} <= chosen:
            with work(api, existing) as stream:
                assert stream.reply.status == 200, chosen
        else:
            reply = api.get(f"/v0/topics/{existing}/work?node=w", STREAM)
            refused(reply, 403, "forbidden")


@pytest.mark.parametrize("key", [None, "unknown", "", "key-rea", "key-read-"], ids=repr)
def test_a_queue_is_closed_without_a_known_key(full: Api, existing: str, key: str | None) -> None:
    api = full.as_key(key)

    for verb, body in BODIES.items():
        refused(api.post(f"/v0/topics/{existing}/{verb}", body), 401, "unauthorized")
    refused(api.get(f"/v0/topics/{existing}/work?node=w", STREAM), 401, "unauthorized")


@each_verb
def test_the_scope_is_checked_before_anything_else_of_the_request(
    full: Api, existing: str, verb: str
) -> None:
    reader = full.as_key(key_of("read"))
    log = new_name()
    full.create(log)

    for name in (existing, log, new_name("absent")):
        reply = reader.post(f"/v0/topics/{name}/{verb}", b"not json")
        refused(reply, 403, "forbidden")


def test_the_scope_is_checked_before_what_a_stream_is_asked_with(full: Api) -> None:
    reader = full.as_key(key_of("read"))

    for accept in ("text/event-stream", "text/html"):
        reply = reader.get(f"/v0/topics/{new_name('absent')}/work", {"Accept": accept})
        refused(reply, 403, "forbidden")


# Names.


@pytest.mark.parametrize("name", ["b:q", "other", "shared", "a", "A:q", "nobodys"])
def test_queues_outside_are_forbidden_whether_they_exist_or_not(full: Api, name: str) -> None:
    ann = full.as_key("ann")

    for verb, body in BODIES.items():
        refused(ann.post(f"/v0/topics/{name}/{verb}", body), 403, "forbidden")
        refused(ann.post(f"/v0/topics/{name}/{verb}", b"{"), 403, "forbidden")
    refused(ann.get(f"/v0/topics/{name}/work?node=w", STREAM), 403, "forbidden")
    refused(ann.get(f"/v0/topics/{name}/work", {"Accept": "text/html"}), 403, "forbidden")


@pytest.mark.parametrize("name", ["a:q", "a%3Aq", "shared.q"])
def test_queues_inside_are_open(full: Api, name: str) -> None:
    ann = full.as_key("ann")

    for verb, body in BODIES.items():
        assert ann.post(f"/v0/topics/{name}/{verb}", body).status == 200
    with work(ann, name) as stream:
        assert stream.reply.status == 200


def test_a_queue_may_not_send_its_dead_to_a_name_outside(full: Api) -> None:
    ann, name = full.as_key("ann"), f"a:{new_name()}"
    body = {"type": "queue", "max_deliveries": 1, "dead_letter": "b:dead"}

    reply = ann.put(f"/v0/topics/{name}", body)

    refused(reply, 403, "forbidden", {"topic": "b:dead"})
    refused(full.get(f"/v0/topics/{name}"), 404, "topic_not_found")


# Keys in the query.


def test_a_key_in_the_query_opens_a_stream_of_work(full: Api, existing: str) -> None:
    full.write(existing, "job")
    key = key_of("read", "write")

    with work(full.as_key(None), existing, f"node=w&token={key}") as stream:
        assert [job["data"] for job in jobs(stream, 1)] == ["job"]
    with work(full.as_key(None), existing, f"token={key}&node=w&token=unknown") as stream:
        assert stream.reply.status == 200


def test_a_key_in_the_query_has_its_own_powers_only(full: Api, existing: str) -> None:
    nobody = full.as_key(None)
    target = f"/v0/topics/{existing}/work?node=w"

    refused(nobody.get(f"{target}&token=unknown", STREAM), 401, "unauthorized")
    refused(nobody.get(f"{target}&token=unknown&token=full", STREAM), 401, "unauthorized")
    refused(nobody.get(f"{target}&token={key_of('read')}", STREAM), 403, "forbidden")
    refused(nobody.get(f"{target}&token=ann", STREAM), 403, "forbidden")


@each_verb
def test_a_key_in_the_query_is_worth_nothing_elsewhere(full: Api, existing: str, verb: str) -> None:
    reply = full.as_key(None).post(f"/v0/topics/{existing}/{verb}?token=full", BODIES[verb])

    refused(reply, 401, "unauthorized")


def test_leases_belong_to_a_worker_and_not_to_a_key(full: Api, existing: str) -> None:
    """Who may write may settle in the name of any worker: a node is a name, not a secret."""
    full.write(existing, "job")
    claim(full, existing, node="w")
    writer = full.as_key(key_of("write"))

    reply = writer.post(f"/v0/topics/{existing}/ack", {"node": "w", "seqs": [1]})

    assert (reply.status, reply.json["acked"]) == (200, 1)
