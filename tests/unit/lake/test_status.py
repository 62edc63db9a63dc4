from __future__ import annotations

from pathlib import Path

import penstock
from penstock.lake import layout
from penstock.lake.manifest import DataFile, Manifest, ReadPosition
from penstock.lake.project import parsed
from penstock.lake.status import TableStatus, TopicStatus, status
from penstock.storage.fs import OsFilesystem

TEXT = '[source]\npath = "log"\ntopics = "*"\n'


def test_a_lake_that_was_never_run_is_all_behind(tmp_path: Path) -> None:
    with penstock.open(tmp_path / "log") as log:
        log.append("a", [1, 2, 3])

    found = status(OsFilesystem(), parsed(TEXT, str(tmp_path)))

    assert found.tables == [TableStatus("bronze", 0, "none", 0, {}, 0, 0)]
    assert found.lag == 3
    assert not found.is_running
    assert not (tmp_path / "lake").exists()


def test_what_is_committed_and_what_is_not(tmp_path: Path) -> None:
    with penstock.open(tmp_path / "log") as log:
        log.append("a", [1, 2, 3])
        epoch = log.topics()[0].epoch
    fs, project = OsFilesystem(), parsed(TEXT, str(tmp_path))
    layout.bronze(fs, project).commit(
        Manifest(
            table="bronze",
            version=1,
            act="ingest",
            made_ms=5,
            offsets={"a": ReadPosition(epoch, 2)},
            files=[DataFile("records", "x", 2, 99, ""), DataFile("gaps", "y", 1, 1, "")],
        )
    )

    with layout.locked(fs, project):
        found = status(fs, project)

    assert found.tables[0].rows == {"gaps": 1, "records": 2}
    assert found.tables[0].bytes == 100
    assert found.topics == [TopicStatus("a", epoch, 2, 3, 1)]
    assert found.is_running
