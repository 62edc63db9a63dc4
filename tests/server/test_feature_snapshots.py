"""Rows by the page, and snapshots that are loaded, over HTTP and through the client."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock.errors import InvalidArgument
from penstock.features.definition import Definition
from penstock.features.table_part import TablePart
from penstock.projections import checkpoint, state_folder
from penstock.projections.checkpoint import CheckpointIdentity
from penstock.storage.fs import OsFilesystem
from tests.server.conftest import Start
from tests.server.support import api_of, refused
from tests.support import halting_server
from tests.support.rig import ROOT
from tests.support.serving import DEADLINE_S, Server, eventually

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


def rides(count: int) -> list[dict[str, Any]]:
    return [{"rider": f"r{number % 5}", "fare": number / 7} for number in range(count)]


def url_of(server: Server) -> str:
    return f"http://127.0.0.1:{server.address[1]}"


def saved_in(server: Server, folder: Path) -> None:
    """Make the state that the server saved a folder, as a cluster would write it."""
    fs = OsFilesystem()
    (path,) = server.home.rglob("state.bin")
    stored = checkpoint.load(fs, str(path))
    part = TablePart(Definition.parse(DOCUMENT).plan("Riders"))
    folder.mkdir()
    identity = CheckpointIdentity(
        stored.log_id, stored.topic, stored.kind, stored.version, part.definition
    )
    (folder / "a.bin").write_bytes(path.read_bytes())
    state_folder.commit(
        fs, str(folder), state_folder.list_of(identity, stored.offset, 0, ["a.bin"])
    )


def test_all_rows_are_read_by_the_page(start: Start) -> None:
    with penstock.connect(url_of(start())) as client:
        client.features.register(DOCUMENT, wait_s=10)
        client.features.push("Ride", rides(23))

        first = client.features.scan("Riders", limit=3)
        second = client.features.scan("Riders", first.next_after or 0, now_ms=first.now_ms)
        some = client.features.scan("Riders", features=["n"])

        rows = {one.key[0]: one.row for one in [*first.rows, *second.rows]}
        assert second.next_after is None
        assert first.places[0].features == ["n", "spend"]
        assert first.places[0].applied is not None
        assert first.places[0].applied.seq == 23
        assert rows == {f"r{i}": client.features.get("Riders", f"r{i}") for i in range(5)}
        assert {one.key[0]: one.row for one in some.rows} == {
            rider: {"n": row["n"]} for rider, row in rows.items()
        }
        with pytest.raises(InvalidArgument, match="limit"):
            client.features.scan("Riders", limit=0)


def test_a_snapshot_is_loaded_while_events_come(start: Start, tmp_path: Path) -> None:
    server = start()
    with penstock.connect(url_of(server)) as client:
        client.features.register(DOCUMENT, wait_s=10)
        client.features.push("Ride", rides(40))
    server.stop()
    saved_in(server, tmp_path / "snapshot")
    server.start()
    with penstock.connect(url_of(server)) as client:
        client.features.push("Ride", rides(9))
        before = {f"r{i}": client.features.get("Riders", f"r{i}") for i in range(5)}

        loaded = client.features.load("Riders", str(tmp_path / "snapshot"))

        assert (loaded.snapshot.seq, loaded.applied.seq, loaded.keys) == (40, 49, 5)
        assert loaded.is_saved
        assert before == {f"r{i}": client.features.get("Riders", f"r{i}") for i in range(5)}
        assert len(client.features.table("Riders").log_id) == 32


class Traffic:
    """A thread that pushes an event and reads its row, over and over: the row always has all that
    was pushed. The fares are whole numbers, so that their sums are exact."""

    def __init__(self, client: penstock.Client) -> None:
        self.client = client
        self._moved = threading.Condition()
        self._is_over = False
        self._errors: list[BaseException] = []
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.pushed = 0
        self.rows: dict[str, dict[str, Any]] = {}

    def push(self, count: int) -> None:
        for _ in range(count):
            rider, fare = f"r{self.pushed % 5}", float(self.pushed)
            self.client.features.push("Ride", [{"rider": rider, "fare": fare}])
            row = self.rows.get(rider, {"n": 0, "spend": 0.0})
            self.rows[rider] = {"n": row["n"] + 1, "spend": row["spend"] + fare}
            assert self.client.features.get("Riders", rider) == self.rows[rider]
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


def test_pushes_and_reads_go_on_while_a_load_stands_still(tmp_path: Path) -> None:
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    server = Server(
        tmp_path / "server", {"PYTHONPATH": paths}, module="tests.support.halting_server"
    )
    loaded: list[Any] = []

    def load() -> None:
        with penstock.connect(url_of(server), timeout_s=DEADLINE_S) as client:
            loaded.append(client.features.load("Riders", str(tmp_path / "snapshot")))

    def at(step: str) -> None:
        """The load stands still there. Twenty rounds later it goes on."""
        eventually((server.home / step).exists, f"the load is at {step}")
        traffic.wait(20)
        assert not loaded
        (server.home / f"{step}.go").touch()

    try:
        server.start()
        with penstock.connect(url_of(server)) as client:
            client.features.register(DOCUMENT, wait_s=DEADLINE_S)
            traffic = Traffic(client)
            traffic.push(40)
        server.stop()
        saved_in(server, tmp_path / "snapshot")
        server.start()
        with penstock.connect(url_of(server)) as traffic.client:
            traffic.push(9)
            with traffic:
                loading = threading.Thread(target=load, daemon=True)
                loading.start()
                at(halting_server.RESTORED)
                at(halting_server.FOLDED)
                loading.join(DEADLINE_S)
                traffic.wait(20)
            rows = {key: traffic.client.features.get("Riders", key) for key in traffic.rows}

        assert [one.snapshot.seq for one in loaded] == [40]
        assert 40 + 9 + 2 * 20 <= loaded[0].applied.seq <= traffic.pushed
        assert rows == traffic.rows
        assert sum(row["n"] for row in traffic.rows.values()) == traffic.pushed
    finally:
        server.close()


def test_what_cannot_be_loaded_is_refused(start: Start, tmp_path: Path) -> None:
    api = api_of(start())
    assert api.post("/v0/features/definition", {**DOCUMENT, "wait_ms": 5000}).status == 200

    nothing = api.post("/v0/features/load", {"table": "Riders", "folder": str(tmp_path)})
    refused(nothing, 400, "invalid_request")
    assert "has no state.json" in nothing.json["error"]["message"]
    relative = api.post("/v0/features/load", {"table": "Riders", "folder": "snapshot"})
    refused(relative, 400, "invalid_request")
    assert "expected an absolute path" in relative.json["error"]["message"]
    unknown = api.post("/v0/features/load", {"table": "Riderz", "folder": str(tmp_path)})
    refused(unknown, 404, "table_not_found")
