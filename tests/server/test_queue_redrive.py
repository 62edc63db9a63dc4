"""`POST /v0/topics/:topic/redrive`: dead letters back to their queues."""

from __future__ import annotations

from typing import Any

from tests.server.conftest import Start
from tests.server.queues import ack, claim, deliveries_in, nack, queue, restarted, seqs_in
from tests.server.support import Api, api_of, new_name, refused


def buried(api: Api, count: int = 3) -> tuple[str, str]:
    """A queue whose jobs, tagged by their number, all went to its dead letters."""
    name, dead = new_name("q"), new_name("dead")
    queue(api, name, max_deliveries=1, dead_letter=dead)
    records = [{"data": n, "tag": f"t{n % 2}", "meta": {"n": n}} for n in range(count)]
    api.write(name, records=records)
    for _ in range(2):
        seqs = seqs_in(claim(api, name, 1000))
        if seqs:
            nack(api, name, *seqs)
    assert api.state(dead)["count"] == count
    return name, dead


def redrive(api: Api, dead: str, **body: Any) -> dict[str, Any]:
    reply = api.post(f"/v0/topics/{dead}/redrive", body)
    assert reply.status == 200, reply
    return reply.json


def test_dead_letters_go_back_to_where_they_came_from(api: Api) -> None:
    name, dead = buried(api)

    found = redrive(api, dead)

    assert (found["moved"], found["failed"], found["done"]) == (3, {}, True)
    assert api.state(dead)["count"] == 0
    jobs = claim(api, name, 10)["claimed"]
    assert [(job["data"], job["$tag"], job["meta"], job["deliveries"]) for job in jobs] == [
        (n, f"t{n % 2}", {"n": n}, 1) for n in range(3)
    ]


def test_looking_at_dead_letters_takes_nothing(api: Api) -> None:
    _, dead = buried(api)

    assert len(api.diff(dead)["records"]) == 3
    assert redrive(api, dead, dry_run=True)["moved"] == 3

    assert api.state(dead)["count"] == 3


def test_one_some_or_those_with_a_tag_can_be_chosen(api: Api) -> None:
    name, dead = buried(api, 6)

    assert redrive(api, dead, seqs=[2, 99])["moved"] == 1
    assert redrive(api, dead, match="t0")["moved"] == 3
    assert redrive(api, dead, match=["tag", "Glob", "x*"])["moved"] == 0

    assert [record["data"] for record in api.diff(dead)["records"]] == [3, 5]
    assert sorted(job["data"] for job in claim(api, name, 10)["claimed"]) == [0, 1, 2, 4]


def test_many_go_in_steps(api: Api) -> None:
    _, dead = buried(api, 25)
    after, moved, calls = 0, 0, 0
    while True:
        found = redrive(api, dead, after=after, limit=10)
        moved, after, calls = moved + found["moved"], found["next_seq"], calls + 1
        if found["done"]:
            break

    assert (moved, calls) == (25, 3)


def test_they_can_go_to_another_queue(api: Api) -> None:
    name, dead = buried(api)
    other = new_name("other")
    queue(api, other)

    assert redrive(api, dead, to=other)["moved"] == 3

    assert api.state(name)["count"] == 0
    assert api.state(other)["queue"]["ready"] == 3


def test_what_cannot_go_stays_and_says_why(api: Api, topic: str) -> None:
    api.write(topic, "somebody wrote this here by hand")
    full = new_name("full")
    api.create(full, discard="reject", cap_records=1)
    api.write(full, 1)

    found = redrive(api, topic)
    assert (found["moved"], list(found["failed"])) == (0, ["1"])
    assert "where it came from" in found["failed"]["1"]
    assert "full" in redrive(api, topic, to=full)["failed"]["1"]
    assert "itself" in redrive(api, topic, to=topic)["failed"]["1"]
    assert api.state(topic)["count"] == 1


def test_what_is_asked_wrongly_moves_nothing(api: Api) -> None:
    _, dead = buried(api)

    for body in ({"to": "no/name"}, {"match": 5}, {"seqs": "all"}, {"limit": -1}):
        refused(api.post(f"/v0/topics/{dead}/redrive", body), 400, "invalid_request")
    many = {"seqs": [1] * 1001}
    refused(api.post(f"/v0/topics/{dead}/redrive", many), 400, "batch_too_large")
    refused(api.post(f"/v0/topics/{new_name()}/redrive", {}), 404, "topic_not_found")
    assert api.state(dead)["count"] == 3


def test_a_key_redrives_only_to_names_it_may_use(start: Start) -> None:
    keys = "boss,mine:w+d:own-|dead"
    server = start(PENSTOCK_API_KEYS=keys)
    boss, mine = api_of(server, "boss"), api_of(server, "mine")
    for name in ("own-q", "foreign-q"):
        queue(boss, name, 1, max_deliveries=1, dead_letter="dead")
        nack(boss, name, *seqs_in(claim(boss, name)))
        claim(boss, name)

    found = redrive(mine, "dead")

    assert (found["moved"], len(found["failed"])) == (1, 1)
    assert boss.state("own-q")["count"] == 1
    reply = mine.post("/v0/topics/dead/redrive", {"to": "foreign-q"})
    refused(reply, 403, "forbidden")


def test_a_redriven_job_survives_a_restart_once(start: Start) -> None:
    server = start()
    api = api_of(server)
    name, dead = buried(api)
    redrive(api, dead)

    api = restarted(server, "kill")

    assert api.state(dead)["count"] == 0
    jobs = claim(api, name, 10)
    assert set(deliveries_in(jobs).values()) == {1}
    assert ack(api, name, *seqs_in(jobs))["acked"] == 3
