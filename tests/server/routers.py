"""What the tests of routers share: the verbs when they are to succeed, chains, whole topics."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterable
from typing import Any
from urllib.parse import quote

import pytest

from tests.server.support import JSON, Api, compact, new_name
from tests.server.wire import Connection, Ended, Reply
from tests.support import rig
from tests.support.serving import Server, eventually

GUARANTEES = ("at_least_once", "exactly_once")

each_guarantee = pytest.mark.parametrize("guarantee", GUARANTEES)

# Where each case starts a server twice: the harder of the two, and both at full size.
each_end = pytest.mark.parametrize("how", ["stop", "kill"] if rig.IS_FULL else ["kill"])
guaranteed = pytest.mark.parametrize("guarantee", GUARANTEES if rig.IS_FULL else GUARANTEES[1:])
each_distance = pytest.mark.parametrize("hops", [1, 2, 4, 8])


def path(name: str) -> str:
    """A router's own path."""
    return f"/v0/routers/{quote(name, safe='')}"


def put(api: Api, name: str, source: str, dest: str, **knobs: Any) -> Reply:
    return api.put(path(name), {"source": source, "dest": dest, **knobs})


def route(api: Api, source: str, dest: str, name: str | None = None, **knobs: Any) -> str:
    """A router between the two; its name, made up from theirs unless given."""
    name = name or f"{source}->{dest}"
    reply = put(api, name, source, dest, **knobs)
    assert reply.status in (200, 201), (reply.status, reply.body)
    return name


def reluctant(api: Api, source: str, dest: str, cap: int = 2, **knobs: Any) -> str:
    """A router into a topic that refuses more than `cap` records."""
    api.create(dest, cap_records=cap, discard="reject")
    return route(api, source, dest, **knobs)


def look(api: Api, name: str) -> Any:
    reply = api.get(path(name))
    assert reply.status == 200, (reply.status, reply.body)
    return reply.json


def forwarded(api: Api, name: str) -> int:
    return int(look(api, name)["forwarded_total"])


def remove(api: Api, name: str) -> bool:
    reply = api.delete(path(name))
    assert reply.status == 200, (reply.status, reply.body)
    return bool(reply.json["deleted"])


def names(count: int) -> list[str]:
    """So many topics that nobody else has."""
    return [new_name() for _ in range(count)]


def chain(api: Api, topics: Iterable[str], **knobs: Any) -> list[str]:
    """A router from each topic to the next; their names."""
    return [route(api, source, dest, **knobs) for source, dest in itertools.pairwise(topics)]


def ring(api: Api, topics: list[str], **knobs: Any) -> list[str]:
    """The same, and from the last to the first, which closes the loop."""
    closing = route(api, topics[-1], topics[0], allow_cycle=True, **knobs)
    return [*chain(api, topics, allow_cycle=True, **knobs), closing]


def walk(api: Api, topic: str, cursor: int = 0, **fields: Any) -> tuple[list[Any], list[Any]]:
    """All of a topic past the cursor, page by page: its records, and what was lost of it."""
    found: list[Any] = []
    lost: list[Any] = []
    while True:
        page = api.diff(topic, from_seq=cursor, **{"limit": 1000, **fields})
        found += page["records"]
        if page["tombstone"] is not None:
            lost.append(page["tombstone"])
        if page["caught_up"]:
            return found, lost
        assert page["next_from_seq"] > cursor, page
        cursor = page["next_from_seq"]


def gap(answer: Any) -> tuple[int, int, str] | None:
    """Where the loss that a page tells of begins and ends, and why."""
    found = answer["tombstone"]
    return None if found is None else (found["gap_from"], found["gap_to"], found["reason"])


def seqs_lost(lost: Iterable[Any]) -> list[int]:
    """The seqs that tombstones tell of, in their order."""
    return [seq for gap in lost for seq in range(gap["gap_from"], gap["gap_to"] + 1)]


def records(api: Api, topic: str, **fields: Any) -> list[Any]:
    """All of a topic, of which nothing may be lost."""
    found, lost = walk(api, topic, **fields)
    assert lost == []
    return found


def datas(api: Api, topic: str, **fields: Any) -> list[Any]:
    return [record["data"] for record in records(api, topic, **fields)]


def wait_for_datas(api: Api, topic: str, expected: list[Any]) -> None:
    eventually(lambda: datas(api, topic) == expected, f"{topic} has {expected}")


def write_on(server: Server, topic: str, answered: list[Any], name: str) -> None:
    """Write until the server is gone."""
    with contextlib.suppress(Ended, OSError), Connection(server.address) as wire:
        for n in itertools.count():
            body = compact({"records": [{"data": [name, n, part]} for part in range(3)]}).encode()
            reply = wire.request("POST", f"/v0/topics/{topic}", body, JSON)
            assert reply.status == 200, reply
            answered.append([name, n, 0])
