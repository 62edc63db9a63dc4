"""What each class keeps when the process is stopped, killed, or its disk fails."""

from __future__ import annotations

import contextlib
import resource

import pytest

from tests.server.conftest import Start
from tests.server.support import JSON, Later, api_of, compact, datas_of, refused, seqs_of
from tests.server.wire import Connection, Ended
from tests.support.serving import MANY_SYNCS_S, Server, eventually


def end(server: Server, how: str) -> None:
    if how == "stop":
        assert server.stop() == 0
    else:
        server.kill()


@pytest.mark.parametrize("how", ["stop", "kill"])
@pytest.mark.parametrize("durability", ["disk", "fsync"])
def test_what_was_answered_survives(start: Start, durability: str, how: str) -> None:
    server = start()
    api = api_of(server)
    api.create("t", durability=durability)
    for n in range(0, 300, 3):
        api.write("t", n, n + 1, n + 2)
    end(server, how)

    server.start()

    api = api_of(server)
    answer = api.diff("t", limit=1000)
    assert datas_of(answer) == list(range(300))
    assert answer["tombstone"] is None
    state = api.state("t")
    assert state["count"] == 300
    assert 300 <= state["head_seq"] <= 300 + 256
    assert api.write("t", "next")["first_seq"] == state["head_seq"] + 1


def test_a_kill_in_the_middle_loses_nothing_that_was_answered(start: Start) -> None:
    server = start()
    api = api_of(server)
    api.create("t", durability="fsync")
    answered: list[int] = []

    def write_on() -> None:
        with contextlib.suppress(Ended, OSError), Connection(server.address) as wire:
            while True:
                body = compact({"records": [{"data": len(answered)}]}).encode()
                reply = wire.request("POST", "/v0/topics/t", body, JSON)
                assert reply.status == 200
                answered.append(reply.json["last_seq"])

    with Later(write_on) as writer:
        eventually(lambda: len(answered) > 100, "some writes", MANY_SYNCS_S)
        server.kill()
        writer.result()
    server.start()

    found = [
        record
        for start_ in range(0, len(answered) + 1, 1000)
        for record in api_of(server).diff("t", from_seq=start_, limit=1000)["records"]
    ]
    seqs = [record["$seq"] for record in found]
    assert seqs == list(range(1, len(seqs) + 1))
    assert len(seqs) >= len(answered)
    assert [record["data"] for record in found] == list(range(len(seqs)))


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_ephemeral_records_go_with_the_process_and_it_is_told(start: Start, how: str) -> None:
    server = start()
    api = api_of(server)
    api.create("t", durability="ephemeral")
    api.write("t", 1, 2, 3)
    assert seqs_of(api.diff("t")) == [1, 2, 3]
    end(server, how)

    server.start()

    api = api_of(server)
    assert api.state("t")["config"]["durability"] == "ephemeral"
    answer = api.diff("t")
    assert answer["records"] == []
    gap = answer["tombstone"]
    assert gap["gap_from"] == 1
    assert gap["gap_to"] >= 3
    assert gap["reason"] == "lost"
    assert api.write("t", 4)["first_seq"] > 3


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_memory_records_may_go_but_no_seq_is_used_twice(start: Start, how: str) -> None:
    server = start()
    api = api_of(server)
    api.create("t", durability="memory")
    api.write("t", 1, 2, 3)
    end(server, how)

    server.start()

    api = api_of(server)
    answer = api.diff("t")
    if how == "stop":
        assert datas_of(answer) == [1, 2, 3]
    lost = answer["tombstone"]
    told = range(lost["gap_from"], lost["gap_to"] + 1) if lost else range(0)
    assert set(seqs_of(answer)) | set(told) >= {1, 2, 3}
    assert api.write("t", 4)["first_seq"] > 3


@pytest.mark.parametrize(
    ("durability", "syncs"),
    [("ephemeral", False), ("memory", False), ("disk", False), ("fsync", True)],
)
def test_only_fsync_waits_for_a_sync(start: Start, durability: str, syncs: bool) -> None:
    api = api_of(start())
    api.create("t", durability=durability)

    costs = [api.write("t", n)["performance"]["fsync_ms"] for n in range(5)]

    assert [cost > 0 for cost in costs] == [syncs] * 5
    assert datas_of(api.diff("t")) == list(range(5))


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_deletes_survive(start: Start, how: str) -> None:
    server = start()
    api = api_of(server)
    api.tagged("t", *"abcabc")
    api.remove("t", match="b")
    api.remove("t", before_seq=2)
    api.tagged("t", "b")
    end(server, how)

    server.start()

    answer = api_of(server).diff("t")
    assert datas_of(answer) == ["c", "a", "c", "b"]
    assert seqs_of(answer) == [3, 4, 6, 7]
    assert answer["tombstone"] is None


def test_a_changed_class_counts_from_then_on(start: Start) -> None:
    server = start()
    api = api_of(server)
    api.create("t", durability="ephemeral")
    api.write("t", "first")
    api.create("t", durability="fsync")
    api.write("t", "second")
    server.kill()

    server.start()

    answer = api_of(server).diff("t")
    assert datas_of(answer)[-1] == "second"
    assert answer["records"][-1]["$seq"] == 2


def test_a_failed_write_closes_the_log_and_reading_goes_on(start: Start) -> None:
    """Until the next start, whatever happens to the disk meanwhile."""
    server = start()
    api = api_of(server)
    api.create("t", durability="fsync")
    api.write("t", "before")
    unlimited = resource.RLIM_INFINITY
    resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (0, unlimited))

    body = {"records": [{"data": "during"}]}
    refused(api.post("/v0/topics/t", body), 507, "storage_failed")
    resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (unlimited, unlimited))
    refused(api.post("/v0/topics/t", body), 507, "storage_failed")
    refused(api.put("/v0/topics/new"), 507, "storage_failed")
    refused(api.post("/v0/batch", {"writes": [{"topic": "t", **body}]}), 507, "storage_failed")

    assert datas_of(api.diff("t")) == ["before"]
    assert api.state("t")["count"] == 1
    server.kill()
    server.start()
    api = api_of(server)
    assert datas_of(api.diff("t")) == ["before"]
    assert api.write("t", "after")["last_seq"] >= 2
    assert api.get("/v0/topics/new").status == 404


def test_a_failed_log_is_seen_in_the_metrics(start: Start) -> None:
    server = start()
    api = api_of(server)
    api.create("t", durability="fsync")
    resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
    refused(api.post("/v0/topics/t", {"records": [{"data": 1}]}), 507, "storage_failed")

    assert "penstock_wal_read_only 1" in api.get("/v0/metrics").body.decode().splitlines()
