"""A snapshot is loaded while events are pushed and rows are read: nobody waits for the load."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock import Log
from penstock.features import snapshot_load
from penstock.features.definition import Definition
from penstock.features.store import FeatureStore
from penstock.features.table_part import TablePart
from penstock.projections import state_folder
from penstock.projections.checkpoint import CheckpointIdentity
from penstock.projections.staged_state import StagedState
from penstock.storage.fs import OsFilesystem
from penstock.types import Offset

DEADLINE_S = 120.0  # far above what a busy machine takes; it only ends what hangs
KEYS = 3
BEFORE = 30  # events that the snapshot has
AFTER = 12  # events between the snapshot and the load
ROUNDS = 20  # pushes and reads while the load stands still
DOCUMENT: dict[str, Any] = {
    "events": [{"name": "Ride", "topic": "rides", "fields": {"rider": "str", "fare": "f64"}}],
    "tables": [
        {
            "name": "Riders",
            "from": "Ride",
            "key": ["rider"],
            "features": {"n": {"op": "count"}, "spend": {"op": "sum", "field": "fare"}},
        }
    ],
}


class Traffic:
    """A thread that pushes an event and reads its row, over and over: the row always has all that
    was pushed. The fares are whole numbers, so that their sums are exact."""

    def __init__(self, store: FeatureStore) -> None:
        self._store = store
        self.rows = {f"r{key}": {"n": 0, "spend": 0.0} for key in range(KEYS)}
        self.pushed = 0
        self._is_over = False
        self._errors: list[BaseException] = []
        self._moved = threading.Condition()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def push(self, count: int) -> None:
        for _ in range(count):
            rider, fare = f"r{self.pushed % KEYS}", float(self.pushed)
            self._store.push("Ride", [{"rider": rider, "fare": fare}])
            row = self.rows[rider]
            self.rows[rider] = {"n": row["n"] + 1, "spend": row["spend"] + fare}
            assert self._store.get("Riders", rider) == self.rows[rider]
            with self._moved:
                self.pushed += 1
                self._moved.notify_all()

    def __enter__(self) -> Traffic:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over = True
        self._thread.join(DEADLINE_S)
        assert not self._thread.is_alive()
        assert not self._errors, self._errors

    def wait(self, rounds: int) -> None:
        """Until so many more rounds are over."""
        with self._moved:
            until = self.pushed + rounds
            assert self._moved.wait_for(lambda: self.pushed >= until or self._errors, DEADLINE_S)
        assert not self._errors, self._errors

    def _run(self) -> None:
        try:
            while not self._is_over:
                self.push(1)
        except BaseException as error:  # noqa: BLE001 - for the test's own thread
            with self._moved:
                self._errors.append(error)
                self._moved.notify_all()


def written(log: Log, folder: Path, seq: int) -> None:
    """The folder that a cluster would write, with the first `seq` records."""
    fs, tail = OsFilesystem(), log.core.features.store._log.tail("rides")
    part = TablePart(Definition.parse(DOCUMENT).plan("Riders"))
    offset = Offset(0, 0)
    while offset.seq < seq:
        page = tail.read_columns(offset.seq, seq - offset.seq, part.wanted)
        assert page is not None
        part.apply(page.columns)
        offset = page.offset
    identity = CheckpointIdentity(tail.log_id, tail.topic, part.kind, part.version, part.definition)
    folder.mkdir()
    state_folder.write_file(fs, str(folder), "a.bin", identity, offset, 0, part.snapshot())
    state_folder.commit(fs, str(folder), state_folder.list_of(identity, offset, 0, ["a.bin"]))


def in_time(call: Callable[[], None]) -> None:
    """On a thread of its own, and it ends."""
    errors: list[BaseException] = []

    def run() -> None:
        try:
            call()
        except BaseException as error:  # noqa: BLE001 - for the test's own thread
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(DEADLINE_S)
    assert not thread.is_alive()
    assert not errors, errors


def test_pushes_and_reads_go_on_at_every_step_of_a_load(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    passed: list[str] = []
    seen: list[int] = []
    really_restored, really_folded = snapshot_load._restore, StagedState.catch_up
    with penstock.open(tmp_path / "log", wal_shards=1) as log:
        store = log.features
        store.register(DOCUMENT)
        traffic = Traffic(store)
        traffic.push(BEFORE)
        written(log, tmp_path / "snapshot", BEFORE)
        traffic.push(AFTER)

        def restored(*args: Any) -> None:
            really_restored(*args)
            traffic.wait(ROUNDS)
            passed.append("restored")

        def folded(staged: StagedState) -> int:
            count = really_folded(staged)
            seen.append(staged.applied.seq)
            if len(seen) == 1:
                traffic.wait(ROUNDS)
                passed.append("folded")
            else:  # no other thread may fold now
                in_time(push_and_look)
                passed.append("folded to the head")
            return count

        def push_and_look() -> None:
            before = store.get("Riders", "r0", eventual=True)["n"]
            store.push("Ride", [{"rider": "late", "fare": 1.0}])
            assert store.get("Riders", "r0", eventual=True)["n"] >= before

        monkeypatch.setattr(snapshot_load, "_restore", restored)
        monkeypatch.setattr(StagedState, "catch_up", folded)
        with traffic:
            loaded = store.load("Riders", str(tmp_path / "snapshot"))
            traffic.wait(ROUNDS)

        assert passed == ["restored", "folded", "folded to the head"]
        assert loaded.snapshot.seq == BEFORE
        assert BEFORE + AFTER + ROUNDS <= seen[0] < seen[1] <= loaded.applied.seq
        expected = {**traffic.rows, "late": {"n": 1, "spend": 1.0}}
        assert {rider: store.get("Riders", rider) for rider in expected} == expected
        (held,) = log.projections.all("features")
        assert held.runner.counts.rebuilds == 0

    with penstock.open(tmp_path / "log", wal_shards=1) as log:
        assert {rider: log.features.get("Riders", rider) for rider in expected} == expected
        assert sum(row["n"] for row in expected.values()) == traffic.pushed + 1
