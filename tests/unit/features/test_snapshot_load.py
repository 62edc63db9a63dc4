"""A table takes over a snapshot that was built elsewhere, without being away."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import numpy as np
import pytest

from penstock.engine.engine import Log
from penstock.engine.open_log import open_log
from penstock.errors import InvalidArgument
from penstock.features.definition import Definition
from penstock.features.store import FeatureStore
from penstock.features.table_part import TablePart
from penstock.projections import state_folder
from penstock.projections.checkpoint import CheckpointIdentity
from penstock.testing.clock import FakeClock
from penstock.testing.fs import MemoryFilesystem
from penstock.types import Offset
from tests.support import feature_history, seeds

HOME = "/snapshots/1"
DOCUMENT = feature_history.document(cold_after=None)
DEFINITION = Definition.parse(DOCUMENT)
NAMES = ("count", "sum", "mean_w", "top_k")


class Opened:
    """A log with a table, on a file system that can be opened again."""

    def __init__(self) -> None:
        self.fs = MemoryFilesystem()
        self.fs.make_dirs(HOME)
        self.clock = FakeClock(feature_history.START_MS)
        self.log: Log | None = None
        self.store = self.open()

    def open(self) -> FeatureStore:
        self.close()
        self.log = open_log("/data", fs=self.fs, clock=self.clock, background=False)
        self.store = self.log.core.features.store
        return self.store

    def close(self) -> None:
        if self.log is not None:
            self.log.close()
            self.log = None

    def append(self, texts: list[bytes]) -> None:
        self.store._log.append("events", texts, is_synced=False)

    def snapshot(
        self, seq: int, *, features: tuple[str, ...] = NAMES, epoch: int = 0, **other: Any
    ) -> None:
        """Write the folder that a cluster would, with the first `seq` records."""
        tail = self.store._log.tail("events")
        part = TablePart(DEFINITION.part("T", features).plan("T"))
        page = tail.read_columns(0, seq, part.wanted)
        assert page is not None
        part.apply(page.columns)
        named = {"log_id": tail.log_id, "topic": "events"} | other
        identity = CheckpointIdentity(
            named["log_id"], named["topic"], part.kind, part.version, part.definition
        )
        offset = Offset(epoch or page.epoch, seq)
        state_folder.write_file(self.fs, HOME, "a.bin", identity, offset, 0, part.snapshot())
        state_folder.commit(self.fs, HOME, state_folder.list_of(identity, offset, 0, ["a.bin"]))

    def rows(self) -> dict[str, dict[str, Any]]:
        keys = [(f"u{user}", band) for user in range(4) for band in range(2)]
        return {f"{key}": self.store.get("T", key) for key in keys}


@pytest.fixture
def opened() -> Iterator[Opened]:
    here = Opened()
    part = DEFINITION.part("T", NAMES[:3])
    here.store.register(part.to_json())
    here.append(history())
    yield here
    here.close()


def history(count: int = 200) -> list[bytes]:
    return list(feature_history.events(Random(seeds.new_seed()), count, keys=4))


def test_a_loaded_snapshot_and_what_came_after_it_are_the_fold_of_all(opened: Opened) -> None:
    before = opened.rows()
    opened.snapshot(120)

    loaded = opened.store.load("T", HOME)
    opened.append(history(220)[200:])

    assert (loaded.table, loaded.snapshot.seq, loaded.applied.seq) == ("T", 120, 200)
    assert loaded.keys == 8
    assert loaded.is_saved
    assert loaded.parts == ["T.1"]
    again = opened.rows()
    assert again != before
    opened.store._host.rebuild("features", "T.1")
    assert opened.rows() == again


def test_it_has_the_history_that_the_topic_no_longer_has(opened: Opened) -> None:
    before = opened.rows()
    opened.snapshot(200)
    assert opened.log is not None
    opened.log.create("events", cap_records=20)
    opened.store._host.rebuild("features", "T.1")
    assert opened.rows() != before

    opened.store.load("T", HOME)

    assert opened.rows() == before
    opened.open()
    assert opened.rows() == before


def test_a_part_with_removed_features_takes_a_snapshot_that_has_none_of_them(
    opened: Opened,
) -> None:
    kept = DEFINITION.part("T", ("count", "sum")).to_json()
    opened.store.register(kept, force=True)
    before = opened.rows()
    opened.snapshot(200, features=("count", "sum"))
    assert opened.log is not None
    opened.log.create("events", cap_records=20)
    opened.store._host.rebuild("features", "T.1")
    assert opened.rows() != before

    loaded = opened.store.load("T", HOME)

    assert loaded.parts == ["T.1"]
    assert opened.rows() == before
    opened.append(history(220)[200:])
    rows = opened.rows()
    assert rows != before
    opened.open()
    assert opened.rows() == rows


def test_a_removed_feature_that_a_loaded_part_lacks_is_built_anew_when_it_is_wanted_again(
    opened: Opened,
) -> None:
    whole = DEFINITION.part("T", NAMES[:3]).to_json()
    wanted = opened.rows()
    opened.store.register(DEFINITION.part("T", ("count", "sum")).to_json(), force=True)
    opened.snapshot(200, features=("count", "sum"))
    opened.store.load("T", HOME)

    opened.store.register(whole)

    assert opened.store.wait(60)
    assert opened.rows() == wanted
    assert {part.id for part in opened.store.table("T").parts} == {"T.1", "T.2"}


def test_a_snapshot_older_than_what_the_topic_has_is_refused(opened: Opened) -> None:
    opened.snapshot(100)
    assert opened.log is not None
    opened.log.create("events", cap_records=20)
    before = opened.rows()

    with pytest.raises(InvalidArgument, match=r"ends at seq 100, and the records 101 to 180"):
        opened.store.load("T", HOME)

    assert opened.rows() == before


@pytest.mark.parametrize(
    ("made", "why"),
    [
        ({"log_id": bytes(16)}, "of log 0{32}: expected topic 'events' of log"),
        ({"topic": "others"}, "is of topic 'others' of log"),
        ({"epoch": 9}, "has epoch 9 of topic 'events'"),
        ({"features": ("count", "sum")}, "it lacks mean_w of part T.1"),
    ],
)
def test_a_snapshot_of_something_else_is_refused(
    opened: Opened, made: dict[str, Any], why: str
) -> None:
    before = opened.rows()
    opened.snapshot(100, **made)

    with pytest.raises(InvalidArgument, match=why):
        opened.store.load("T", HOME)

    assert opened.rows() == before


def test_a_snapshot_newer_than_the_log_is_refused(opened: Opened) -> None:
    opened.snapshot(100)
    state = state_folder.load_list(opened.fs, HOME)
    assert state is not None
    part = TablePart(DEFINITION.part("T", NAMES).plan("T"))
    offset = Offset(state.epoch, 201)
    state_folder.write_file(opened.fs, HOME, "b.bin", state.identity, offset, 0, part.snapshot())
    state_folder.commit(opened.fs, HOME, state_folder.list_of(state.identity, offset, 0, ["b.bin"]))

    with pytest.raises(InvalidArgument, match=r"newer than the log: .* up to seq 201"):
        opened.store.load("T", HOME)


def test_parts_with_a_changed_feature_keep_their_state(opened: Opened) -> None:
    opened.snapshot(100)
    table = DEFINITION.part("T", NAMES[:3]).to_json()["tables"][0]
    table["features"]["sum"]["where"] = "(n > 5)"
    opened.store.register({"tables": [table]}, force=True)
    before = opened.rows()

    assert opened.store.load("T", HOME).parts == ["T.1"]
    assert opened.rows() == before
    table["steps"] = []
    opened.store.register({"tables": [table]}, force=True)
    with pytest.raises(InvalidArgument, match="built with another event, steps or key"):
        opened.store.load("T", HOME)


def test_a_file_with_other_content_is_refused(opened: Opened) -> None:
    opened.snapshot(100)
    state = state_folder.load_list(opened.fs, HOME)
    assert state is not None
    junk = np.arange(64, dtype=np.uint8).tobytes()
    state_folder.write_file(opened.fs, HOME, "a.bin", state.identity, state.offset, 0, [junk, junk])
    before = opened.rows()

    with pytest.raises(InvalidArgument, match="the snapshot cannot be used"):
        opened.store.load("T", HOME)

    assert opened.rows() == before


def test_a_scan_has_every_row_and_where_it_was_read(opened: Opened) -> None:
    now_ms = feature_history.START_MS + 30_000
    found: dict[str, dict[str, Any]] = {}
    after: int | None = 0
    pages = 0
    while after is not None:
        page = opened.store.scan("T", after, 3, now_ms=now_ms, features=["count", "sum"])
        assert (page.now_ms, page.places[0].features) == (now_ms, ["count", "sum"])
        assert page.places[0].applied is not None
        assert page.places[0].applied.seq == 200
        found |= {f"{tuple(one.key)}": one.row for one in page.rows}
        after = page.next_after
        pages += 1

    assert pages == 3
    assert found == {
        key: {name: row[name] for name in ("count", "sum")} for key, row in opened.rows().items()
    }


def test_a_page_that_cannot_be_is_refused(opened: Opened) -> None:
    for after, limit in ((-1, 1), (0, 0), (0, 10_001)):
        with pytest.raises(InvalidArgument, match="invalid page"):
            opened.store.scan("T", after, limit)
