from __future__ import annotations

from pathlib import Path

import penstock
from penstock.lake import counts
from penstock.lake.counts import TopicFacts
from penstock.lake.project import Source
from penstock.types import Offset
from tests.support.serving import DEADLINE_S, Server


def of(path: Path, *topics: str) -> Source:
    return Source(str(path), "", "", topics or ("*",))


def test_a_directory_tells_heads_floors_and_counts(tmp_path: Path) -> None:
    with penstock.open(tmp_path / "log") as log:
        log.append("a", list(range(10)))
        log.delete("a", before_seq=4)
        log.create("capped", cap_records=2)
        log.append("capped", [1, 2, 3, 4, 5])

    found = counts.of_source(of(tmp_path / "log"))

    assert found.log_id
    assert found.topics["a"] == TopicFacts("a", found.topics["a"].epoch, 10, 7, 0)
    capped = found.topics["capped"]
    assert (capped.head, capped.live, capped.lost_floor) == (5, 2, 3)
    assert found.live("a", 1, 5) == 2
    assert found.live("a", 6, 10) == 5


def test_only_topics_that_are_meant(tmp_path: Path) -> None:
    with penstock.open(tmp_path / "log") as log:
        for topic in ("a.x", "a.y", "b"):
            log.append(topic, [1])

    assert sorted(counts.of_source(of(tmp_path / "log", "a.*")).topics) == ["a.x", "a.y"]


def test_a_lag_is_counted_in_live_records(tmp_path: Path) -> None:
    with penstock.open(tmp_path / "log") as log:
        log.append("a", list(range(10)))
        log.delete("a", before_seq=4)
    found = counts.of_source(of(tmp_path / "log"))
    epoch = found.topics["a"].epoch

    assert counts.heads_of(found) == {"a": Offset(epoch, 10)}
    assert counts.lag_of(found, "a", Offset(epoch, 8)) == 2
    assert counts.lag_of(found, "a", Offset(epoch + 1, 8)) == 7
    assert counts.lag_of(found, "a", None) == 7


def test_a_server_tells_what_it_knows(tmp_path: Path) -> None:
    server = Server(tmp_path).start()
    try:
        host, port = server.connect_to
        url = f"http://{host}:{port}"
        with penstock.connect(url, timeout_s=DEADLINE_S) as client:
            client.create("capped", cap_records=2)
            client.append("capped", [1, 2, 3, 4, 5])

            found = counts.of_source(Source("", url, "PENSTOCK_NO_TOKEN", ("*",)))
    finally:
        server.close()

    capped = found.topics["capped"]
    assert (capped.head, capped.live, capped.lost_floor) == (5, 2, 3)
    assert found.live("capped", 1, 5) is None
    assert counts.lag_of(found, "capped", Offset(capped.epoch, 4)) == 1
