"""A server whose old segments go to a cold tier: readers notice nothing, and writers never do."""

from __future__ import annotations

import contextlib
import os
import threading
from pathlib import Path

import pytest

from tests.server.conftest import Start
from tests.server.support import Api, api_of, datas_of, refused
from tests.server.wire import Ended
from tests.support.rig import on_disk
from tests.support.serving import Server, eventually

RECORDS = 200


@pytest.fixture
def cold(tmp_path: Path) -> Path:
    return on_disk(tmp_path, "cold") / "tier"


@pytest.fixture
def server(start: Start, cold: Path) -> Server:
    """All but one segment of ten records are cold."""
    server = start(
        PENSTOCK_COLD_DIR=str(cold),
        PENSTOCK_SEGMENT_MAX_EVENTS="10",
        PENSTOCK_HOT_RETAIN_SEGMENTS="1",
    )
    api = api_of(server)
    api.create("t", durability="fsync")
    for n in range(0, RECORDS, 10):
        api.write("t", *range(n, n + 10))
    eventually(lambda: cold_segments(api) >= RECORDS // 10 - 1, "segments in the cold tier")
    return server


def cold_segments(api: Api) -> int:
    text = api.get("/v0/metrics").body.decode()
    line = next(one for one in text.splitlines() if one.startswith("penstock_cold_segments "))
    return int(float(line.split()[1]))


def test_old_records_are_read_before_and_after_a_kill(server: Server, cold: Path) -> None:
    assert len(list(cold.glob("topics/*/seg-*.data"))) >= RECORDS // 10 - 1
    assert datas_of(api_of(server).diff("t", limit=1000)) == list(range(RECORDS))

    server.kill()
    server.start()

    assert datas_of(api_of(server).diff("t", limit=1000)) == list(range(RECORDS))
    assert cold_segments(api_of(server)) >= RECORDS // 10 - 1


def test_a_tier_that_is_away_costs_old_records_only(server: Server, cold: Path) -> None:
    server.kill()
    server.start()  # nothing is mapped any more
    api = api_of(server)
    away = cold.rename(cold.parent / "elsewhere")

    reply = api.post("/v0/topics/t/diff", {"from_seq": 0})

    refused(reply, 503, "cold_unavailable")
    assert int(reply.headers["retry-after"]) > 0
    assert str(cold) not in reply.body.decode()
    assert api.write("t", "new")["last_seq"] == RECORDS + 1
    assert datas_of(api.diff("t", from_seq=RECORDS))[-1:] == ["new"]
    away.rename(cold)
    assert len(datas_of(api.diff("t", limit=1000))) == RECORDS + 1


def test_readers_of_a_tier_that_hangs_keep_nobody_waiting(server: Server, cold: Path) -> None:
    """More of them than there are threads for anything that waits for a disk."""
    server.kill()
    for path in cold.glob("topics/*/seg-*.data"):
        path.unlink()
        os.mkfifo(path)  # who opens it waits for somebody who writes
    server.start()
    api = api_of(server)

    def read() -> None:
        with contextlib.suppress(Ended, OSError):
            api.post("/v0/topics/t/diff", {"from_seq": 0})

    readers = [threading.Thread(target=read, daemon=True) for _ in range(12)]
    for reader in readers:
        reader.start()
    api.create("other", durability="fsync")
    api.write("other", 1)
    api.remove("t", before_seq=3)

    assert api.write("t", "new")["last_seq"] == RECORDS + 1
    assert datas_of(api.diff("t", from_seq=RECORDS - 5))[-1:] == ["new"]
    assert any(reader.is_alive() for reader in readers), "nobody was kept waiting"
    server.kill()
    for reader in readers:
        reader.join()


def test_a_dropped_topic_goes_from_the_tier(server: Server, cold: Path) -> None:
    api = api_of(server)
    (its,) = cold.glob("topics/*")
    api.drop("t")
    api.create("other", durability="fsync")

    def is_gone() -> bool:
        api.write("other", *range(10))  # checkpoints go on while something is written
        return not its.exists()

    eventually(is_gone, "nothing of the topic in the tier")
    eventually(lambda: list(cold.glob("topics/*/seg-*.data")), "the other topic there")
