"""What the tests of queues share: the verbs when they are to succeed, counters, streams of work."""

from __future__ import annotations

from typing import Any

import pytest

from tests.server.sse import EventStream
from tests.server.support import Api, api_of, now_ms
from tests.support.serving import Server, eventually

HOUR_MS = 3_600_000
CLOCK_SLACK_MS = 5  # between two readers of one clock
QUIET_S = 0.8  # longer than the server takes to look again for work

# A good request of each verb; the job need not be there.
BODIES: dict[str, dict[str, Any]] = {
    "claim": {"node": "w"},
    "ack": {"node": "w", "seqs": [1]},
    "nack": {"node": "w", "seqs": [1]},
    "extend": {"node": "w", "seqs": [1], "lease_ms": 60_000},
}
SETTLING = ("ack", "nack", "extend")

each_end = pytest.mark.parametrize("how", ["stop", "kill"])
each_verb = pytest.mark.parametrize("verb", BODIES)
each_settling = pytest.mark.parametrize("verb", SETTLING)


def queue(api: Api, topic: str, *datas: Any, **config: Any) -> None:
    """A queue with these jobs. Its leases are long unless told: a worker may be paused."""
    api.create(topic, type="queue", **({"lease_ms": HOUR_MS} | config))
    if datas:
        api.write(topic, *datas)


def call(api: Api, topic: str, verb: str, **fields: Any) -> Any:
    reply = api.post(f"/v0/topics/{topic}/{verb}", fields)
    assert reply.status == 200, (reply.status, reply.body)
    return reply.json


def claim(api: Api, topic: str, most: int = 1, *, node: str = "w", **fields: Any) -> Any:
    return call(api, topic, "claim", node=node, max=most, **fields)


def ack(api: Api, topic: str, *seqs: int, node: str = "w", **fields: Any) -> Any:
    return call(api, topic, "ack", node=node, seqs=list(seqs), **fields)


def nack(api: Api, topic: str, *seqs: int, node: str = "w", **fields: Any) -> Any:
    return call(api, topic, "nack", node=node, seqs=list(seqs), **fields)


def extend(api: Api, topic: str, *seqs: int, node: str = "w", **fields: Any) -> Any:
    return call(api, topic, "extend", node=node, seqs=list(seqs), **fields)


def extended_in_time(api: Api, prefix: str, **config: Any) -> str:
    """A queue of which 1 and 2 are leased for a moment, and 1 was extended before that was over;
    its name. A machine that was too slow for that gets another queue and more time."""
    for lease_ms in (2_000, 10_000, 50_000):
        name = f"{prefix}.{lease_ms}"
        queue(api, name, 1, 2, **config)
        claim(api, name, 2, lease_ms=lease_ms)
        if extend(api, name, 1, lease_ms=HOUR_MS)["extended"]:
            return name
    raise AssertionError("a lease was not extended, whether or not there was time for it")


def settle(api: Api, topic: str, verb: str, *seqs: int, node: str = "w", **fields: Any) -> int:
    """Ack, nack or extend; how many it was done to. The others must have been skipped."""
    answer = call(api, topic, verb, **(BODIES[verb] | {"node": node, "seqs": list(seqs)} | fields))
    done = int(answer[{"ack": "acked", "nack": "nacked", "extend": "extended"}[verb]])
    assert done + len(answer["skipped"]) == len(seqs), answer
    return done


def seqs_in(answer: Any) -> list[int]:
    """The seqs of the jobs in the answer to a claim."""
    assert answer["count"] == len(answer["claimed"]), answer
    return [job["$seq"] for job in answer["claimed"]]


def leases_in(answer: Any) -> list[str]:
    return [job["lease_id"] for job in answer["claimed"]]


def deliveries_in(answer: Any) -> dict[int, int]:
    """How often each job was delivered, this time included, by seq."""
    return {job["$seq"]: job["deliveries"] for job in answer["claimed"]}


def counts(api: Api, topic: str) -> tuple[int, int]:
    """How many jobs are ready, and how many in flight."""
    found = api.state(topic)["queue"]
    return found["ready"], found["in_flight"]


def dead_lettered(api: Api, topic: str) -> int:
    return int(api.state(topic)["queue"]["dead_lettered"])


def wait_for_counts(api: Api, topic: str, ready: int, in_flight: int) -> None:
    eventually(
        lambda: counts(api, topic) == (ready, in_flight), f"{ready} ready, {in_flight} in flight"
    )


def check_deadline(deadline: int, lease_ms: int, began: int) -> None:
    """The lease was given between `began` and now, for this long."""
    given = deadline - lease_ms
    assert began - CLOCK_SLACK_MS <= given <= now_ms() + CLOCK_SLACK_MS, (given, began)


def work(api: Api, topic: str, query: str = "node=w") -> EventStream:
    """An open stream of work."""
    return EventStream(api.address, f"/v0/topics/{topic}/work?{query}", api.headers())


def jobs(stream: EventStream, count: int) -> list[Any]:
    """The next jobs of a stream."""
    return [stream.one("job").json for _ in range(count)]


def stays_quiet(stream: EventStream) -> None:
    """No job comes, and the stream does not end."""
    with pytest.raises(AssertionError, match="no frame within"):
        stream.one("job", QUIET_S)


def restarted(server: Server, how: str = "stop") -> Api:
    """End the server this way and start it again."""
    if how == "stop":
        assert server.stop() == 0
    else:
        server.kill()
    return api_of(server.start())
