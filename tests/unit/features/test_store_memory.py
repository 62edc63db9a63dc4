"""A store with little memory: what it does not keep is on disk, and nobody sees a difference."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.engine.engine import Log
from penstock.engine.open_log import open_log
from penstock.errors import InvalidDefinition, NotReady, ProjectionFailed
from penstock.feature_types import FeaturePartStatus, FeatureRead, FeatureScan
from penstock.features.evicted_keys import EvictedKeys
from penstock.features.feature_view import part_of
from penstock.features.store import FeatureStore
from penstock.features.table_part import TablePart
from penstock.limits import TABLE_MEMORY_MIN
from penstock.projections.host import HostedProjection
from penstock.testing.clock import FakeClock
from penstock.testing.fs import MemoryFilesystem

EVENT = {"name": "Ride", "fields": {"rider": "i64", "fare": "f64"}}
FEATURES: dict[str, Any] = {
    "n": {"op": "count", "window": "1h"},
    "spend": {"op": "sum", "field": "fare"},
    "fares": {"op": "last_n", "field": "fare", "n": 3},
}
RIDERS = 15_000
STEP = 5_000


def definition(**options: Any) -> dict[str, Any]:
    table = {"name": "Riders", "from": "Ride", "key": ["rider"], "features": FEATURES, **options}
    return {"events": [EVENT], "tables": [table]}


class Small:
    """A log whose feature tables have little memory."""

    def __init__(self) -> None:
        self.fs = MemoryFilesystem()
        self.log: Log | None = None
        self.store = self.open()

    def open(self) -> FeatureStore:
        self.close()
        self.log = open_log(
            "/data",
            fs=self.fs,
            clock=FakeClock(),
            background=False,
            feature_bytes_max=TABLE_MEMORY_MIN,
        )
        self.store = self.log.core.features.store
        return self.store

    def close(self) -> None:
        if self.log is not None:
            self.log.close()
            self.log = None

    def push(self, first: int = 0, count: int = RIDERS) -> None:
        for at in range(first, first + count, STEP):
            riders = range(at, at + STEP)
            self.store.push("Ride", [{"rider": one, "fare": one / 4} for one in riders])
            self.store.get("Riders", 0)

    def pages(self) -> Iterator[FeatureScan]:
        after: int | None = 0
        while after is not None:
            page = self.store.scan("Riders", after, 1000)
            yield page
            after = page.next_after

    @property
    def status(self) -> FeaturePartStatus:
        (part,) = self.store.table("Riders").parts
        return part

    @property
    def held(self) -> HostedProjection:
        if self.log is None:
            raise AssertionError("the log is closed")
        (held,) = self.log.projections.all("features")
        return held

    @property
    def part(self) -> TablePart:
        return part_of(self.held)

    @property
    def evicted(self) -> EvictedKeys:
        memory = self.part.memory
        if memory is None:
            raise AssertionError("the part has no bound")
        return memory.evicted


@pytest.fixture
def small() -> Iterator[Small]:
    here = Small()
    here.store.register(definition())
    yield here
    here.close()


def row(rider: int, events: int = 1) -> dict[str, Any]:
    return {"n": events, "spend": rider / 4 * events, "fares": [rider / 4] * events}


def test_status_shows_what_is_where(small: Small) -> None:
    small.push()

    status = small.status
    assert status.keys == RIDERS
    assert 0 < status.keys_on_disk < RIDERS
    assert status.bytes <= status.bytes_max == TABLE_MEMORY_MIN
    assert status.disk_bytes > 64 * status.keys_on_disk
    assert status.evicted - status.reloaded == status.keys_on_disk


def test_rows_on_disk_are_read_and_folded_into(small: Small) -> None:
    small.push()
    small.push(first=0, count=STEP)

    assert small.status.reloaded > 0
    for rider in (*range(0, STEP, 500), STEP - 1):
        assert small.store.get("Riders", rider) == row(rider, 2)
    for rider in (*range(STEP, RIDERS, 500), RIDERS - 1):
        assert small.store.get("Riders", rider) == row(rider)
    assert small.store.get("Riders", RIDERS) == {}


def test_a_scan_has_every_row_once_and_leaves_the_keys_where_they_are(small: Small) -> None:
    """Also those of features that another part has."""
    small.push()
    recent = {"op": "first_n", "field": "fare", "n": 2}
    small.store.register(definition(features={**FEATURES, "recent": recent}))
    assert small.store.wait(5)
    before = small.store.table("Riders").parts
    assert [part.keys_on_disk > 0 for part in before] == [True, True]
    found: dict[int, dict[str, Any]] = {}
    rows = 0

    for page in small.pages():
        rows += len(page.rows)
        found |= {int(one.key[0]): one.row for one in page.rows}
        assert [place.applied for place in page.places] == [part.applied for part in before]

    assert rows == RIDERS
    assert found == {one: {**row(one), "recent": [one / 4]} for one in range(RIDERS)}
    assert small.store.table("Riders").parts == before


def test_damage_that_a_scan_finds_is_folded_again(small: Small) -> None:
    small.push()
    for file in small.evicted._files.values():
        file._file.truncate(0)

    with pytest.raises(NotReady):
        small.store.scan("Riders", 0, RIDERS // 2)
    small.store.wait(5)

    assert small.status.rebuilds == 1
    assert sum(len(page.rows) for page in small.pages()) == RIDERS


def test_saved_state_has_the_keys_on_disk_and_is_loaded_within_the_bound(small: Small) -> None:
    small.push()

    small.open()

    assert small.store.get("Riders", 3) == row(3)
    status = small.status
    assert (status.keys, status.rebuilds) == (RIDERS, 0)
    assert status.keys_on_disk > 0
    assert status.bytes <= status.bytes_max
    assert small.store.get("Riders", RIDERS - 1) == row(RIDERS - 1)


@pytest.mark.parametrize("is_saved", [False, True])
def test_damage_on_disk_leads_to_another_fold_and_not_to_a_wrong_row(
    small: Small, is_saved: bool
) -> None:
    small.push()
    if is_saved:
        assert small.held.runner.save()
    folded = small.held.runner.counts.records
    for file in small.evicted._files.values():
        for at in range(0, file.size, 64):
            file._file.write_at(bytes([file.read(at, 1)[0] ^ 4]), at)

    with pytest.raises(NotReady):
        small.store.get("Riders", 1)
    small.store.wait(5)

    assert small.status.rebuilds == 1
    assert "damaged" in small.held.runner.counts.rebuild_reason
    assert small.held.runner.counts.records == folded * (1 if is_saved else 2)
    for rider in range(0, RIDERS, 1000):
        assert small.store.get("Riders", rider) == row(rider)


def test_damage_that_an_event_finds_is_folded_again_at_once(small: Small) -> None:
    small.push()
    for file in small.evicted._files.values():
        file._file.truncate(0)

    small.push(first=0, count=STEP)

    assert small.status.rebuilds == 1
    assert small.store.get("Riders", 1) == row(1, 2)


def test_damage_that_a_save_finds_is_folded_again(small: Small) -> None:
    small.push()
    for file in small.evicted._files.values():
        file._file.truncate(0)

    assert not small.held.runner.save()

    assert small.store.wait(5)
    assert small.status.rebuilds == 1
    assert small.held.runner.save()


def test_a_full_disk_stops_the_part_and_not_the_log(small: Small) -> None:
    small.fs.fail("write", short=0, error=errno.ENOSPC, persistent=True, path="evicted")

    with pytest.raises(ProjectionFailed, match="keys cannot be moved to disk: No space"):
        small.push()
    pushed = small.store.push("Ride", {"rider": 1, "fare": 2.0})

    assert small.status.state == "failed"
    assert pushed.count == 1
    small.fs.heal()
    small.held.runner.rebuild()
    assert small.store.get("Riders", 2) == row(2)


def test_more_memory_for_a_table_rebuilds_nothing(small: Small) -> None:
    small.push()
    assert small.status.keys_on_disk

    registered = small.store.register(definition(memory_max="64MiB"))
    small.push(first=0, count=STEP)

    assert [change["cost"] for change in registered.changes] == ["nothing"]
    assert (small.status.bytes_max, small.status.rebuilds) == (64 << 20, 0)
    assert small.store.get("Riders", 1) == row(1, 2)


def test_a_bound_that_is_no_size_is_refused(small: Small) -> None:
    with pytest.raises(InvalidDefinition, match=r"Riders.memory_max: invalid size") as raised:
        small.store.register(definition(memory_max="much"))

    assert raised.value.path == "tables.Riders.memory_max"


def test_nothing_is_left_in_the_folder(tmp_path: Path) -> None:
    with open_log(tmp_path, background=False, feature_bytes_max=TABLE_MEMORY_MIN) as log:
        store = log.core.features.store
        store.register(definition())
        for at in range(0, RIDERS, STEP):
            store.push("Ride", [{"rider": one, "fare": 1.0} for one in range(at, at + STEP)])
            store.get("Riders", 0)
        assert store.table("Riders").parts[0].disk_bytes
        (folder,) = (tmp_path / "projections").iterdir()
        assert [path.name for path in folder.iterdir()] == []

    assert [path.name for path in folder.iterdir()] == ["state.bin"]


def test_a_read_that_needs_the_disk_is_not_quick(small: Small) -> None:
    small.push()
    store = small.store
    on_disk = [one for one in range(RIDERS) if not small.part.is_in_memory((one,))][:3]

    def is_quick(*riders: int) -> bool:
        return store.is_quick([FeatureRead("Riders", rider) for rider in riders], 10)

    assert is_quick(RIDERS - 1)
    assert not is_quick(on_disk[0])
    assert not is_quick(RIDERS - 1, on_disk[1])
    store.get("Riders", on_disk[2])
    assert is_quick(on_disk[2])
    store.push("Ride", [{"rider": 0, "fare": 1.0}])
    assert not is_quick(on_disk[2])  # its fold may move keys


def test_reads_of_a_table_in_memory_are_quick_until_much_is_to_be_folded(small: Small) -> None:
    small.store.push("Ride", [{"rider": one, "fare": 1.0} for one in range(11)])
    reads = [FeatureRead("Riders", 1), FeatureRead("Riders", "a wrong key"), FeatureRead("None", 1)]

    assert small.store.is_quick(reads, 11)
    assert not small.store.is_quick(reads, 10)
