"""A file without a name."""

from __future__ import annotations

import os
from pathlib import Path

from penstock.projections.spill import SPILL_NAME, SpillFolder
from penstock.storage.fs import OsFilesystem


def test_what_is_appended_is_read_although_the_file_has_no_name(tmp_path: Path) -> None:
    file = SpillFolder(OsFilesystem(), str(tmp_path / "p")).create()

    places = [file.append(b"first"), file.append(b"second")]

    assert places == [0, 5]
    assert file.size == 11
    assert file.read(5, 6) == b"second"
    assert file.read(8, 100) == b"ond"
    assert list((tmp_path / "p").iterdir()) == []


def test_a_name_that_a_killed_process_left_is_no_obstacle(tmp_path: Path) -> None:
    (tmp_path / SPILL_NAME).write_bytes(b"old")

    file = SpillFolder(OsFilesystem(), str(tmp_path)).create()

    assert file.read(0, 10) == b""
    assert list(tmp_path.iterdir()) == []


def test_the_file_is_closed_when_nobody_holds_it(tmp_path: Path) -> None:
    before = len(os.listdir("/dev/fd"))
    file = SpillFolder(OsFilesystem(), str(tmp_path)).create()
    assert len(os.listdir("/dev/fd")) == before + 1

    del file

    assert len(os.listdir("/dev/fd")) == before
